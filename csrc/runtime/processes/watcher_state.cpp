#include "runtime/processes/watcher_state.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace smex::runtime {
namespace {

/// How many ranks after one it watches by their beats, which bounds what a round reads.
constexpr int kWatched = 64;

std::string seconds_text(watching::Duration time) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", std::chrono::duration<double>(time).count());
  return text.data();
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

}  // namespace

c10d::Store* watching::underlying(c10d::Store* store) {
  auto* prefixed = dynamic_cast<c10d::PrefixStore*>(store);
  return prefixed == nullptr ? store : prefixed->getUnderlyingNonPrefixStore().get();
}

Watcher::State::State(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                      WatcherOptions options)
    : owner(getpid()), rank(rank), options(options), given_store(std::move(store)), peers(size) {
  const auto* tcp = dynamic_cast<c10d::TCPStore*>(watching::underlying(given_store.get()));
  hosts_store = tcp != nullptr && listens_on(tcp->getPort());
}

const watching::Peer& Watcher::State::peer(int r) const {
  if (r < 0 || r >= size()) {
    throw UserError("Watcher: expected a rank from 0 to " + std::to_string(size() - 1) +
                    ", found " + std::to_string(r));
  }
  return peers[r];
}

bool Watcher::State::is_closing() const {
  const std::lock_guard lock(mutex);
  return closing;
}

std::vector<int> Watcher::State::watched() const {
  std::vector<int> ranks;
  for (int step = 1; step < size() && static_cast<int>(ranks.size()) < kWatched; ++step) {
    const int r = (rank + step) % size();
    if (peers[r].is_watched()) ranks.push_back(r);
  }
  return ranks;
}

int Watcher::State::store_host() const {
  for (int r = 0; r < size(); ++r) {
    if (peers[r].hosts_store) return r;
  }
  return -1;
}

int Watcher::State::first_gone() const {
  for (int r = 0; r < size(); ++r) {
    if (peers[r].is_watched() && peers[r].gone) return r;
  }
  return -1;
}

std::string Watcher::State::process_text(int r) const {
  return "process " + std::to_string(peers[r].id.pid) + " on " + peers[r].id.host;
}

Failure Watcher::State::gone_failure(int r) const {
  return {r, "",
          "rank " + std::to_string(r) + " was killed or has crashed (its " + process_text(r) +
              " is gone)",
          Failure::Kind::kGone};
}

Failure Watcher::State::silent_failure(int r, Duration silent) const {
  const watching::Peer& peer = peers[r];
  const bool stopped = peer.process != nullptr && peer.process->is_stopped();
  return {r, "",
          "rank " + std::to_string(r) + " has not answered for " + seconds_text(silent) +
              (stopped ? " (its " + process_text(r) + " is stopped)"
                       : " (its " + process_text(r) + " is stopped, or unreachable)"),
          Failure::Kind::kSilent};
}

std::optional<Failure> Watcher::State::stopped_failure(Duration silent) const {
  for (int r = 0; r < size(); ++r) {
    if (peers[r].process != nullptr && peers[r].is_watched() && peers[r].process->is_stopped()) {
      return silent_failure(r, silent);
    }
  }
  return std::nullopt;
}

Failure Watcher::State::silent_store_failure(Duration silent) const {
  const int host = store_host();
  return {host, "",
          "the store has not answered for " + seconds_text(silent) + ": " +
              (host < 0 ? "the launcher (torchrun) or rank 0, whichever hosts it,"
                        : "rank " + std::to_string(host) + ", which hosts it (" +
                              process_text(host) + "),") +
              " is stopped, or its machine is unreachable",
          Failure::Kind::kStore};
}

Failure Watcher::State::store_failure(const std::string& error) const {
  const int host = store_host();
  return {host, "",
          "the store's host is gone: " +
              (host < 0 ? "rank 0's machine or the launcher (torchrun) has ended"
                        : "rank " + std::to_string(host) + " (" + process_text(host) +
                              ") or its machine has ended") +
              " (" + error.substr(0, error.find('\n')) + ")",
          Failure::Kind::kStore};
}

void Watcher::State::propose_absent(int r) {
  const std::lock_guard lock(mutex);
  if (failure || closing || leaving) return;
  propose({r, "",
           "rank " + std::to_string(r) + " has not come within " + seconds_text(options.arrival) +
               "; look for its own error, or give more time (arrival)",
           Failure::Kind::kAbsent});
}

void Watcher::State::propose(Failure found) {
  if (proposal) return;
  proposal = std::move(found);
  urgent = true;
  changed.notify_all();
}

void Watcher::State::publish(Failure found) {
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

}  // namespace smex::runtime
