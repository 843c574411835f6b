#include <algorithm>
#include <exception>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "runtime/processes/fields.h"
#include "runtime/processes/watcher_state.h"

namespace smex::runtime {
namespace {

const std::string kNone = "-";
const std::string kLeft = "left";
const std::string kFailureKey = "failure";
const std::string kLeftKey = "number left";
const std::string kArrivedKey = "number arrived";

std::string beat_key(int rank) { return "beat " + std::to_string(rank); }
std::string process_key(int rank) { return "process " + std::to_string(rank); }

}  // namespace

void Watcher::State::speak() {
  try {
    connect();
    introduce();
    Clock::time_point last = Clock::now();
    while (true) {
      round(last);
      if (goodbye_is_known()) break;
      std::unique_lock lock(mutex);
      changed.wait_for(lock, leaving ? watching::kEndOfProcess / 10 : pause(),
                       [&] { return closing || urgent || (leaving && !has_said_goodbye); });
      urgent = false;
      if (closing || store_ends_well()) break;
    }
  } catch (const std::exception& error) {
    store_is_gone(error.what());
  }
}

void Watcher::State::connect() {
  store = call([&] { return given_store->clone(); });
  auto* tcp = dynamic_cast<c10d::TCPStore*>(watching::underlying(store.get()));
  if (tcp != nullptr) tcp->setTimeout(2 * store_limit());  // the other thread tells before that
  const std::lock_guard lock(mutex);
  has_connected = true;
  changed.notify_all();
}

watching::Duration Watcher::State::pause() const {
  if (num_welcomed >= size()) return options.interval;
  return std::clamp<Duration>(awaited / 4, options.interval / 50, options.interval);
}

void Watcher::State::introduce() {
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

void Watcher::State::round(Clock::time_point& last) {
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

void Watcher::State::hear(int r, const std::string& beat, Duration watched_for) {
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

void Watcher::State::hear_all() {
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

void Watcher::State::welcome(int64_t num_arrived, Duration watched_for) {
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

void Watcher::State::judge(const std::vector<int>& gone) {
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

void Watcher::State::write(const Failure& proposed) {
  const std::string winner =
      call([&] { return store->compareSet(kFailureKey, kNone, encode(proposed)); });
  publish(decode(winner));
  const std::lock_guard lock(mutex);
  proposal.reset();
}

bool Watcher::State::goodbye_is_known() {
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

bool Watcher::State::store_ends_well() {
  const int host = store_host();
  if (host < 0 || !peers[host].left || !peers[host].gone) return false;
  store_ended = store_ended_well = true;
  changed.notify_all();
  return true;
}

void Watcher::State::store_is_gone(const std::string& error) {
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
    changed.wait_for(lock, watching::kEndOfProcess,
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

std::vector<std::string> Watcher::State::get(const std::vector<std::string>& keys) {
  const auto values = call([&] { return store->multiGet(keys); });
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const auto& value : values) texts.emplace_back(value.begin(), value.end());
  return texts;
}

}  // namespace smex::runtime
