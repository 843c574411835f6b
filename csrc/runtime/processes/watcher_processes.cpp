#include <poll.h>

#include "runtime/processes/watcher_state.h"

namespace smex::runtime {

void Watcher::State::guard() {
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
    if (in_call > watching::kEndOfThread) judge_alone(in_call);
  }
}

void Watcher::State::poll_processes(milliseconds time) {
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

void Watcher::State::find_gone(Duration watched_for) {
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

void Watcher::State::judge_alone(Duration in_call) {
  std::optional<Failure> found;
  {
    const std::lock_guard lock(mutex);
    if (failure || leaving) return;
    if (proposal && in_call > options.limit / 2) found = proposal;
    for (int r = 0; r < size() && !found; ++r) {
      if (peers[r].is_watched() && peers[r].gone_for > watching::kEndOfThread)
        found = gone_failure(r);
    }
    if (!found && in_call > options.limit) found = stopped_failure(in_call);
    if (!found && in_call > store_limit()) found = silent_store_failure(in_call);
  }
  if (found) publish(std::move(*found));
}

}  // namespace smex::runtime
