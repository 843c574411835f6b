#include "partition/lower/overlap.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <vector>

#include "partition/lower/list_uses.h"
#include "partition/lower/residency.h"

namespace smex {
namespace {

constexpr int kMost = std::numeric_limits<int>::max();
constexpr int kPassing = 3;    ///< so many late relayouts may pass one
constexpr int kHalvings = 12;  ///< after which what is too much is not late at all

template <typename Visit>
void for_each_list(Program& program, const Visit& visit) {
  for (int w = 0; w < program.num_workers; ++w) {
    WorkerProgram& worker = program.workers[w];
    visit(w, 0, worker.forward);
    visit(w, static_cast<int>(worker.forward.size()), worker.backward);
  }
}

void set_due(Instr& instr, int due) {
  if (auto* fetch = std::get_if<FetchInstr>(&instr)) fetch->due = due;
  if (auto* compute = std::get_if<ComputeInstr>(&instr)) compute->due = due;
}

bool is_late(const Instr& instr) { return due_of(instr) >= 0; }

/// Makes all fetches from others, and views of what they bring, as late as can be.
void make_late(Program& program, const std::set<std::string>& views) {
  for_each_list(program, [&](int worker, int, std::vector<Instr>& list) {
    const auto end = static_cast<int>(list.size());
    std::vector<bool> comes_late(program.workers[worker].num_slots, false);
    for (Instr& instr : list) {
      if (auto* fetch = std::get_if<FetchInstr>(&instr)) {
        if (!reads_others(*fetch, worker)) continue;
      } else if (auto* compute = std::get_if<ComputeInstr>(&instr)) {
        if (!views.count(compute->target) || compute->copies) continue;
        bool reads_late = false;
        for_each_read(instr, worker,
                      [&](Slot slot) { reads_late = reads_late || comes_late[slot]; });
        if (!reads_late) continue;
      } else {
        continue;
      }
      set_due(instr, end);
      for_each_made(instr, [&](Slot slot) { comes_late[slot] = true; });
    }
  });
}

/// Makes what is late due where what it makes is read, if that is not sooner, and at once where
/// nothing is computed until then. What late ones read of their own worker may come as late; that
/// it is freed meanwhile does not matter.
void make_due(Program& program) {
  for_each_list(program, [&](int worker, int, std::vector<Instr>& list) {
    const auto length = static_cast<int>(list.size());
    const int unread = length + 1;
    const int num_slots = program.workers[worker].num_slots;
    std::vector<int> next_read(num_slots, unread), freed(num_slots, length);
    int next_compute = length;
    const auto make_due_here = [&](Instr& instr) {
      int due = due_of(instr);
      for_each_made(instr, [&](Slot slot) {
        due = std::min(due, next_read[slot] == unread ? freed[slot] : next_read[slot]);
      });
      set_due(instr, next_compute < due ? due : -1);
    };
    for (int position = length; position-- > 0;) {
      make_due_here(list[position]);
      if (const auto* free = std::get_if<FreeInstr>(&list[position])) {
        freed[free->slot] = position;
      } else if (auto* fetch = std::get_if<FetchInstr>(&list[position])) {
        for (const CopyPart& part : fetch->parts) {
          if (part.worker != worker) continue;
          const bool may_wait = fetch->due >= 0 && !part.dest.empty();
          next_read[part.slot] = std::min(next_read[part.slot], may_wait ? fetch->due : position);
        }
      } else {
        auto& compute = std::get<ComputeInstr>(list[position]);
        if (compute.due < 0) next_compute = position;
        const int read = compute.due < 0 ? position : compute.due;
        for_each_read(list[position], worker,
                      [&](Slot slot) { next_read[slot] = std::min(next_read[slot], read); });
      }
    }
  });
}

/// Numbers that change, and their sums from the first on (Fenwick 1994, "A new data structure for
/// cumulative frequency tables").
class RunningSums {
 public:
  explicit RunningSums(size_t size) : sums_(size + 1, 0) {}

  void add(int at, int64_t number) {
    for (size_t n = at + 1; n < sums_.size(); n += n & -n) sums_[n] += number;
  }

  /// The first with which the sum is `least` or more; the size where it never is. Of numbers that
  /// are not negative.
  int first_reaching(int64_t least) const {
    size_t found = 0;
    for (size_t step = std::bit_floor(sums_.size()); step > 0; step /= 2) {
      if (found + step >= sums_.size() || sums_[found + step] >= least) continue;
      found += step;
      least -= sums_[found];
    }
    return static_cast<int>(found);
  }

 private:
  std::vector<int64_t> sums_;
};

/// What is late, relayout by relayout, while some of it becomes less so.
class Lateness {
 public:
  Lateness(Program& program, const std::set<std::string>& views)
      : program_(program), residency_(program, views), done_before_(residency_.done()) {
    for (int w = 0; w < program.num_workers; ++w) {
      const auto held = residency_.held(w);
      limits_.push_back(*std::max_element(held.begin(), held.end()));
    }
    make_late(program, views);
    make_due(program);
  }

  void keep_peaks() {
    for (int round = 0;; ++round) {
      const Excess excess = find_excess();
      if (!excess.is_there) return;
      const bool is_known = !excess.is_of_relayout.empty();
      for_each_list(program_, [&](int, int, std::vector<Instr>& list) {
        for (int position = 0; position < static_cast<int>(list.size()); ++position) {
          if (!is_late(list[position])) continue;
          const auto* fetch = std::get_if<FetchInstr>(&list[position]);
          if (is_known && !(fetch && excess.has(fetch->relayout))) continue;
          const int least =
              is_known && round < kHalvings ? (due_of(list[position]) - position) / 2 : 0;
          set_due(list[position], least > 1 ? position + least : -1);
        }
      });
      make_due(program_);  // what they read of their own worker comes before
    }
  }

 private:
  /// A fetch that makes a worker keep tiles for longer than before.
  struct Late {
    int begin = 0, end = 0;  ///< in the worker's instructions
    int relayout = -1;
    int64_t bytes = 0;  ///< of tiles that may be kept; 0: it only tells that others are not read
  };

  /// Whether a peak is higher than before, and what is too late for that not to be.
  struct Excess {
    bool is_there = false;
    std::vector<bool> is_of_relayout;  ///< by number, of those known to be too late
    bool has(int relayout) const {
      const auto number = static_cast<size_t>(relayout);
      return relayout >= 0 && number < is_of_relayout.size() && is_of_relayout[number];
    }
    void add(int relayout) {
      if (relayout < 0) return;
      const auto number = static_cast<size_t>(relayout);
      if (number >= is_of_relayout.size()) is_of_relayout.resize(number + 1, false);
      is_of_relayout[number] = true;
    }
  };

  Excess find_excess() {
    residency_.update();
    Excess excess;
    std::vector<std::vector<Late>> late;
    for (int w = 0; w < program_.num_workers; ++w) {
      const auto held = residency_.held(w);
      if (*std::max_element(held.begin(), held.end()) <= limits_[w]) continue;
      excess.is_there = true;
      if (late.empty()) late = list_late();
      pick(late[w], held, limits_[w], excess);
    }
    return excess;
  }

  std::vector<std::vector<Late>> list_late() const {
    std::vector<std::vector<Late>> late(program_.num_workers);
    for_each_list(program_, [&](int worker, int list_begin, std::vector<Instr>& list) {
      for (int position = 0; position < static_cast<int>(list.size()); ++position) {
        const auto* fetch = std::get_if<FetchInstr>(&list[position]);
        if (!fetch || fetch->due < 0) continue;
        const int itemsize = program_.workers[worker].slot_itemsizes.at(fetch->dest);
        const int begin = list_begin + position, end = list_begin + finished(fetch->due, position);
        int64_t own = 0;
        for (const CopyPart& part : fetch->parts) {
          const int64_t bytes = part.dest.numel() * itemsize;
          if (part.worker == worker) {
            own += bytes;
          } else {
            late[part.worker].push_back({done_before_[part.worker][part.slot],
                                         residency_.done()[part.worker][part.slot], fetch->relayout,
                                         bytes});
          }
        }
        late[worker].push_back({begin, end, fetch->relayout, own});
      }
    });
    for (auto& list : late) {
      std::stable_sort(list.begin(), list.end(),
                       [](const Late& a, const Late& b) { return a.bytes > b.bytes; });
    }
    return late;
  }

  /// Wherever too much is held the largest that are late there, until they are as much as that.
  static void pick(const std::vector<Late>& late, const std::vector<int64_t>& held, int64_t limit,
                   Excess& excess) {
    const auto is_ever = [](const Late& one) { return one.begin <= one.end; };
    const std::vector<int> begins = ascending(late, &Late::begin);
    const std::vector<int> ends = ascending(late, &Late::end);
    auto next_begin = begins.begin(), next_end = ends.begin();
    RunningSums bytes(late.size());  // of those that are late at the position
    std::priority_queue<int, std::vector<int>, std::greater<>> left;  // that were, and not picked
    for (size_t n = 0; n < held.size(); ++n) {
      const int position = static_cast<int>(n) - 1;
      for (; next_begin != begins.end() && late[*next_begin].begin <= position; ++next_begin) {
        if (!is_ever(late[*next_begin])) continue;
        bytes.add(*next_begin, late[*next_begin].bytes);
        left.push(*next_begin);
      }
      for (; next_end != ends.end() && late[*next_end].end < position; ++next_end) {
        if (!is_ever(late[*next_end])) continue;
        bytes.add(*next_end, -late[*next_end].bytes);
      }
      if (held[n] <= limit) continue;
      const int last = bytes.first_reaching(held[n] - limit);
      for (; !left.empty() && left.top() <= last; left.pop()) {
        const Late& one = late[left.top()];
        if (one.end >= position) excess.add(one.relayout);
      }
    }
  }

  static std::vector<int> ascending(const std::vector<Late>& late, int Late::* by) {
    std::vector<int> order(late.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) { return late[a].*by < late[b].*by; });
    return order;
  }

  Program& program_;
  Residency residency_;
  const std::vector<std::vector<int>> done_before_;
  std::vector<int64_t> limits_;
};

}  // namespace

void overlap(Program& program, const std::set<std::string>& views) {
  if (program.num_workers > 1) Lateness(program, views).keep_peaks();
}

void wait_at_once(Program& program) {
  for_each_list(program, [](int, int, std::vector<Instr>& list) {
    for (Instr& instr : list) set_due(instr, -1);
  });
}

std::vector<int> relayout_order(const Program& program, bool backward) {
  struct Found {
    bool is_late = true;
    bool follows = false;  ///< is made of what late instructions bring
    int last = kMost;      ///< of those that all workers begin before they have to wait for it
  };
  std::map<int, Found> found;
  std::vector<std::vector<bool>> made_late;  // by worker and slot
  for (const WorkerProgram& worker : program.workers) {
    std::vector<bool>& late = made_late.emplace_back(worker.num_slots, false);
    for (const Instr& instr : worker.list(backward)) {
      if (is_late(instr)) for_each_made(instr, [&](Slot slot) { late[slot] = true; });
    }
  }
  for (int w = 0; w < program.num_workers; ++w) {
    const std::vector<Instr>& list = program.workers[w].list(backward);
    std::vector<int> begun;  // by position, the last relayout before it
    int last = -1;
    for (const Instr& instr : list) {
      begun.push_back(last);
      if (const auto* fetch = std::get_if<FetchInstr>(&instr))
        last = std::max(last, fetch->relayout);
    }
    begun.push_back(last);
    for (const Instr& instr : list) {
      const auto* fetch = std::get_if<FetchInstr>(&instr);
      if (!fetch || !reads_others(*fetch, w)) continue;
      Found& relayout = found[fetch->relayout];
      relayout.is_late = relayout.is_late && fetch->due >= 0;
      if (fetch->due >= 0) relayout.last = std::min(relayout.last, begun[fetch->due]);
      for (const CopyPart& part : fetch->parts) {
        if (part.worker != w && made_late[part.worker][part.slot]) relayout.follows = true;
      }
    }
  }
  std::vector<int> order;
  std::deque<std::pair<int, int>> passed;  // relayouts, and how many others may still go before
  const auto let_go = [&](const auto& is_over) {
    auto end = passed.end();
    while (end != passed.begin() && !is_over(*std::prev(end))) --end;
    for (auto one = passed.begin(); one != end; ++one) order.push_back(one->first);
    passed.erase(passed.begin(), end);
  };
  for (const auto& [number, relayout] : found) {
    let_go([&, next = number](const auto& one) { return next > found[one.first].last; });
    if (relayout.is_late && relayout.follows) {
      passed.emplace_back(number, kPassing);
      continue;
    }
    order.push_back(number);
    if (!relayout.is_late) continue;
    for (auto& [waiting, left] : passed) --left;
    let_go([](const auto& one) { return one.second <= 0; });
  }
  let_go([](const auto&) { return true; });
  return order;
}

}  // namespace smex
