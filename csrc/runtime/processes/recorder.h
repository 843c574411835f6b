#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/processes/failure.h"

namespace smex::runtime {

/// The last instructions and exchanges of a process, to be written down when something fails.
///
/// Any thread may enter without waiting for another. Entries overwrite the oldest ones.
class Recorder {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr size_t kEntries = 256;

  enum class Kind : uint8_t {
    kInstruction,  ///< of one worker alone
    kExchange,     ///< of several processes, which each have it under the same number
  };
  enum class Phase : uint8_t { kForward, kBackward, kOther };

  struct Entry {
    Kind kind = Kind::kInstruction;
    Phase phase = Phase::kForward;
    int32_t worker = 0;
    int32_t number = 0;  ///< in the worker's list; of an exchange: in the order of all starts
    int32_t text = 0;    ///< from `text`
    int32_t peer = -1;   ///< the rank that it waits for; -1: none, or several
    int64_t run = 0;
    int64_t bytes = 0;
  };

  Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// The number by which entries name `text`; equal texts have one. Kept for good.
  int32_t text(const std::string& text);
  /// Enters what begins at `time`, and returns its ticket.
  uint64_t begin(const Entry& entry, Clock::time_point time = Clock::now());
  /// Notes its end, if it is not overwritten yet.
  void end(uint64_t ticket, Clock::time_point time = Clock::now());

  /// Writes what there is to `folder`/rank-`rank`.json and returns that path; an older file gives
  /// way when the new one is complete. Makes the folder. While others enter, what is half entered
  /// is left out. Throws UserError where it cannot be written.
  std::string dump(const std::string& folder, int rank, int size,
                   const std::optional<Failure>& failure) const;

 private:
  /// What one entry is kept in, so that reading one that is overwritten is not a race. A cache line
  /// each, so that threads do not take it from each other.
  struct alignas(64) Slot {
    std::atomic<uint64_t> ticket{0};  ///< 0 while the rest is written
    std::atomic<uint64_t> kind_phase_worker{0}, number_text{0}, peer{0};
    std::atomic<int64_t> run{0}, bytes{0}, begin{0}, end{0};
  };

  std::unique_ptr<std::array<Slot, kEntries>> slots_;
  std::atomic<uint64_t> next_{1};
  mutable std::mutex mutex_;
  std::unordered_map<std::string, int32_t> numbers_;
  std::vector<std::string> texts_;
};

}  // namespace smex::runtime
