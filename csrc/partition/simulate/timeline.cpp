#include "partition/simulate/timeline.h"

#include <algorithm>
#include <limits>
#include <map>

#include "ir/error.h"
#include "partition/lower/overlap.h"

namespace smex {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

/// Slots' sizes as far as the instructions tell, and with them what instructions take.
class Prediction {
 public:
  Prediction(const Program& program, int worker, const Machine& machine,
             const std::set<std::string>& views)
      : program_(program.workers[worker]),
        worker_(worker),
        machine_(machine),
        views_(views),
        bytes_(program_.num_slots, 0) {
    for (const Binding& input : program.inputs) {
      const Slot slot = input.slots.at(worker);
      if (slot == kNoSlot) continue;
      const auto regions = static_cast<int>(input.regions.size());
      if (worker < regions) set(slot, input.regions[worker].shape());
    }
  }

  double seconds(const Instr& instr) {
    if (const auto* fetch = std::get_if<FetchInstr>(&instr)) return of_fetch(*fetch);
    if (const auto* compute = std::get_if<ComputeInstr>(&instr)) return of_compute(*compute);
    return 0;
  }

 private:
  void set(Slot slot, const Shape& shape) {
    bytes_[slot] =
        static_cast<double>(Region::whole(shape).numel() * program_.slot_itemsizes.at(slot));
  }

  double of_fetch(const FetchInstr& fetch) {
    set(fetch.dest, fetch.shape);
    if (fetch.view || fetch.shape_only) return 0;
    double own = 0;
    for (const CopyPart& part : fetch.parts) {
      if (part.worker == worker_) own += static_cast<double>(Region{part.dest}.numel());
    }
    constexpr double kReadAndWritten = 2;
    own *= kReadAndWritten * program_.slot_itemsizes.at(fetch.dest);
    return own / machine_.memory_bandwidth;
  }

  double of_compute(const ComputeInstr& compute) {
    double bytes = 0;
    for (const ValueId slot : tensor_operands(compute.args)) bytes += bytes_[slot];
    int itemsize = 4;
    for (size_t o = 0; o < compute.outputs.size(); ++o) {
      const Slot slot = compute.outputs[o];
      if (slot == kNoSlot) continue;
      if (o < compute.output_shapes.size()) set(slot, compute.output_shapes[o]);
      bytes += bytes_[slot];
      itemsize = program_.slot_itemsizes.at(slot);
    }
    if (views_.count(compute.target) && !compute.copies) return 0;
    return machine_.compute(compute.operations, bytes, itemsize);
  }

  const WorkerProgram& program_;
  const int worker_;
  const Machine& machine_;
  const std::set<std::string>& views_;
  std::vector<double> bytes_;  ///< by slot
};

/// One list of all workers.
class Simulation {
 public:
  Simulation(const Program& program, const InstrSeconds& seconds, const Mesh& mesh,
             const std::vector<Link>& links, bool backward)
      : program_(program),
        seconds_(seconds),
        mesh_(mesh),
        links_(links),
        backward_(backward),
        workers_(program.num_workers) {
    for (int w = 0; w < program.num_workers; ++w) {
      // What another list makes is there.
      workers_[w].written.assign(program.workers[w].num_slots, 0);
      for (const Instr& instr : program.workers[w].list(backward)) {
        for_each_made(instr, [&](Slot slot) { workers_[w].written[slot] = kUnknown; });
      }
    }
    list_transfers();
  }

  void run(Timeline& timeline) {
    while (true) {
      Event next;
      int which = -1;
      for (int w = 0; w < program_.num_workers; ++w) {
        const Event event = next_event(w);
        if (event.time >= next.time) continue;
        next = event;
        which = w;
      }
      if (which < 0) break;
      next.open >= 0 ? take(which, next.open) : step(which);
    }
    double last = 0, least = 0;
    for (int w = 0; w < program_.num_workers; ++w) {
      const Worker& worker = workers_[w];
      if (worker.next < length(w) || !worker.open.empty()) {
        throw InternalError("simulate: worker " + std::to_string(w) +
                            " waits for what nobody writes, at instruction " +
                            std::to_string(worker.next));
      }
      last = std::max(last, worker.clock);
      least = std::max({least, worker.busy, worker.transferred});
      timeline.busy[w] += worker.busy;
      timeline.waiting[w] += worker.waiting;
      timeline.transferred[w] += worker.transferred;
    }
    timeline.seconds += last;
    timeline.least += least;
  }

 private:
  struct Open {
    const Instr* instr = nullptr;
    int position = 0, due = 0;
  };

  struct Transfer {
    const FetchInstr* fetch = nullptr;
    int position = 0;
    double arrives = kUnknown;
    double on_its_way = 0;  ///< seconds
    double charged = 0;     ///< of these the worker's own, if it computes meanwhile
  };

  struct Worker {
    int next = 0;
    double clock = 0, busy = 0, waiting = 0, transferred = 0;
    double port_free = 0;
    std::vector<Transfer> transfers;  ///< in the order in which they come
    size_t next_transfer = 0;
    std::vector<int> transfer_of;  ///< by instruction; -1: none
    std::vector<Open> open;
    std::vector<double> written;  ///< by slot
  };

  int length(int worker) const {
    return static_cast<int>(program_.workers[worker].list(backward_).size());
  }

  /// What a worker does next: an open instruction, or the one that follows in its list.
  struct Event {
    double time = kUnknown;  ///< never, as far as is known
    int open = -1;
  };

  Event next_event(int number) {
    Worker& worker = workers_[number];
    find_arrivals(number);
    Event soonest;
    bool is_due = false;
    for (size_t n = 0; n < worker.open.size(); ++n) {
      const double arrives = arrival(number, worker.open[n]);
      if (arrives < soonest.time) soonest = {arrives, static_cast<int>(n)};
      is_due = is_due || worker.open[n].due <= worker.next;
    }
    if (is_due || soonest.time <= worker.clock) {
      return {std::max(soonest.time, worker.clock), soonest.open};
    }
    if (worker.next == length(number)) return {};
    return {worker.clock, -1};
  }

  void step(int number) {
    Worker& worker = workers_[number];
    const Instr& instr = program_.workers[number].list(backward_)[worker.next];
    const int due = due_of(instr);
    if (due > worker.next || is_remote(instr, number)) {
      worker.open.push_back({&instr, worker.next, std::max(due, worker.next + 1)});
    } else {
      spend(worker, seconds_[number][backward_][worker.next]);
      write(worker, instr);
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

  static void write(Worker& worker, const Instr& instr) {
    for_each_made(instr, [&](Slot slot) { worker.written[slot] = worker.clock; });
  }

  /// When all that an open instruction needs is there.
  double arrival(int number, const Open& open) const {
    const Worker& worker = workers_[number];
    double latest = 0;
    if (const auto* fetch = std::get_if<FetchInstr>(open.instr)) {
      const int transfer = worker.transfer_of[open.position];
      if (transfer >= 0) latest = worker.transfers[transfer].arrives;
      for (const CopyPart& part : fetch->parts) {
        if (part.worker == number) latest = std::max(latest, worker.written[part.slot]);
      }
    } else if (const auto* compute = std::get_if<ComputeInstr>(open.instr)) {
      for (const ValueId slot : tensor_operands(compute->args)) {
        latest = std::max(latest, worker.written[slot]);
      }
    }
    return latest;
  }

  void take(int number, int which) {
    Worker& worker = workers_[number];
    const Open open = worker.open[which];
    const double waited = std::max(0.0, arrival(number, open) - worker.clock);
    worker.waiting += waited;
    worker.clock += waited;
    const int transfer = worker.transfer_of[open.position];
    if (transfer >= 0 && worker.transfers[transfer].on_its_way > 0) {
      const Transfer& moved = worker.transfers[transfer];
      const double hidden = std::max(0.0, moved.on_its_way - waited);
      spend(worker, hidden / moved.on_its_way * moved.charged);
    }
    spend(worker, seconds_[number][backward_][open.position]);
    write(worker, *open.instr);
    worker.open.erase(worker.open.begin() + which);
  }

  /// Lists what each worker receives, in the order in which it comes.
  void list_transfers() {
    std::map<int, size_t> place;
    for (const int relayout : relayout_order(program_, backward_)) {
      place.emplace(relayout, place.size());
    }
    for (int w = 0; w < program_.num_workers; ++w) {
      Worker& worker = workers_[w];
      const auto& list = program_.workers[w].list(backward_);
      for (int position = 0; position < static_cast<int>(list.size()); ++position) {
        if (!is_remote(list[position], w)) continue;
        worker.transfers.push_back({&std::get<FetchInstr>(list[position]), position});
      }
      std::stable_sort(worker.transfers.begin(), worker.transfers.end(),
                       [&](const Transfer& a, const Transfer& b) {
                         return place.at(a.fetch->relayout) < place.at(b.fetch->relayout);
                       });
      worker.transfer_of.assign(list.size(), -1);
      for (size_t n = 0; n < worker.transfers.size(); ++n) {
        worker.transfer_of[worker.transfers[n].position] = static_cast<int>(n);
      }
    }
  }

  void find_arrivals(int number) {
    Worker& worker = workers_[number];
    while (worker.next_transfer < worker.transfers.size()) {
      if (!find_arrival(number, worker.transfers[worker.next_transfer])) return;
      ++worker.next_transfer;
    }
  }

  bool find_arrival(int number, Transfer& transfer) {
    Worker& worker = workers_[number];
    double written = 0;
    std::vector<double> bytes(links_.size(), 0);
    const int itemsize = program_.workers[number].slot_itemsizes.at(transfer.fetch->dest);
    for (const CopyPart& part : transfer.fetch->parts) {
      if (part.worker == number) continue;
      written = std::max(written, workers_[part.worker].written[part.slot]);
      bytes[step_between(number, part.worker)] +=
          static_cast<double>(Region{part.dest}.numel() * itemsize);
    }
    if (written == kUnknown) return false;
    double latency = 0;
    for (size_t step = 0; step < links_.size(); ++step) {
      if (bytes[step] == 0) continue;
      const double seconds = bytes[step] / links_[step].bandwidth;
      latency = std::max(latency, links_[step].latency);
      transfer.on_its_way += seconds;
      transfer.charged += (1 - links_[step].overlap) * seconds;
    }
    worker.port_free = std::max(worker.port_free, written) + transfer.on_its_way;
    transfer.arrives = worker.port_free + latency;
    worker.transferred += transfer.on_its_way;
    return true;
  }

  size_t step_between(int a, int b) const {
    for (size_t step = 0; step + 1 < mesh_.size(); ++step) {
      const int at = static_cast<int>(step);
      if (mesh_coordinate(mesh_, a, at) != mesh_coordinate(mesh_, b, at)) return step;
    }
    return mesh_.size() - 1;
  }

  const Program& program_;
  const InstrSeconds& seconds_;
  const Mesh& mesh_;
  const std::vector<Link>& links_;
  const bool backward_;
  std::vector<Worker> workers_;
};

void check(const Program& program, const InstrSeconds& seconds, const Mesh& mesh,
           const std::vector<Link>& links) {
  if (links.size() != mesh.size() || mesh_size(mesh) != program.num_workers) {
    throw UserError("simulate: a program of " + std::to_string(program.num_workers) +
                    " workers, a mesh of " + std::to_string(mesh_size(mesh)) + " in " +
                    std::to_string(mesh.size()) + " steps, and " + std::to_string(links.size()) +
                    " links");
  }
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

InstrSeconds predicted_seconds(const Program& program, const Machine& machine,
                               const std::set<std::string>& views) {
  InstrSeconds seconds(program.num_workers);
  for (int w = 0; w < program.num_workers; ++w) {
    Prediction prediction(program, w, machine, views);
    for (const bool backward : {false, true}) {
      for (const Instr& instr : program.workers[w].list(backward)) {
        seconds[w][backward].push_back(prediction.seconds(instr));
      }
    }
  }
  return seconds;
}

Timeline simulate(const Program& program, const InstrSeconds& seconds, const Mesh& mesh,
                  const std::vector<Link>& links) {
  check(program, seconds, mesh, links);
  Timeline timeline;
  for (auto* numbers : {&timeline.busy, &timeline.waiting, &timeline.transferred}) {
    numbers->assign(program.num_workers, 0);
  }
  for (const bool backward : {false, true}) {
    Simulation(program, seconds, mesh, links, backward).run(timeline);
  }
  return timeline;
}

}  // namespace smex
