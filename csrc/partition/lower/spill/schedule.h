#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace smex {

/// A piece of memory as a list of steps uses it: as a whole, and never in place.
struct SpillBlock {
  int64_t bytes = 0;
  /// The steps at which it has to be on the device, ascending. The first one makes it, if it does
  /// not begin on the host; after the last one it is gone.
  std::vector<int> uses;
  bool on_host = false;  ///< it begins there
  bool kept = false;     ///< it is written to the host as soon as it is made: others read it there
};

/// Which blocks are on a device of so many bytes while a list of steps runs?
///
/// A block that is not there is on the host, and comes back by a transfer of its size. One without
/// a copy on the host is written before it leaves, once; what has a copy leaves for nothing.
struct SpillProblem {
  int num_steps = 0;
  int64_t capacity = 0;
  std::vector<SpillBlock> blocks;

  /// By step the blocks that it uses.
  std::vector<std::vector<int>> blocks_of_steps() const;
  /// By step the bytes that it uses; the most of them is the least capacity there can be.
  std::vector<int64_t> bytes_of_steps() const;
};

/// Which blocks leave the device before which step; all other transfers follow from that.
struct SpillSchedule {
  std::vector<std::vector<int>> dropped;  ///< by step
  int64_t to_host = 0, to_device = 0;     ///< bytes
  int64_t least = 0;                      ///< bytes of both that no schedule is below

  int64_t bytes() const { return to_host + to_device; }
};

/// How blocks are picked that leave.
enum class SpillPolicy {
  kNone,    ///< all, after each step
  kLru,     ///< that which was used the longest ago
  kBelady,  ///< that which is used again the latest (L. A. Belady, 1966), whatever its size
  kDp,      ///< those of the fewest bytes in all, see `fewest_transfers`
};

/// Throws UserError for a name that is not "none", "lru", "belady" or "dp".
SpillPolicy spill_policy(const std::string& name);

/// A walk through the steps that knows what is on the device.
class Residence {
 public:
  enum class Place { kAbsent, kHost, kClean, kDirty };  ///< clean and dirty ones are on the device

  explicit Residence(const SpillProblem& problem);

  bool is_there(int block) const {
    return places_[block] == Place::kClean || places_[block] == Place::kDirty;
  }
  Place place(int block) const { return places_[block]; }
  int64_t held() const { return held_; }
  /// The next step that uses a block at or after `step`; past the end if none does.
  int next_use(int block, int step) const;

  /// Lets a block leave; tells whether it had to be written.
  bool drop(int block);
  /// Brings what the step uses and lets it make its results; returns the blocks that came back.
  std::vector<int> enter(int step);
  /// Forgets what the step was the last to use.
  void leave(int step);

  /// Blocks on the device, ascending.
  std::vector<int> there() const;
  const std::vector<int>& used(int step) const { return used_[step]; }

  int64_t to_host = 0, to_device = 0;  ///< bytes so far

 private:
  const SpillProblem& problem_;
  std::vector<std::vector<int>> used_;  ///< by step
  std::vector<Place> places_;
  int64_t held_ = 0;
};

/// Throws UserError where a step uses more than the capacity, or blocks are not as they should be.
void check(const SpillProblem& problem);

/// Counts what a schedule moves. Throws InternalError where it keeps more than the capacity.
void count_transfers(const SpillProblem& problem, SpillSchedule& schedule);

/// What a simple policy does: not `kDp`.
SpillSchedule follow_policy(const SpillProblem& problem, SpillPolicy policy);

}  // namespace smex
