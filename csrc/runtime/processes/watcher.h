#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "runtime/processes/failure.h"

namespace smex::runtime {

struct WatcherOptions {
  std::chrono::milliseconds interval{500};  ///< between two beats
  std::chrono::milliseconds limit{4000};  ///< a rank whose beat stands still longer has failed, and
                                          ///< a store that does not answer for twice as long
  std::chrono::milliseconds arrival{300000};  ///< a rank that has not come by then has failed
};

/// Tells each process of a group in bounded time that another one has failed.
///
/// Each rank's beat is a number in a c10d Store that its watcher counts up. Whoever finds that a
/// rank's beat stands still, or that its process is gone (on the same machine the kernel tells at
/// once), writes the failure into the store; the first one written is everybody's failure. Time in
/// which this process itself stood still does not count against others. A rank that dies is known
/// to those on its machine in milliseconds, to others after one interval more, or, where nobody
/// else is on its machine, after limit + interval.
///
/// Two threads that never take Python's lock: one speaks with the store, one watches processes and
/// the first thread, since calls of a TCPStore hang while its host is stopped or unreachable.
/// Each beats for one message and reads with one more, whatever the number of ranks; beyond 65 a
/// rank watches the beats of the next 64.
///
/// In a process that was forked later every method but the destructor throws UserError.
class Watcher {
 public:
  /// Starts at once and waits for nobody. `store` is a TCPStore, FileStore or HashStore, or a
  /// PrefixStore on one, with keys of its own for each group of watchers; it is cloned. Throws
  /// UserError for other stores, impossible ranks and times, and where no threads can be started.
  Watcher(c10::intrusive_ptr<c10d::Store> store, int rank, int size, WatcherOptions options = {});
  /// Leaves, if that has not been done; takes no longer than `leave`.
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  int rank() const;
  int size() const;

  /// Makes `failure` known to all ranks and returns the first one that is known, which is another
  /// if there was one before. Returns when it is written, at the latest after 2 * `limit`.
  Failure report(const Failure& failure);
  /// For an error that may only follow from another rank's failure, such as a connection that
  /// broke: waits up to `patience` (by default 2 intervals + `limit`) for a failure to become
  /// known, and reports `symptom` if none does.
  Failure settle(const Failure& symptom,
                 std::optional<std::chrono::milliseconds> patience = std::nullopt);
  /// The first failure, if there is one.
  std::optional<Failure> failure() const;
  /// The same, after waiting up to `time` for it.
  std::optional<Failure> wait(std::chrono::milliseconds time) const;
  /// The same for somebody who waits for `ranks`: a failure too where one of them has left more
  /// than `limit` ago, so that what it sent before has had the time to arrive.
  std::optional<Failure> failure_awaiting(const std::vector<int>& ranks) const;
  /// `callback` runs once on a thread of the watcher when a failure becomes known, or now if one
  /// is; it must be quick, must not throw and must not call the watcher but for `failure`.
  void on_failure(std::function<void(const Failure&)> callback);

  /// Says goodbye, so that nobody misses this rank, and ends the threads. Takes a round trip; the
  /// rank that hosts the store waits for the others to have read it, at most 2 * `limit`. Does
  /// nothing the second time.
  void leave();
  /// Whether `rank` has said goodbye.
  bool left(int rank) const;
  /// Whether `rank` has come, from which on its end is noticed. This one always has.
  bool arrived(int rank) const;

 private:
  struct State;
  State& state() const;

  void end_threads(std::unique_lock<std::mutex>& lock);

  std::shared_ptr<State> state_;
  std::vector<std::thread> threads_;
};

}  // namespace smex::runtime
