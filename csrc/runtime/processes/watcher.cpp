#include "runtime/processes/watcher.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "ir/error.h"
#include "runtime/processes/fields.h"
#include "runtime/processes/local_process.h"

namespace smex::runtime {
namespace {

using Clock = std::chrono::steady_clock;
using Duration = Clock::duration;
using std::chrono::milliseconds;

/// How many ranks after one it watches by their beats, which bounds what a round reads.
constexpr int kWatched = 64;
/// What the kernel takes to tell of a process's end after it has closed the process's sockets.
constexpr milliseconds kEndOfProcess{300};
/// What it takes to connect to a store that is well; the first thread goes on if it takes longer.
constexpr milliseconds kConnection{1000};
/// A thread that is not inside a call of the store ends within this.
constexpr milliseconds kEndOfThread{1000};

const std::string kNone = "-";
const std::string kLeft = "left";
const std::string kFailureKey = "failure";
const std::string kLeftKey = "number left";
const std::string kArrivedKey = "number arrived";

std::string beat_key(int rank) { return "beat " + std::to_string(rank); }
std::string process_key(int rank) { return "process " + std::to_string(rank); }

std::string seconds_text(Duration time) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", std::chrono::duration<double>(time).count());
  return text.data();
}

/// The store below prefixes, which says what kind it is.
c10d::Store* underlying(c10d::Store* store) {
  auto* prefixed = dynamic_cast<c10d::PrefixStore*>(store);
  return prefixed == nullptr ? store : prefixed->getUnderlyingNonPrefixStore().get();
}

/// Whether this process listens on `port`, as the host of a TCPStore does.
bool listens_on(uint16_t port) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", none)) {
    const int descriptor = std::atoi(entry.path().filename().c_str());
    int listening = 0;
    socklen_t size = sizeof(listening);
    if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0) continue;
    if (listening == 0) continue;
    sockaddr_storage address{};
    size = sizeof(address);
    if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) continue;
    if (address.ss_family == AF_INET &&
        ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port) == port) {
      return true;
    }
    if (address.ss_family == AF_INET6 &&
        ntohs(reinterpret_cast<sockaddr_in6&>(address).sin6_port) == port) {
      return true;
    }
  }
  return false;
}

/// Signals are for the program's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t previous_{};
};

}  // namespace

namespace watching {

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
  State(c10::intrusive_ptr<c10d::Store> store, int rank, int size, WatcherOptions options)
      : owner(getpid()), rank(rank), options(options), given_store(std::move(store)), peers(size) {
    const auto* tcp = dynamic_cast<c10d::TCPStore*>(underlying(given_store.get()));
    hosts_store = tcp != nullptr && listens_on(tcp->getPort());
  }

  template <class Call>
  auto call(const Call& what) {
    struct Inside {
      std::atomic<uint64_t>& number;
      explicit Inside(std::atomic<uint64_t>& n) : number(n) { ++number; }
      ~Inside() { ++number; }
    } const inside(call_number);
    return what();
  }

  // ---- the thread that speaks with the store ----

  void speak() {
    try {
      connect();
      introduce();
      Clock::time_point last = Clock::now();
      while (true) {
        round(last);
        if (goodbye_is_known()) break;
        std::unique_lock lock(mutex);
        changed.wait_for(lock, leaving ? kEndOfProcess / 10 : pause(),
                         [&] { return closing || urgent || (leaving && !has_said_goodbye); });
        urgent = false;
        if (closing || store_ends_well()) break;
      }
    } catch (const std::exception& error) {
      store_is_gone(error.what());
    }
  }

  /// The host may end at this moment, whom a TCPStore then looks for as long as its own timeout.
  void connect() {
    store = call([&] { return given_store->clone(); });
    auto* tcp = dynamic_cast<c10d::TCPStore*>(underlying(store.get()));
    if (tcp != nullptr) tcp->setTimeout(2 * store_limit());  // the other thread tells before that
    const std::lock_guard lock(mutex);
    has_connected = true;
    changed.notify_all();
  }

  /// Until the next round. Those who come soon are to be known soon, from which on they are
  /// watched.
  Duration pause() const {
    if (num_welcomed >= size()) return options.interval;
    return std::clamp<Duration>(awaited / 4, options.interval / 50, options.interval);
  }

  void introduce() {
    const ProcessId id = ProcessId::of_this_process();
    call([&] {
      store->set(beat_key(rank), join_fields({"0", "0"}));
      store->compareSet(kFailureKey, "", kNone);
      store->add(kLeftKey, 0);
      store->set(process_key(rank), join_fields({id.host, id.machine, std::to_string(id.pid),
                                                 id.started, hosts_store ? "host" : ""}));
      store->add(kArrivedKey, 1);
    });
    const std::lock_guard lock(mutex);
    this_machine = id.machine;
  }

  /// One message with this rank's beat, one that reads the others'.
  void round(Clock::time_point& last) {
    bool says_goodbye = false;
    std::optional<Failure> proposed;
    std::vector<int> gone, read;
    {
      const std::lock_guard lock(mutex);
      says_goodbye = leaving && !has_said_goodbye;
      proposed = proposal;
      for (int r = 0; r < size(); ++r) {
        if (peers[r].gone && peers[r].is_watched()) gone.push_back(r);
      }
      read = watched();
    }
    if (proposed) write(*proposed);
    if (says_goodbye) {
      call([&] {
        store->set(beat_key(rank), kLeft);
        goodbye_number = store->add(kLeftKey, 1);
      });
      has_said_goodbye = true;
    } else if (!has_said_goodbye) {
      ++beats;
      call([&] {
        store->set(beat_key(rank), join_fields({std::to_string(beats), std::to_string(num_left)}));
      });
    }
    std::vector<std::string> keys{kFailureKey, kLeftKey, kArrivedKey};
    for (const int r : read) keys.push_back(beat_key(r));
    const std::vector<std::string> values = get(keys);
    const auto now = Clock::now();
    // Who was stopped meanwhile, or waited for a slow store, has not watched for longer than this.
    const Duration watched_for = std::min<Duration>(now - last, 2 * options.interval);
    last = now;

    if (values[0] != kNone) publish(decode(values[0]));
    for (size_t i = 0; i < read.size(); ++i) hear(read[i], values[3 + i], watched_for);
    const int64_t left_now = std::stoll(values[1]);
    if (left_now > num_left) hear_all();
    num_left = left_now;
    welcome(std::stoll(values[2]), watched_for);
    judge(gone);
  }

  void hear(int r, const std::string& beat, Duration watched_for) {
    const std::lock_guard lock(mutex);
    watching::Peer& peer = peers[r];
    if (beat == kLeft) {
      if (!peer.left) peer.left_at = Clock::now();
      peer.left = true;
      changed.notify_all();
      return;
    }
    peer.silent = beat == peer.beat ? peer.silent + watched_for : Duration{0};
    peer.beat = beat;
    const std::vector<std::string> fields = split_fields(beat, 2);
    if (fields.size() == 2) peer.knows_left = std::stoll(fields[1]);
  }

  /// Also those whose beats this rank does not watch.
  void hear_all() {
    std::vector<int> all;
    std::vector<std::string> keys;
    {
      const std::lock_guard lock(mutex);
      for (int r = 0; r < size(); ++r) {
        if (r == rank || !peers[r].is_watched()) continue;
        all.push_back(r);
        keys.push_back(beat_key(r));
      }
    }
    if (all.empty()) return;
    const std::vector<std::string> values = get(keys);
    for (size_t i = 0; i < all.size(); ++i) hear(all[i], values[i], Duration{0});
  }

  /// Reads who those are that have come since.
  void welcome(int64_t num_arrived, Duration watched_for) {
    std::vector<int> missing;
    {
      const std::lock_guard lock(mutex);
      for (int r = 0; r < size(); ++r) {
        if (r != rank && !peers[r].has_come) missing.push_back(r);
      }
    }
    if (missing.empty()) {
      num_welcomed = size();
      return;
    }
    awaited += watched_for;
    const bool all_have_come = num_arrived >= size();
    if (!all_have_come && num_arrived == num_welcomed) {
      if (awaited > options.arrival) propose_absent(missing.front());
      return;
    }
    num_welcomed = num_arrived;
    std::vector<std::string> keys;
    std::vector<int> arrived;
    for (const int r : missing) {
      if (!all_have_come && !call([&] { return store->check({process_key(r)}); })) continue;
      arrived.push_back(r);
      keys.push_back(process_key(r));
    }
    if (arrived.empty()) return;
    const std::vector<std::string> values = get(keys);
    for (size_t i = 0; i < arrived.size(); ++i) {
      const std::vector<std::string> fields = split_fields(values[i], 5);
      const std::lock_guard lock(mutex);
      watching::Peer& peer = peers[arrived[i]];
      peer.id = {fields.at(0), fields.at(1), std::stoi(fields.at(2)), fields.at(3)};
      peer.hosts_store = !fields.at(4).empty();
      if (!this_machine.empty() && peer.id.machine == this_machine && peer.id.pid != owner) {
        peer.process = std::make_shared<LocalProcess>(peer.id);
      }
      peer.has_come = true;
    }
    hear_all();  // who was quick may have left
    wakes.wake();
  }

  /// `gone` were so before the last read, which would have told had they left.
  void judge(const std::vector<int>& gone) {
    const std::lock_guard lock(mutex);
    if (failure || closing || leaving) return;
    for (const int r : gone) {
      if (peers[r].is_watched()) return propose(gone_failure(r));
    }
    int longest = -1;
    for (const int r : watched()) {
      if (peers[r].silent < options.limit) continue;
      if (longest < 0 || peers[r].silent > peers[longest].silent) longest = r;
    }
    if (longest >= 0) propose(silent_failure(longest, peers[longest].silent));
  }

  /// Whoever writes first names everybody's failure.
  void write(const Failure& proposed) {
    const std::string winner =
        call([&] { return store->compareSet(kFailureKey, kNone, encode(proposed)); });
    publish(decode(winner));
    const std::lock_guard lock(mutex);
    proposal.reset();
  }

  /// Whether nothing is left to do: the goodbye is read by all, where the store ends with this
  /// process, else written.
  bool goodbye_is_known() {
    if (!has_said_goodbye) return false;
    const std::lock_guard lock(mutex);
    if (hosts_store && !failure) {
      for (const int r : watched()) {
        if (!peers[r].gone && peers[r].knows_left < goodbye_number) return false;
      }
    }
    goodbye_is_over = true;
    changed.notify_all();
    return true;
  }

  /// Whether the store has just ended, its host having said goodbye; holds `mutex`. Another call
  /// would find that too, after torch has printed a warning.
  bool store_ends_well() {
    const int host = store_host();
    if (host < 0 || !peers[host].left || !peers[host].gone) return false;
    store_ended = store_ended_well = true;
    changed.notify_all();
    return true;
  }

  void store_is_gone(const std::string& error) {
    std::unique_lock lock(mutex);
    store_ended = true;
    urgent = false;
    // The host is perhaps a rank here, which the other thread hears of at this moment.
    const auto some_gone = [&] {
      return std::any_of(peers.begin(), peers.end(),
                         [](const watching::Peer& peer) { return peer.is_watched() && peer.gone; });
    };
    const int host = store_host();
    store_ended_well = host >= 0 && peers[host].left;
    if (!store_ended_well) {
      changed.wait_for(lock, kEndOfProcess,
                       [&] { return closing || failure.has_value() || some_gone(); });
      if (!closing && !leaving && !failure) {
        Failure found = some_gone() ? gone_failure(first_gone()) : store_failure(error);
        lock.unlock();
        publish(std::move(found));
        lock.lock();
      }
    }
    changed.notify_all();
  }

  // ---- the thread that watches processes, and the other thread ----

  void guard() {
    const Duration tick = std::min<Duration>(options.interval, options.limit / 8);
    Clock::time_point last = Clock::now();
    uint64_t last_call = 0;
    Duration in_call{0};
    while (!is_closing()) {
      poll_processes(std::chrono::duration_cast<milliseconds>(tick));
      const auto now = Clock::now();
      const Duration watched_for = std::min<Duration>(now - last, 2 * tick);
      last = now;
      find_gone(watched_for);
      const uint64_t this_call = call_number;
      const bool hangs = this_call % 2 == 1 && this_call == last_call;
      in_call = hangs ? in_call + watched_for : Duration{0};
      last_call = this_call;
      if (in_call > kEndOfThread) judge_alone(in_call);
    }
  }

  void poll_processes(milliseconds time) {
    std::vector<pollfd> entries{{wakes.descriptor(), POLLIN, 0}};
    {
      const std::lock_guard lock(mutex);
      for (const watching::Peer& peer : peers) {
        if (peer.process == nullptr || peer.gone) continue;
        if (peer.process->descriptor() < 0) continue;
        entries.push_back({peer.process->descriptor(), POLLIN, 0});
      }
    }
    poll(entries.data(), entries.size(), static_cast<int>(time.count()));
    wakes.drain();
  }

  void find_gone(Duration watched_for) {
    const std::lock_guard lock(mutex);
    for (watching::Peer& peer : peers) {
      if (peer.process == nullptr) continue;
      if (peer.gone) {
        peer.gone_for += watched_for;
      } else if (peer.process->is_gone()) {
        peer.gone = urgent = true;
        changed.notify_all();
      }
      // Without the store nobody can say goodbye.
      if (peer.gone && store_ended_well && !peer.left) {
        peer.left = true;
        peer.left_at = Clock::now();
      }
    }
  }

  /// While the other thread waits for an answer of the store.
  void judge_alone(Duration in_call) {
    std::optional<Failure> found;
    {
      const std::lock_guard lock(mutex);
      if (failure || leaving) return;
      if (proposal && in_call > options.limit / 2) found = proposal;
      for (int r = 0; r < size() && !found; ++r) {
        if (peers[r].is_watched() && peers[r].gone_for > kEndOfThread) found = gone_failure(r);
      }
      if (!found && in_call > options.limit) found = stopped_failure(in_call);
      if (!found && in_call > store_limit()) found = silent_store_failure(in_call);
    }
    if (found) publish(std::move(*found));
  }

  // ---- what both know ----

  int size() const { return static_cast<int>(peers.size()); }

  const watching::Peer& peer(int r) const {
    if (r < 0 || r >= size()) {
      throw UserError("Watcher: expected a rank from 0 to " + std::to_string(size() - 1) +
                      ", found " + std::to_string(r));
    }
    return peers[r];
  }

  /// A TCPStore asks for the name of each new client's address, and nothing else meanwhile: 5 s
  /// where the answer is lost (resolv.conf(5)), which is no failure.
  milliseconds store_limit() const { return 2 * options.limit; }

  bool is_closing() const {
    const std::lock_guard lock(mutex);
    return closing;
  }

  /// The next ranks in a ring: of those that fail together one has a healthy rank before it.
  std::vector<int> watched() const {
    std::vector<int> ranks;
    for (int step = 1; step < size() && static_cast<int>(ranks.size()) < kWatched; ++step) {
      const int r = (rank + step) % size();
      if (peers[r].is_watched()) ranks.push_back(r);
    }
    return ranks;
  }

  int store_host() const {
    for (int r = 0; r < size(); ++r) {
      if (peers[r].hosts_store) return r;
    }
    return -1;
  }

  int first_gone() const {
    for (int r = 0; r < size(); ++r) {
      if (peers[r].is_watched() && peers[r].gone) return r;
    }
    return -1;
  }

  std::string process_text(int r) const {
    return "process " + std::to_string(peers[r].id.pid) + " on " + peers[r].id.host;
  }

  Failure gone_failure(int r) const {
    return {r, "",
            "rank " + std::to_string(r) + " was killed or has crashed (its " + process_text(r) +
                " is gone)",
            Failure::Kind::kGone};
  }

  Failure silent_failure(int r, Duration silent) const {
    const watching::Peer& peer = peers[r];
    const bool stopped = peer.process != nullptr && peer.process->is_stopped();
    return {r, "",
            "rank " + std::to_string(r) + " has not answered for " + seconds_text(silent) +
                (stopped ? " (its " + process_text(r) + " is stopped)"
                         : " (its " + process_text(r) + " is stopped, or unreachable)"),
            Failure::Kind::kSilent};
  }

  /// Of a rank here that is stopped, perhaps the store's host.
  std::optional<Failure> stopped_failure(Duration silent) const {
    for (int r = 0; r < size(); ++r) {
      if (peers[r].process != nullptr && peers[r].is_watched() && peers[r].process->is_stopped()) {
        return silent_failure(r, silent);
      }
    }
    return std::nullopt;
  }

  Failure silent_store_failure(Duration silent) const {
    const int host = store_host();
    return {host, "",
            "the store has not answered for " + seconds_text(silent) + ": " +
                (host < 0 ? "the launcher (torchrun) or rank 0, whichever hosts it,"
                          : "rank " + std::to_string(host) + ", which hosts it (" +
                                process_text(host) + "),") +
                " is stopped, or its machine is unreachable",
            Failure::Kind::kStore};
  }

  Failure store_failure(const std::string& error) const {
    const int host = store_host();
    return {host, "",
            "the store's host is gone: " +
                (host < 0 ? "rank 0's machine or the launcher (torchrun) has ended"
                          : "rank " + std::to_string(host) + " (" + process_text(host) +
                                ") or its machine has ended") +
                " (" + error.substr(0, error.find('\n')) + ")",
            Failure::Kind::kStore};
  }

  void propose_absent(int r) {
    const std::lock_guard lock(mutex);
    if (failure || closing || leaving) return;
    propose({r, "",
             "rank " + std::to_string(r) + " has not come within " + seconds_text(options.arrival) +
                 "; look for its own error, or give more time (arrival)",
             Failure::Kind::kAbsent});
  }

  /// For the thread that speaks to write; holds `mutex`.
  void propose(Failure found) {
    if (proposal) return;
    proposal = std::move(found);
    urgent = true;
    changed.notify_all();
  }

  void publish(Failure found) {
    std::vector<std::function<void(const Failure&)>> to_call;
    {
      const std::lock_guard lock(mutex);
      if (failure) return;
      failure = std::move(found);
      to_call.swap(callbacks);
      changed.notify_all();
    }
    for (const auto& callback : to_call) callback(*failure);  // never written again
  }

  std::vector<std::string> get(const std::vector<std::string>& keys) {
    const auto values = call([&] { return store->multiGet(keys); });
    std::vector<std::string> texts;
    texts.reserve(values.size());
    for (const auto& value : values) texts.emplace_back(value.begin(), value.end());
    return texts;
  }

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

Watcher::Watcher(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                 WatcherOptions options) {
  if (size < 1 || rank < 0 || rank >= size) {
    throw UserError("Watcher: expected a rank from 0 to size - 1, found rank " +
                    std::to_string(rank) + " of " + std::to_string(size));
  }
  if (options.interval < milliseconds(10) || options.limit < 3 * options.interval) {
    throw UserError(
        "Watcher: expected an interval of at least 0.01 s and a limit of at least 3 "
        "intervals, found " +
        std::to_string(options.interval.count()) + " ms and " +
        std::to_string(options.limit.count()) + " ms");
  }
  const c10d::Store* below = underlying(store.get());
  if (dynamic_cast<const c10d::TCPStore*>(below) == nullptr &&
      dynamic_cast<const c10d::FileStore*>(below) == nullptr &&
      dynamic_cast<const c10d::HashStore*>(below) == nullptr) {
    throw UserError(
        "Watcher: expected a TCPStore, FileStore or HashStore, perhaps in a "
        "PrefixStore, found another kind, whose calls may need Python's lock");
  }
  state_ = std::make_shared<State>(std::move(store), rank, size, options);
  const auto start = [&](void (State::*loop)()) {
    {
      const std::lock_guard lock(state_->mutex);
      ++state_->num_threads;
    }
    const auto end = [](State& state) {
      const std::lock_guard lock(state.mutex);
      --state.num_threads;
      state.changed.notify_all();
    };
    try {
      threads_.emplace_back([state = state_, loop, end] {
        (*state.*loop)();
        end(*state);
      });
    } catch (const std::system_error& error) {
      end(*state_);
      throw UserError("Watcher: the system starts no further thread (" + error.code().message() +
                      "); raise the limit on processes (ulimit -u)");
    }
  };
  const SignalsBlocked blocked;
  start(&State::speak);
  try {
    start(&State::guard);
  } catch (const UserError&) {
    leave();
    throw;
  }
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, kConnection,
                           [&] { return state_->has_connected || state_->store_ended; });
}

Watcher::~Watcher() {
  if (state_->owner == getpid()) {
    leave();
    return;
  }
  // A forked process: a mutex may be locked for ever, and neither the store's threads are here nor
  // these, which nobody can join.
  static_cast<void>(new std::shared_ptr<State>(std::move(state_)));
  static_cast<void>(new std::vector<std::thread>(std::move(threads_)));
}

Watcher::State& Watcher::state() const {
  if (state_->owner != getpid()) {
    throw UserError("Watcher: made in process " + std::to_string(state_->owner) +
                    " and used in process " + std::to_string(getpid()) +
                    ", which was forked from it; make another one there");
  }
  return *state_;
}

int Watcher::rank() const { return state_->rank; }
int Watcher::size() const { return state_->size(); }

Failure Watcher::report(const Failure& failure) {
  State& s = state();
  {
    std::unique_lock lock(s.mutex);
    if (!s.failure && !s.store_ended && !s.closing) {
      s.proposal = failure;  // closer to the cause than what was seen from outside
      s.urgent = true;
      s.changed.notify_all();
      s.changed.wait_for(lock, s.store_limit(),
                         [&] { return s.failure || s.store_ended || s.closing; });
    }
  }
  s.publish(failure);
  return *this->failure();
}

Failure Watcher::settle(const Failure& symptom, std::optional<milliseconds> patience) {
  const State& s = state();
  const auto found = wait(patience.value_or(s.options.limit + 2 * s.options.interval));
  return found ? *found : report(symptom);
}

std::optional<Failure> Watcher::failure() const {
  const State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.failure;
}

std::optional<Failure> Watcher::wait(milliseconds time) const {
  const State& s = state();
  std::unique_lock lock(s.mutex);
  s.changed.wait_for(lock, time, [&] { return s.failure.has_value() || s.closing; });
  return s.failure;
}

std::optional<Failure> Watcher::failure_awaiting(const std::vector<int>& ranks) const {
  const State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.failure) return s.failure;
  for (const int r : ranks) {
    const watching::Peer& peer = s.peer(r);
    if (!peer.left || Clock::now() - peer.left_at < s.options.limit) continue;
    return Failure{r, "",
                   "rank " + std::to_string(r) + " has ended while rank " + std::to_string(s.rank) +
                       " waits for it; every rank must make the same calls",
                   Failure::Kind::kLeft};
  }
  return std::nullopt;
}

void Watcher::on_failure(std::function<void(const Failure&)> callback) {
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    if (!s.failure) {
      s.callbacks.push_back(std::move(callback));
      return;
    }
  }
  callback(*s.failure);
}

void Watcher::leave() {
  State& s = state();
  std::unique_lock lock(s.mutex);
  if (s.closing) return;
  s.leaving = true;
  s.changed.notify_all();
  s.changed.wait_for(lock, s.store_limit(), [&] {
    return s.goodbye_is_over || s.failure || s.store_ended || s.num_threads == 0;
  });
  end_threads(lock);
}

void Watcher::end_threads(std::unique_lock<std::mutex>& lock) {
  State& s = *state_;
  s.closing = true;
  s.changed.notify_all();
  s.wakes.wake();
  const bool ended = s.changed.wait_for(lock, kEndOfThread, [&] { return s.num_threads == 0; });
  lock.unlock();
  for (std::thread& thread : threads_) {
    // One that waits for an answer of the store ends with that, or with the process.
    ended ? thread.join() : thread.detach();
  }
  threads_.clear();
}

bool Watcher::left(int rank) const {
  const State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.peer(rank).left;
}

bool Watcher::arrived(int rank) const {
  const State& s = state();
  const std::lock_guard lock(s.mutex);
  return rank == s.rank || s.peer(rank).has_come;
}

}  // namespace smex::runtime
