#include "partition/simulate/timeline.h"

#include <algorithm>
#include <numeric>

#include "ir/error.h"
#include "partition/lower/list_uses.h"
#include "partition/simulate/bound.h"
#include "partition/simulate/ports.h"

namespace smex {
namespace {

constexpr double kUnknown = Ports::kNever;

/// One list of all workers.
class Simulation {
 public:
  Simulation(const Program& program, const InstrSeconds& seconds, const std::vector<int>& ranks,
             const Transfers& transfers, bool backward)
      : seconds_(seconds),
        ranks_(ranks),
        backward_(backward),
        ports_(program, seconds, transfers, program.num_workers, backward),
        workers_(program.num_workers) {
    for (int w = 0; w < program.num_workers; ++w) {
      Worker& worker = workers_[w];
      worker.list = &program.workers[w].list(backward);
      worker.spans.reserve(worker.list->size());
      // What another list makes is there.
      worker.written.assign(program.workers[w].num_slots, 0);
      worker.writers.assign(program.workers[w].num_slots, -1);
      for (const Instr& instr : *worker.list) {
        for_each_made(instr, [&](Slot slot) { worker.written[slot] = kUnknown; });
      }
      for (Slot slot = 0; slot < program.workers[w].num_slots; ++slot) {
        if (worker.written[slot] == 0) ports_.written(w, slot, 0, {});
      }
    }
  }

  void run(Timeline& timeline) {
    const int num_workers = static_cast<int>(workers_.size());
    std::vector<Event> events(num_workers);
    for (int w = 0; w < num_workers; ++w) events[w] = next_event(w);
    while (true) {
      const auto soonest =
          std::min_element(events.begin(), events.end(),
                           [](const Event& a, const Event& b) { return a.time < b.time; });
      const Event next = *soonest;
      const int which = static_cast<int>(soonest - events.begin());
      const double port = ports_.next();
      if (next.time == kUnknown && port == kUnknown) break;
      if (port < next.time) {  // all that is written until then is known
        for (const auto& [reader, position] : ports_.begin_next()) {
          events[reader] = next_event(reader);
        }
        continue;
      }
      next.open >= 0 ? take(which, next.open) : step(which);
      for (int w = 0; w < num_workers; ++w) {
        if (ranks_[w] == ranks_[which]) events[w] = next_event(w);  // tiles that it reads in place
      }
    }
    double last = 0;
    for (int w = 0; w < num_workers; ++w) {
      const Worker& worker = workers_[w];
      if (worker.next < length(worker) || !worker.open.empty()) {
        throw InternalError("simulate: worker " + std::to_string(w) +
                            " waits for what nobody writes, at instruction " +
                            std::to_string(worker.next));
      }
      last = std::max(last, worker.clock);
      timeline.busy[w] += worker.busy;
      timeline.waiting[w] += worker.waiting;
      timeline.transferred[w] += ports_.transferred(ranks_[w]);
    }
    record(timeline);
    timeline.seconds += last;
  }

 private:
  struct Open {
    const Instr* instr = nullptr;
    int position = 0, due = 0;
    double arrives = kUnknown;  ///< all that it needs; once that is known
  };

  struct Worker {
    const std::vector<Instr>* list = nullptr;
    int next = 0;
    double clock = 0, busy = 0, waiting = 0;
    std::vector<Open> open;
    std::vector<double> written;  ///< by slot
    std::vector<int> writers;     ///< by slot the instruction of `spans`
    std::vector<InstrSpan> spans;
  };

  /// Adds what was to the course of an iteration, after the lists before.
  void record(Timeline& timeline) const {
    Course& course = timeline.course;
    course.instructions.resize(workers_.size());
    std::vector<int> before;
    for (const auto& spans : course.instructions) before.push_back(static_cast<int>(spans.size()));
    const int messages_before = static_cast<int>(course.messages.size());
    const std::vector<Cause> path = course.critical_path();
    const Cause last = path.empty() ? Cause{} : path.back();
    const auto shifted = [&](auto span) {
      span.begin += timeline.seconds;
      span.end += timeline.seconds;
      Cause& cause = span.cause;
      if (cause.kind == Cause::Kind::kNothing) {
        cause = last;
      } else {
        const bool is_message = cause.kind == Cause::Kind::kMessage;
        cause.index += is_message ? messages_before : before[cause.worker];
      }
      return span;
    };
    for (size_t w = 0; w < workers_.size(); ++w) {
      auto& spans = course.instructions[w];
      spans.reserve(spans.size() + workers_[w].spans.size());
      for (const InstrSpan& span : workers_[w].spans) spans.push_back(shifted(span));
    }
    for (const MessageSpan& span : ports_.spans()) {
      timeline.messages[backward_].push_back(span.message);
      course.messages.push_back(shifted(span));
      course.messages.back().arrives += timeline.seconds;
    }
  }

  static int length(const Worker& worker) { return static_cast<int>(worker.list->size()); }

  /// What a worker does next: an open instruction, or the one that follows in its list.
  struct Event {
    double time = kUnknown;  ///< never, as far as is known
    int open = -1;
  };

  Event next_event(int number) {
    Worker& worker = workers_[number];
    Event soonest;
    bool is_due = false;
    for (size_t n = 0; n < worker.open.size(); ++n) {
      Open& open = worker.open[n];
      if (open.arrives == kUnknown) open.arrives = arrival(number, open);
      if (open.arrives < soonest.time) soonest = {open.arrives, static_cast<int>(n)};
      is_due = is_due || open.due <= worker.next;
    }
    if (is_due || soonest.time <= worker.clock) {
      return {std::max(soonest.time, worker.clock), soonest.open};
    }
    if (worker.next == length(worker)) return {};
    return {worker.clock, -1};
  }

  void step(int number) {
    Worker& worker = workers_[number];
    const Instr& instr = (*worker.list)[worker.next];
    const int due = due_of(instr);
    if (due > worker.next || is_remote(instr, number)) {
      worker.open.push_back({&instr, worker.next, std::max(due, worker.next + 1)});
    } else {
      const double begin = worker.clock;
      spend(worker, seconds_[number][backward_][worker.next]);
      ran(number, worker.next, begin, previous(number));
      write(number, instr);
    }
    ++worker.next;
  }

  static bool is_remote(const Instr& instr, int worker) {
    const auto* fetch = std::get_if<FetchInstr>(&instr);
    return fetch && reads_others(*fetch, worker);
  }

  static void spend(Worker& worker, double seconds) {
    worker.clock += seconds;
    worker.busy += seconds;
  }

  Cause instruction(int worker, int span) const {
    if (span < 0) return {};
    return {Cause::Kind::kInstruction, worker, span};
  }

  Cause previous(int number) const {
    return instruction(number, static_cast<int>(workers_[number].spans.size()) - 1);
  }

  void ran(int number, int position, double begin, const Cause& cause) {
    Worker& worker = workers_[number];
    worker.spans.push_back({backward_, position, begin, worker.clock, cause});
  }

  /// What the last instruction that has run made.
  void write(int number, const Instr& instr) {
    Worker& worker = workers_[number];
    const Cause by = previous(number);
    for_each_made(instr, [&](Slot slot) {
      worker.written[slot] = worker.clock;
      worker.writers[slot] = by.index;
      ports_.written(number, slot, worker.clock, by);
    });
  }

  /// What an open instruction waited for last.
  Cause awaited(int number, const Open& open) const {
    Cause cause;
    double latest = 0;
    const auto wrote = [&](int worker, Slot slot) {
      if (workers_[worker].written[slot] < latest) return;
      latest = workers_[worker].written[slot];
      cause = instruction(worker, workers_[worker].writers[slot]);
    };
    for_each_needed(number, open, wrote);
    if (!std::holds_alternative<FetchInstr>(*open.instr)) return cause;
    const Ports::Brought& moved = ports_.brought(number, open.position);
    const bool is_last = moved.last >= 0 && moved.arrives >= latest;
    return is_last ? Cause{Cause::Kind::kMessage, number, moved.last} : cause;
  }

  /// Calls `visit` with the workers and slots of its own process that an open instruction reads.
  template <typename Visit>
  void for_each_needed(int number, const Open& open, const Visit& visit) const {
    if (const auto* fetch = std::get_if<FetchInstr>(open.instr)) {
      for (const CopyPart& part : fetch->parts) {
        if (ranks_[part.worker] == ranks_[number]) visit(part.worker, part.slot);
      }
    } else {
      for_each_read(*open.instr, number, [&](Slot slot) { visit(number, slot); });
    }
  }

  /// When all that an open instruction needs is there.
  double arrival(int number, const Open& open) const {
    double latest = ports_.brought(number, open.position).arrives;
    if (latest == kUnknown) return latest;
    for_each_needed(number, open, [&](int worker, Slot slot) {
      latest = std::max(latest, workers_[worker].written[slot]);
    });
    return latest;
  }

  void take(int number, int which) {
    Worker& worker = workers_[number];
    const Open open = worker.open[which];
    const double waited = std::max(0.0, open.arrives - worker.clock);
    const Cause cause = waited > 0 ? awaited(number, open) : previous(number);
    worker.waiting += waited;
    worker.clock += waited;
    const double begin = worker.clock;
    if (const auto moved = ports_.brought(number, open.position); moved.on_its_way > 0) {
      const double hidden = std::max(0.0, moved.on_its_way - waited);
      spend(worker, hidden / moved.on_its_way * moved.charged);
    }
    spend(worker, seconds_[number][backward_][open.position]);
    ran(number, open.position, begin, cause);
    write(number, *open.instr);
    worker.open.erase(worker.open.begin() + which);
  }

  const InstrSeconds& seconds_;
  const std::vector<int>& ranks_;
  const bool backward_;
  Ports ports_;
  std::vector<Worker> workers_;
};

void check(const Program& program, const InstrSeconds& seconds, const Mesh& mesh,
           const Machine& machine, const std::vector<int>& ranks) {
  const std::vector<Link>& links = machine.links;
  if (links.size() != mesh.size() || mesh_size(mesh) != program.num_workers) {
    throw UserError("simulate: a program of " + std::to_string(program.num_workers) +
                    " workers, a mesh of " + std::to_string(mesh_size(mesh)) + " in " +
                    std::to_string(mesh.size()) + " steps, and " + std::to_string(links.size()) +
                    " links");
  }
  const bool are_ranks = ranks.size() == program.workers.size() &&
                         std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
                           return 0 <= rank && rank < program.num_workers;
                         });
  if (!are_ranks) throw UserError("simulate: expected the process of each worker");
  bool is_right = seconds.size() == program.workers.size();
  for (size_t w = 0; is_right && w < seconds.size(); ++w) {
    for (const bool backward : {false, true}) {
      is_right =
          is_right && seconds[w][backward].size() == program.workers[w].list(backward).size();
    }
  }
  if (!is_right) throw UserError("simulate: expected seconds for each instruction of each worker");
}

}  // namespace

Timeline simulate(const Program& program, const InstrSeconds& seconds, const Mesh& mesh,
                  const Machine& machine, std::vector<int> ranks) {
  if (ranks.empty()) {
    ranks.resize(program.num_workers);
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  check(program, seconds, mesh, machine, ranks);
  Timeline timeline;
  for (auto* numbers : {&timeline.busy, &timeline.waiting, &timeline.transferred}) {
    numbers->assign(program.num_workers, 0);
  }
  for (const bool backward : {false, true}) {
    const Transfers transfers(program, mesh, machine, ranks, backward);
    timeline.least += least_seconds(program, seconds, transfers, backward);
    Simulation(program, seconds, ranks, transfers, backward).run(timeline);
  }
  return timeline;
}

}  // namespace smex
