#include "partition/lower/overlap.h"

#include <algorithm>
#include <set>
#include <vector>

namespace smex {
namespace {

constexpr int kHalvings = 12;  ///< after which what is too much is not late at all

template <typename Visit>
void for_each_list(Program& program, const Visit& visit) {
  for (int w = 0; w < program.num_workers; ++w) {
    WorkerProgram& worker = program.workers[w];
    visit(w, 0, worker.forward);
    visit(w, static_cast<int>(worker.forward.size()), worker.backward);
  }
}

bool reads_others(const FetchInstr& fetch, int worker) {
  if (fetch.view || fetch.shape_only) return false;
  return std::any_of(fetch.parts.begin(), fetch.parts.end(),
                     [&](const CopyPart& part) { return part.worker != worker; });
}

template <typename Visit>
void for_each_operand(const ComputeInstr& compute, const Visit& visit) {
  for (const Attr& arg : compute.args) {
    if (const auto* one = std::get_if<ValueRef>(&arg)) visit(one->id);
    const auto* many = std::get_if<std::vector<ValueRef>>(&arg);
    if (!many) continue;
    for (const ValueRef& ref : *many) visit(ref.id);
  }
}

/// Makes all fetches from others as late as can be.
void make_late(Program& program) {
  for_each_list(program, [&](int worker, int, std::vector<Instr>& list) {
    for (Instr& instr : list) {
      auto* fetch = std::get_if<FetchInstr>(&instr);
      if (fetch && reads_others(*fetch, worker)) fetch->due = static_cast<int>(list.size());
    }
  });
}

/// Makes late fetches due where what they bring is read, if they are not sooner, and at once where
/// nothing is computed until then. What a late fetch reads of its own worker may come as late; that
/// it is freed meanwhile does not matter.
void make_due(Program& program) {
  for_each_list(program, [&](int worker, int, std::vector<Instr>& list) {
    const auto length = static_cast<int>(list.size());
    const int unread = length + 1;
    const int num_slots = program.workers[worker].num_slots;
    std::vector<int> next_read(num_slots, unread), freed(num_slots, length);
    int next_compute = length;
    for (int position = length; position-- > 0;) {
      if (const auto* free = std::get_if<FreeInstr>(&list[position])) {
        freed[free->slot] = position;
      } else if (auto* fetch = std::get_if<FetchInstr>(&list[position])) {
        const int read = next_read[fetch->dest];
        fetch->due = std::min(fetch->due, read == unread ? freed[fetch->dest] : read);
        if (next_compute >= fetch->due) fetch->due = -1;
        for (const CopyPart& part : fetch->parts) {
          if (part.worker != worker) continue;
          const bool is_late = fetch->due >= 0 && !Region{part.dest}.empty();
          next_read[part.slot] =
              std::min(next_read[part.slot], is_late ? fetch->due : position);
        }
      } else {
        next_compute = position;
        for_each_operand(std::get<ComputeInstr>(list[position]), [&](Slot slot) {
          if (slot != kNoSlot) next_read[slot] = position;
        });
      }
    }
  });
}

/// What is late, relayout by relayout, while some of it becomes less so.
class Lateness {
 public:
  Lateness(Program& program, const std::set<std::string>& views)
      : program_(program), views_(views), before_(program) {
    for (int w = 0; w < program.num_workers; ++w) {
      const auto held = held_bytes_given(before_, program, w, views);
      limits_.push_back(*std::max_element(held.begin(), held.end()));
    }
    make_late(program);
    make_due(program);
  }

  void keep_peaks() {
    for (int round = 0;; ++round) {
      const Excess excess = find_excess();
      if (!excess.is_there) return;
      const bool is_known = !excess.relayouts.empty();
      for_each_list(program_, [&](int, int, std::vector<Instr>& list) {
        for (int position = 0; position < static_cast<int>(list.size()); ++position) {
          auto* fetch = std::get_if<FetchInstr>(&list[position]);
          if (!fetch || fetch->due < 0) continue;
          if (is_known && !excess.relayouts.count(fetch->relayout)) continue;
          const int steps = is_known && round < kHalvings ? (fetch->due - position) / 2 : 0;
          fetch->due = steps > 1 ? position + steps : -1;
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
    std::set<int> relayouts;
  };

  Excess find_excess() const {
    const Reading now(program_);
    Excess excess;
    std::vector<std::vector<Late>> late;
    for (int w = 0; w < program_.num_workers; ++w) {
      const auto held = held_bytes_given(now, program_, w, views_);
      for (size_t n = 0; n < held.size(); ++n) {
        if (held[n] <= limits_[w]) continue;
        excess.is_there = true;
        if (late.empty()) late = list_late(now);
        pick(late[w], static_cast<int>(n) - 1, held[n] - limits_[w], excess.relayouts);
      }
    }
    return excess;
  }

  std::vector<std::vector<Late>> list_late(const Reading& now) const {
    std::vector<std::vector<Late>> late(program_.num_workers);
    for_each_list(program_, [&](int worker, int list_begin, std::vector<Instr>& list) {
      for (int position = 0; position < static_cast<int>(list.size()); ++position) {
        const auto* fetch = std::get_if<FetchInstr>(&list[position]);
        if (!fetch || fetch->due < 0) continue;
        const int itemsize = program_.workers[worker].slot_itemsizes.at(fetch->dest);
        const int begin = list_begin + position, end = list_begin + finished(*fetch, position);
        int64_t own = 0;
        for (const CopyPart& part : fetch->parts) {
          const int64_t bytes = Region{part.dest}.numel() * itemsize;
          if (part.worker == worker) {
            own += bytes;
          } else {
            late[part.worker].push_back({before_.done(part.worker, part.slot),
                                         now.done(part.worker, part.slot), fetch->relayout, bytes});
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

  /// The largest that are late at a position, until they are as much as is too much there.
  static void pick(const std::vector<Late>& late, int position, int64_t excess,
                   std::set<int>& relayouts) {
    for (const Late& one : late) {
      if (excess <= 0) return;
      if (one.begin > position || one.end < position) continue;
      relayouts.insert(one.relayout);
      excess -= one.bytes;
    }
  }

  Program& program_;
  const std::set<std::string>& views_;
  const Reading before_;
  std::vector<int64_t> limits_;
};

}  // namespace

void overlap(Program& program, const std::set<std::string>& views) {
  if (program.num_workers > 1) Lateness(program, views).keep_peaks();
}

}  // namespace smex
