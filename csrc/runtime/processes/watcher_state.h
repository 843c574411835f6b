#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>

#include "ir/error.h"
#include "runtime/processes/local_process.h"
#include "runtime/processes/watcher.h"

namespace smex::runtime {
namespace watching {

using Clock = std::chrono::steady_clock;
using Duration = Clock::duration;
using std::chrono::milliseconds;

/// What the kernel takes to tell of a process's end after it has closed the process's sockets.
constexpr milliseconds kEndOfProcess{300};
/// What it takes to connect to a store that is well; the first thread goes on if it takes longer.
constexpr milliseconds kConnection{1000};
/// A thread that is not inside a call of the store ends within this.
constexpr milliseconds kEndOfThread{1000};

/// The store below prefixes, which says what kind it is.
c10d::Store* underlying(c10d::Store* store);

/// Wakes a thread that polls.
class WakePipe {
 public:
  WakePipe() {
    if (pipe(ends_.data()) != 0) {
      throw UserError("Watcher: no pipe can be made (" +
                      std::error_code(errno, std::generic_category()).message() +
                      "); raise the limit on open files (ulimit -n)");
    }
    for (const int end : ends_) {
      fcntl(end, F_SETFD, FD_CLOEXEC);
      fcntl(end, F_SETFL, O_NONBLOCK);
    }
  }
  ~WakePipe() {
    for (const int end : ends_) close(end);
  }
  WakePipe(const WakePipe&) = delete;
  WakePipe& operator=(const WakePipe&) = delete;

  int descriptor() const { return ends_[0]; }
  void wake() {
    const char byte = 0;
    [[maybe_unused]] const ssize_t written = write(ends_[1], &byte, 1);  // full: it wakes anyway
  }
  void drain() {
    std::array<char, 64> bytes{};
    while (read(ends_[0], bytes.data(), bytes.size()) > 0) {
    }
  }

 private:
  std::array<int, 2> ends_{};
};

/// What is known of another rank.
struct Peer {
  bool has_come = false;
  ProcessId id;
  bool hosts_store = false;
  std::shared_ptr<LocalProcess> process;  ///< where it is on this machine
  std::string beat;
  int64_t knows_left = 0;  ///< how many had left when it last read
  Duration silent{0};      ///< while this process was awake
  bool gone = false;
  Duration gone_for{0};  ///< likewise
  bool left = false;
  Clock::time_point left_at;

  bool is_watched() const { return has_come && !left; }
};

}  // namespace watching

/// What the two threads and the methods share. The threads hold it, so that one that hangs in a
/// call of the store outlives the watcher.
struct Watcher::State {
  using Clock = watching::Clock;
  using Duration = watching::Duration;
  using milliseconds = watching::milliseconds;

  State(c10::intrusive_ptr<c10d::Store> store, int rank, int size, WatcherOptions options);

  // ---- the thread that speaks with the store (watcher_store.cpp) ----

  void speak();
  /// The host may end at this moment, whom a TCPStore then looks for as long as its own timeout.
  void connect();
  /// Until the next round. Those who come soon are to be known soon, from which on they are
  /// watched.
  Duration pause() const;
  void introduce();
  /// One message with this rank's beat, one that reads the others'.
  void round(Clock::time_point& last);
  void hear(int r, const std::string& beat, Duration watched_for);
  /// Also those whose beats this rank does not watch.
  void hear_all();
  /// Reads who those are that have come since.
  void welcome(int64_t num_arrived, Duration watched_for);
  /// `gone` were so before the last read, which would have told had they left.
  void judge(const std::vector<int>& gone);
  /// Whoever writes first names everybody's failure.
  void write(const Failure& proposed);
  /// Whether nothing is left to do: the goodbye is read by all, where the store ends with this
  /// process, else written.
  bool goodbye_is_known();
  /// Whether the store has just ended, its host having said goodbye; holds `mutex`. Another call
  /// would find that too, after torch has printed a warning.
  bool store_ends_well();
  void store_is_gone(const std::string& error);
  std::vector<std::string> get(const std::vector<std::string>& keys);
  template <class Call>
  auto call(const Call& what) {
    struct Inside {
      std::atomic<uint64_t>& number;
      explicit Inside(std::atomic<uint64_t>& n) : number(n) { ++number; }
      ~Inside() { ++number; }
    } const inside(call_number);
    return what();
  }

  // ---- the thread that watches processes, and the other thread (watcher_processes.cpp) ----

  void guard();
  void poll_processes(milliseconds time);
  void find_gone(Duration watched_for);
  /// While the other thread waits for an answer of the store.
  void judge_alone(Duration in_call);

  // ---- what both know (watcher_state.cpp) ----

  int size() const { return static_cast<int>(peers.size()); }
  const watching::Peer& peer(int r) const;
  /// A TCPStore asks for the name of each new client's address, and nothing else meanwhile: 5 s
  /// where the answer is lost (resolv.conf(5)), which is no failure.
  milliseconds store_limit() const { return 2 * options.limit; }
  bool is_closing() const;
  /// The next ranks in a ring: of those that fail together one has a healthy rank before it.
  std::vector<int> watched() const;
  int store_host() const;
  int first_gone() const;
  std::string process_text(int r) const;
  Failure gone_failure(int r) const;
  Failure silent_failure(int r, Duration silent) const;
  /// Of a rank here that is stopped, perhaps the store's host.
  std::optional<Failure> stopped_failure(Duration silent) const;
  Failure silent_store_failure(Duration silent) const;
  Failure store_failure(const std::string& error) const;
  void propose_absent(int r);
  /// For the thread that speaks to write; holds `mutex`.
  void propose(Failure found);
  void publish(Failure found);

  const pid_t owner;
  const int rank;
  const WatcherOptions options;
  c10::intrusive_ptr<c10d::Store> given_store;  ///< perhaps the one that hosts
  c10::intrusive_ptr<c10d::Store> store;  ///< with a connection of its own, of the first thread
  bool hosts_store = false;
  watching::WakePipe wakes;

  // Of the thread that speaks alone.
  int64_t beats = 0;
  int64_t num_left = 0, num_welcomed = 0, goodbye_number = 0;
  Duration awaited{0};

  /// Odd inside of a call of the store.
  std::atomic<uint64_t> call_number{0};

  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::vector<watching::Peer> peers;  ///< by rank
  std::string this_machine;
  std::optional<Failure> proposal, failure;
  std::vector<std::function<void(const Failure&)>> callbacks;
  bool urgent = false, closing = false, leaving = false, goodbye_is_over = false;
  bool has_connected = false;
  bool store_ended = false;
  bool store_ended_well = false;  ///< its host had said goodbye
  std::atomic<bool> has_said_goodbye{false};
  int num_threads = 0;
};

}  // namespace smex::runtime
