#include "runtime/processes/watcher.h"

#include <pthread.h>
#include <signal.h>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "runtime/processes/watcher_state.h"

namespace smex::runtime {
namespace {

using std::chrono::milliseconds;

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
  const c10d::Store* below = watching::underlying(store.get());
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
  state_->changed.wait_for(lock, watching::kConnection,
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
    if (!peer.left || watching::Clock::now() - peer.left_at < s.options.limit) continue;
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
  const bool ended =
      s.changed.wait_for(lock, watching::kEndOfThread, [&] { return s.num_threads == 0; });
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
