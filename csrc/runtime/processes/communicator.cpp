#include "runtime/processes/communicator.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "ir/error.h"
#include "runtime/dtype.h"
#include "runtime/spin.h"

namespace smex::runtime {
namespace {

constexpr std::chrono::milliseconds kLook{100};
constexpr std::chrono::seconds kLongWait{1};       ///< after which others may do something else
constexpr std::chrono::seconds kVeryLongWait{10};  ///< after which the user may want to know
constexpr std::chrono::seconds kLongAbort{3};      ///< after which nobody waits for it

/// Messages are told apart by their numbers, and those of other programs and passes from what this
/// rank expects, as Gloo ends the process where a message is longer than that.
int tag_of(uint32_t message, uint64_t pass, uint64_t digest) {
  constexpr uint32_t kNumberBits = 20, kProgramBits = 10;
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;
  const uint64_t program = ((digest + pass) * kGolden) >> (64 - kProgramBits);
  return static_cast<int>(program << kNumberBits | (message & ((1U << kNumberBits) - 1)));
}

std::string disagreement(int other) {
  return c10::str("it does not run the same as rank ", other,
                  " at this place: every rank must call the same nets, forward and backward, and "
                  "their state_dict, full_grads and clip_grad_norm_, in the same order with inputs "
                  "of the same shapes");
}

/// For the user, whom no line of this file helps.
void warn(const std::string& text) {
  c10::warn(c10::Warning(c10::UserWarning(), {__func__, __FILE__, __LINE__}, text,
                         /*verbatim=*/true));
}

int64_t place_in(const std::vector<int>& group, int process) {
  return std::find(group.begin(), group.end(), process) - group.begin();
}

}  // namespace

void Communicator::Signal::fail() {
  std::vector<Group> groups;
  std::promise<void> aborted;
  {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    for (const auto& known : abortable_) {
      if (Group group = known.lock()) groups.push_back(std::move(group));
    }
    abortable_.clear();
    if (!groups.empty()) aborted_ = aborted.get_future().share();
  }
  doorbell().ring();
  if (groups.empty()) return;
  // On a thread of its own: half a second for each.
  std::thread([groups = std::move(groups), aborted = std::move(aborted)]() mutable {
    for (const Group& group : groups) {
      try {
        group->abort();
      } catch (const std::exception& error) {
        warn(c10::str("a process group could not be aborted: ", error.what()));
      }
    }
    // Its destructor waits for a thread of torch's that sleeps for a minute after an error.
    static_cast<void>(new std::vector<Group>(std::move(groups)));
    aborted.set_value();
  }).detach();
}

void Communicator::Signal::abort_on_failure(const Group& group) {
  if (!group || group->getBackendName() != "nccl") return;  // Gloo cannot be told to stop
  {
    const std::lock_guard lock(mutex_);
    abortable_.emplace_back(group);
  }
  if (failed_) fail();
}

void Communicator::Signal::await_abort() {
  std::shared_future<void> aborted;
  {
    const std::lock_guard lock(mutex_);
    aborted = aborted_;
  }
  if (aborted.valid()) aborted.wait_for(kLongAbort);
}

void Communicator::Signal::lose(const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    if (lost_.empty()) lost_ = text;
  }
  fail();
}

std::string Communicator::Signal::lost() {
  const std::lock_guard lock(mutex_);
  return lost_;
}

Communicator::Communicator(CommunicatorOptions options)
    : options_(std::move(options)),
      signal_(std::make_shared<Signal>(
          options_.segments.empty() ? nullptr : options_.segments[options_.rank])),
      num_sent_(options_.hosts.size(), 0),
      num_asked_(options_.hosts.size(), 0),
      receives_(options_.hosts.size()),
      sends_(options_.hosts.size()),
      device_wait_(
          [this](const auto& collective, auto waited) { look_after(collective, waited); }) {
  signal_->abort_on_failure(options_.group);
  options_.watcher->on_failure([signal = signal_](const Failure&) { signal->fail(); });
}

std::shared_ptr<Communicator> Communicator::create(CommunicatorOptions options) {
  return std::shared_ptr<Communicator>(new Communicator(std::move(options)));
}

Communicator::~Communicator() {
  {
    const std::lock_guard lock(serving_mutex_);
    closing_ = true;
  }
  serving_changed_.notify_all();
  doorbell().ring();
  if (!server_.joinable()) return;
  if (server_.get_id() == std::this_thread::get_id()) {  // it had the last pass
    server_.detach();
  } else {
    server_.join();
  }
}

Segment* Communicator::own_segment() const {
  return options_.segments.empty() ? nullptr : options_.segments[options_.rank].get();
}

int Communicator::processes_here() const {
  const int host = options_.hosts[options_.rank];
  return host < 0
             ? 1
             : static_cast<int>(std::count(options_.hosts.begin(), options_.hosts.end(), host));
}

std::shared_ptr<Pass> Communicator::begin(std::shared_ptr<const Traffic> traffic, uint64_t digest,
                                          c10::Device device, Pack pack) {
  check();
  return std::make_shared<Pass>(shared_from_this(), std::move(traffic), next_event(), digest,
                                device, std::move(pack));
}

void Communicator::add_group(const std::vector<int>& members, Group group) {
  signal_->abort_on_failure(group);
  groups_[members] = std::move(group);
}

void Communicator::check_group(const std::vector<int>& members) const {
  const bool is_member = std::find(members.begin(), members.end(), rank()) != members.end();
  if (!is_member || static_cast<int>(members.size()) == size() || groups_.count(members)) return;
  throw UserError(c10::str("collectives: rank ", rank(), " has no group of ranks ",
                           c10::Join(", ", members), "; add it to the communicator before"));
}

const Group& Communicator::group_of(const std::vector<int>& members) const {
  return static_cast<int>(members.size()) == size() ? options_.group : groups_.at(members);
}

void Communicator::fail(const std::string& where, const std::string& text) {
  signal_->fail();
  give_up(options_.watcher->report({rank(), where, text}));
}

void Communicator::lose(const std::string& text) { signal_->lose(text); }

c10::intrusive_ptr<c10d::Work> Communicator::posted(
    const std::function<c10::intrusive_ptr<c10d::Work>()>& post) {
  try {
    return post();
  } catch (const c10::Error& error) {
    lose(error.what_without_backtrace());
  } catch (const std::exception& error) {
    lose(error.what());
  }
  return nullptr;
}

void Communicator::check(const std::vector<int>& awaited) {
  if (!signal_->has_failed()) {
    if (awaited.empty()) return;
    if (const auto failure = options_.watcher->failure_awaiting(awaited)) throw_failure(*failure);
    return;
  }
  if (const auto failure = options_.watcher->failure()) throw_failure(*failure);
  throw_failure(options_.watcher->settle({-1, "", signal_->lost()}));
}

void Communicator::throw_failure(const Failure& failure) {
  give_up(failure);
  throw RankFailure(failure);
}

void Communicator::give_up(const Failure& failure) {
  signal_->await_abort();
  const std::lock_guard lock(giving_up_);
  if (has_given_up_) return;
  has_given_up_ = true;
  // Gloo's threads may wait for what never comes, and its destructor for them: that is left out.
  static_cast<void>(new Group(options_.group));
  static_cast<void>(new std::map<std::vector<int>, Group>(groups_));
  if (options_.flight_folder.empty()) return;
  try {
    options_.recorder->dump(options_.flight_folder, rank(), size(), failure);
  } catch (const UserError& error) {  // on the way of the error that matters
    warn(error.what());
  }
}

void Communicator::disagree(int other) {
  throw_failure(options_.watcher->report({rank(), "", disagreement(other)}));
}

void Communicator::look_after(const DeviceWait::Collective& collective,
                              std::chrono::steady_clock::duration waited) {
  if (signal_->has_failed()) {
    device_wait_.stop();
  } else if (const auto failure = options_.watcher->failure_awaiting(collective.ranks)) {
    options_.watcher->report(*failure);
  } else {
    if (waited > kLongWait) announce(collective.event, collective.digest);
    if (waited > kVeryLongWait) tell_of_wait(collective.ranks);
  }
}

void Communicator::announce(uint64_t event, uint64_t digest) {
  uint64_t known = num_announced_;
  if (known > event || !num_announced_.compare_exchange_strong(known, event + 1)) return;
  // On a thread of its own, which hangs where the store does.
  std::thread([store = options_.store, watcher = options_.watcher, event, digest, rank = rank()] {
    try {
      const std::string first =
          store->compareSet(c10::str("pass/", event), "", c10::str(rank, " ", digest));
      const size_t space = first.find(' ');
      if (first.substr(space + 1) == std::to_string(digest)) return;
      watcher->report({rank, "", disagreement(std::stoi(first.substr(0, space)))});
    } catch (const std::exception&) {  // the watcher tells of a store that is gone
    }
  }).detach();
}

void Communicator::tell_of_wait(const std::vector<int>& ranks) {
  if (has_told_of_wait_.exchange(true)) return;
  warn(c10::str("rank ", rank(), " has waited for rank ", c10::Join(", rank ", ranks), " for ",
                kVeryLongWait.count(),
                " s in a net's pass, forward or backward. If that one is not just slow, it does "
                "something else: every rank must call the same nets, forward and backward, and "
                "their state_dict, full_grads, smex.save and smex.load, in the same order"));
}

int64_t Communicator::of_first(int64_t number, c10::Device device,
                               const std::function<void()>& check_interrupt) {
  check();
  const uint64_t event = next_event();
  if (!options_.group) return of_first_by_store(event, number, check_interrupt);
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  at::Tensor sent = at::full({rank() == 0 ? size() : 0}, number, options);
  at::Tensor received = at::empty({1}, options);
  std::vector<int64_t> sends(size(), rank() == 0 ? 1 : 0), receives(size(), 0);
  receives[0] = 1;
  const auto work =
      all_to_all(options_.group, received, sent, std::move(receives), std::move(sends));
  const auto is_over = std::make_shared<std::atomic<bool>>(false);
  // Of tensors on an accelerator the future is over when the kernel is.
  work->getFuture()->addCallback([is_over, signal = signal_](c10::ivalue::Future& future) {
    if (future.hasError()) signal->lose(future.tryRetrieveErrorMessage());
    *is_over = true;
    signal->doorbell().ring();
  });
  await({event, /*digest=*/0, [this] { return others(); }, /*spins=*/false, check_interrupt},
        [&] { return is_over->load(); });
  check();  // where it is over by an error
  work->wait();
  return received.item<int64_t>();
}

int64_t Communicator::of_first_by_store(uint64_t event, int64_t number,
                                        const std::function<void()>& check_interrupt) {
  constexpr std::chrono::milliseconds kGlance{1};
  const std::string key = c10::str("number/", event);
  c10d::Store& store = *options_.store;
  try {
    if (rank() == 0) {
      store.set(key, std::to_string(number));
      return number;
    }
    while (!store.check({key})) {
      check({0});
      if (check_interrupt) check_interrupt();
      std::this_thread::sleep_for(kGlance);
    }
    const int64_t found = std::stoll(store.get_to_str(key));
    const std::string readers = key + "/read";
    if (store.add(readers, 1) == size() - 1) {  // the last one clears up
      store.deleteKey(key);
      store.deleteKey(readers);
    }
    return found;
  } catch (const c10::Error& error) {
    throw_failure(options_.watcher->settle({rank(), "", error.what_without_backtrace()}));
  }
}

void Communicator::await(const Wait& wait, const std::function<bool()>& is_over) {
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    const uint32_t seen = doorbell().rung();
    if (is_over()) return;
    check();
    if (wait.spins && spin_until([&] { return doorbell().rung() != seen; })) continue;
    doorbell().wait(seen, kLook);
    const std::vector<int> awaited = wait.ranks ? wait.ranks() : std::vector<int>{};
    check(awaited);
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited > kLongWait) announce(wait.event, wait.digest);
    if (waited > kVeryLongWait) tell_of_wait(awaited);
    if (wait.look) wait.look();
  }
}

std::vector<int> Communicator::others() const {
  std::vector<int> all(size());
  std::iota(all.begin(), all.end(), 0);
  return others_of(std::move(all));
}

std::vector<int> Communicator::others_of(std::vector<int> ranks) const {
  std::erase(ranks, rank());
  return ranks;
}

void Communicator::serve() {
  std::unique_lock lock(serving_mutex_);
  while (!closing_) {
    const std::shared_ptr<Pass> pass = starving_.lock();
    if (!pass) {
      serving_changed_.wait(lock);
      continue;
    }
    lock.unlock();
    const uint32_t seen = doorbell().rung();
    try {
      pass->advance();
    } catch (const std::exception& error) {
      lose(error.what());
    }
    lock.lock();
    if (starving_.lock() == pass && !closing_ && !signal_->has_failed()) {
      lock.unlock();
      doorbell().wait(seen, kLook);
      lock.lock();
    } else if (signal_->has_failed()) {
      starving_.reset();
    }
  }
}

Pass::Pass(std::shared_ptr<Communicator> communicator, std::shared_ptr<const Traffic> traffic,
           uint64_t number, uint64_t digest, c10::Device device, Communicator::Pack pack)
    : communicator_(std::move(communicator)),
      traffic_(std::move(traffic)),
      number_(number),
      digest_(digest),
      device_(device),
      pack_(std::move(pack)),
      written_(std::make_unique<std::atomic<bool>[]>(traffic_->outgoing.size())),
      incoming_(std::make_unique<Incoming[]>(traffic_->incoming.size())),
      next_to_(traffic_->shared_to.size(), 0),
      next_from_(traffic_->shared_from.size(), 0),
      next_message_(traffic_->messages_to.size(), 0),
      rounds_(std::make_unique<Round[]>(traffic_->rounds.size())) {}

void Pass::written(int packet) {
  written_[packet] = true;
  advance();
}

void Pass::advance() {
  // Gloo sends in one direction after the other where messages are not asked for before.
  if (next_asked_ < traffic_->messages.size()) ask_for_messages();
  if (!all_shared_sent_.load(std::memory_order_acquire)) send_shared();
  if (!all_messages_sent_.load(std::memory_order_acquire)) send_messages();
  if (next_round_ < traffic_->rounds.size()) start_rounds();
}

bool Pass::send_shared_to_all() {
  bool has_space = true, is_done = true;
  for (size_t to = 0; to < next_to_.size(); ++to) {
    has_space = send_shared_to(static_cast<int>(to)) && has_space;
    is_done = is_done && next_to_[to] == traffic_->shared_to[to].size();
  }
  all_shared_sent_ = is_done;
  return has_space;
}

void Pass::send_shared() {
  Segment* const own = communicator_->own_segment();
  bool has_space = true;
  {
    const std::lock_guard lock(sending_);
    if (closed_) return;
    has_space = send_shared_to_all();
    if (!has_space) {  // once more, since readers look whether they have to ring
      own->await_space(true);
      has_space = send_shared_to_all();
    }
    if (has_space && own) own->await_space(false);
  }
  Communicator& all = *communicator_;
  const std::lock_guard lock(all.serving_mutex_);
  const bool was_starving = all.starving_.lock() != nullptr;
  if (has_space == !was_starving) return;
  if (has_space) {
    all.starving_.reset();
    return;
  }
  all.starving_ = weak_from_this();
  if (!all.server_.joinable()) all.server_ = std::thread([&all] { all.serve(); });
  all.serving_changed_.notify_all();
}

bool Pass::send_shared_to(int receiver) {
  const std::vector<int>& packets = traffic_->shared_to[receiver];
  size_t& next = next_to_[receiver];
  Segment* const own = communicator_->own_segment();
  bool is_new = false, has_space = true;
  for (; next < packets.size() && written_[packets[next]]; ++next) {
    const Packet& packet = traffic_->outgoing[packets[next]];
    const auto offset = own->can_notify(receiver) ? own->allocate(receiver, packet.bytes)
                                                  : std::optional<uint64_t>();
    if (!offset) {
      has_space = false;
      break;
    }
    pack_(packet, at::from_blob(own->data(*offset), {packet.bytes}, at::kByte));
    own->notify(receiver, {number_, digest_, *offset, static_cast<uint64_t>(packet.bytes)});
    is_new = true;
  }
  if (is_new) communicator_->options_.segments[receiver]->doorbell().ring();
  return has_space;
}

void Pass::send_messages() {
  const std::lock_guard lock(sending_);
  bool is_done = true;
  for (size_t to = 0; to < next_message_.size() && !closed_; ++to) {
    const std::vector<int>& packets = traffic_->messages_to[to];
    size_t& next = next_message_[to];
    for (; next < packets.size() && written_[packets[next]]; ++next) {
      const Packet& packet = traffic_->outgoing[packets[next]];
      const int turn = traffic_->turn[packets[next]];
      // What goes before all that is on its way may be what their receivers wait for.
      const bool is_first = on_their_way_.empty() || turn < *on_their_way_.begin();
      if (!is_first && unsent_ + packet.bytes > communicator_->options_.window_bytes) break;
      send_message(packet, turn);
    }
    is_done = is_done && next == packets.size();
  }
  all_messages_sent_ = is_done;
}

void Pass::send_message(const Packet& packet, int turn) {
  Communicator& all = *communicator_;
  std::vector<at::Tensor> bytes{at::empty({packet.bytes}, at::kByte)};
  pack_(packet, bytes[0]);
  unsent_ += packet.bytes;
  on_their_way_.insert(turn);
  const int tag = tag_of(all.num_sent_[packet.to]++, number_, digest_);
  const auto work = all.posted([&] { return all.options_.group->send(bytes, packet.to, tag); });
  if (!work) return;
  // A queue for each receiver: one that does not ask hides no other.
  std::unique_ptr<WorkQueue>& queue = all.sends_[packet.to];
  if (!queue) queue = std::make_unique<WorkQueue>();
  queue->push(
      work, [bytes, turn, signal = all.signal_, pass = weak_from_this()](const std::string& error) {
        if (!error.empty()) signal->lose(error);
        if (const auto sender = pass.lock()) sender->sent(bytes[0].numel(), turn, error.empty());
      });
}

void Pass::sent(int64_t bytes, int turn, bool goes_on) {
  {
    const std::lock_guard lock(sending_);
    unsent_ -= bytes;
    on_their_way_.erase(on_their_way_.find(turn));
  }
  if (goes_on) try_advance();
}

void Pass::try_advance() {
  try {
    advance();
  } catch (const std::exception& error) {
    communicator_->lose(error.what());
  }
}

void Pass::ask_for_messages() {
  const std::lock_guard lock(asking_);
  while (!closed_ && next_asked_ < traffic_->messages.size()) {
    const int packet = traffic_->messages[next_asked_];
    const int64_t all = unread_ + traffic_->incoming[packet].bytes;
    const bool is_wanted = static_cast<int>(next_asked_.load()) <= wanted_message_;
    if (!is_wanted && unread_ > 0 && all > communicator_->options_.window_bytes) return;
    ask_for(packet);
    ++next_asked_;
  }
}

void Pass::ask_for(int number) {
  Communicator& all = *communicator_;
  const Packet& packet = traffic_->incoming[number];
  std::vector<at::Tensor> bytes{at::empty({packet.bytes}, at::kByte)};
  incoming_[number].bytes = bytes[0];
  unread_ += packet.bytes;
  const int tag = tag_of(all.num_asked_[packet.from]++, number_, digest_);
  const auto work = all.posted([&] { return all.options_.group->recv(bytes, packet.from, tag); });
  if (!work) return;
  std::unique_ptr<WorkQueue>& queue = all.receives_[packet.from];
  if (!queue) queue = std::make_unique<WorkQueue>();
  // What is received may outlive the pass, if that fails.
  queue->push(work, [bytes, number, signal = all.signal_,
                     pass = weak_from_this()](const std::string& error) {
    if (!error.empty()) signal->lose(error);
    if (const auto receiver = pass.lock(); receiver && error.empty()) {
      receiver->incoming_[number].is_there.store(true, std::memory_order_release);
    }
    signal->doorbell().ring();
  });
}

void Pass::want(std::atomic<int>& wanted, int place) {
  int known = wanted;
  while (known < place && !wanted.compare_exchange_weak(known, place)) {
  }
}

void Pass::start_rounds() {
  const std::lock_guard lock(asking_);
  while (!closed_ && next_round_ < traffic_->rounds.size()) {
    const Traffic::Round& round = traffic_->rounds[next_round_];
    const auto is_written = [&](int packet) { return written_[packet].load(); };
    if (!std::all_of(round.outgoing.begin(), round.outgoing.end(), is_written)) return;
    const bool is_wanted = static_cast<int>(next_round_.load()) <= wanted_round_;
    const bool fits = unread_ + round.received <= communicator_->options_.window_bytes;
    if (!is_wanted && !fits && unread_ > 0) return;
    start(next_round_);
    ++next_round_;
  }
}

void Pass::start(size_t number) {
  const Traffic::Round& round = traffic_->rounds[number];
  Round& state = rounds_[number];
  const bool gathers = round.kind == CollectiveKind::kAllGather;
  const auto size = static_cast<int64_t>(round.group.size());
  const auto options = at::TensorOptions().dtype(at::kByte).device(device_);
  state.sent = at::empty({round.sent}, options);
  state.received = round.kind == CollectiveKind::kAllReduce
                       ? state.sent
                       : at::empty({gathers ? size * round.sent : round.received}, options);
  int64_t at = 0;
  for (const int packet : round.outgoing) {
    const Packet& going = traffic_->outgoing[packet];
    pack_(going, state.sent.narrow(0, at, going.bytes));
    at += going.bytes;
  }
  at = 0;
  for (const int packet : round.incoming) {
    const Packet& coming = traffic_->incoming[packet];
    const int64_t place = gathers ? place_in(round.group, coming.from) * round.sent : at;
    incoming_[packet].bytes = state.received.narrow(0, place, coming.bytes);
    at += coming.bytes;
  }
  state.left = round.received;
  unread_ += round.received;
  Work work = communicator_->posted([&] { return call(round, state); });
  if (!work) communicator_->check();  // throws
  if (!device_.is_cpu()) {
    state.work = work;
    communicator_->device_wait_.add({[work = std::move(work)] { return work->isCompleted(); },
                                     number_, digest_, communicator_->others_of(round.group)});
    return;
  }
  std::unique_ptr<WorkQueue>& queue = communicator_->collectives_[round.group];
  if (!queue) queue = std::make_unique<WorkQueue>();
  // What it writes may outlive the pass, if that fails.
  queue->push(std::move(work),
              [sent = state.sent, received = state.received, number,
               signal = communicator_->signal_, pass = weak_from_this()](const std::string& error) {
                if (!error.empty()) signal->lose(error);
                if (const auto receiver = pass.lock(); receiver && error.empty()) {
                  receiver->rounds_[number].is_over.store(true, std::memory_order_release);
                }
                signal->doorbell().ring();
              });
}

Work Pass::call(const Traffic::Round& round, Round& state) {
  const Group& group = communicator_->group_of(round.group);
  const c10::ScalarType type = adds(round.kind) ? parse_dtype(round.dtype) : at::kByte;
  at::Tensor sent = state.sent.view(type), received = state.received.view(type);
  switch (round.kind) {
    case CollectiveKind::kAllGather:
      return all_gather(group, received, sent);
    case CollectiveKind::kAllReduce:
      return all_reduce(group, received);
    case CollectiveKind::kReduceScatter:
      return reduce_scatter(group, received, sent);
    case CollectiveKind::kAllToAll:
      break;
  }
  std::vector<int64_t> sends(round.group.size(), 0), receives = sends;
  for (const int packet : round.outgoing) {
    const Packet& going = traffic_->outgoing[packet];
    sends[place_in(round.group, going.to)] = going.bytes;
  }
  for (const int packet : round.incoming) {
    const Packet& coming = traffic_->incoming[packet];
    receives[place_in(round.group, coming.from)] = coming.bytes;
  }
  return all_to_all(group, received, sent, std::move(receives), std::move(sends));
}

bool Pass::is_over(size_t round) const {
  if (next_round_ <= round) return false;
  return !device_.is_cpu() || rounds_[round].is_over.load(std::memory_order_acquire);
}

bool Pass::is_there(int packet) {
  const Incoming& state = incoming_[packet];
  if (state.is_there.load(std::memory_order_acquire)) return true;
  const int place = traffic_->place[packet];
  switch (traffic_->way[packet]) {
    case Traffic::Way::kShared:
      collect(traffic_->incoming[packet].from);
      return state.is_there.load(std::memory_order_acquire);
    case Traffic::Way::kMessage:
      if (next_asked_ <= static_cast<size_t>(place)) {
        want(wanted_message_, place);
        ask_for_messages();
      }
      return state.is_there.load(std::memory_order_acquire);
    case Traffic::Way::kRound:
      if (next_round_ <= static_cast<size_t>(place)) {
        want(wanted_round_, place);
        start_rounds();
      }
      return is_over(place);
  }
  return false;
}

bool Pass::has_come(int packet) {
  const Incoming& state = incoming_[packet];
  if (state.is_there.load(std::memory_order_acquire)) return true;
  switch (traffic_->way[packet]) {
    case Traffic::Way::kShared:
      collect(traffic_->incoming[packet].from);
      return state.is_there.load(std::memory_order_acquire);
    case Traffic::Way::kMessage:
      return false;
    case Traffic::Way::kRound: {
      const auto round = static_cast<size_t>(traffic_->place[packet]);
      // A stream that waits for the rest of it would not compute meanwhile.
      return is_over(round) && (device_.is_cpu() || rounds_[round].work->isCompleted());
    }
  }
  return false;
}

void Pass::collect(int from) {
  Segment& segment = *communicator_->options_.segments[from];
  const std::lock_guard lock(receiving_);
  const std::vector<int>& packets = traffic_->shared_from[from];
  size_t& next = next_from_[from];
  // Not beyond this pass: the sender may have begun the next one.
  for (; next < packets.size(); ++next) {
    const std::optional<Notice> notice = segment.take(communicator_->rank());
    if (!notice) return;
    const Packet& expected = traffic_->incoming[packets[next]];
    if (notice->pass != number_ || notice->digest != digest_ ||
        notice->bytes != static_cast<uint64_t>(expected.bytes)) {
      communicator_->disagree(from);
    }
    Incoming& found = incoming_[packets[next]];
    found.from = from;
    found.offset = notice->offset;
    found.bytes = at::from_blob(segment.data(notice->offset), {expected.bytes}, at::kByte);
    found.is_there.store(true, std::memory_order_release);
  }
}

std::vector<int> Pass::senders(int packet) const {
  if (traffic_->way[packet] != Traffic::Way::kRound) return {traffic_->incoming[packet].from};
  return communicator_->others_of(traffic_->rounds[traffic_->place[packet]].group);
}

at::Tensor Pass::bytes(int packet) {
  if (traffic_->way[packet] == Traffic::Way::kRound) {
    const Work& work = rounds_[traffic_->place[packet]].work;
    if (work) work->wait();  // the reader's stream
  }
  return incoming_[packet].bytes;
}

void Pass::consumed(int packet) {
  Incoming& done = incoming_[packet];
  const int64_t bytes = traffic_->incoming[packet].bytes;
  done.bytes.reset();
  switch (traffic_->way[packet]) {
    case Traffic::Way::kShared:
      communicator_->options_.segments[done.from]->give_back(done.offset);
      return;
    case Traffic::Way::kMessage:
      unread_ -= bytes;
      if (next_asked_ < traffic_->messages.size()) ask_for_messages();
      return;
    case Traffic::Way::kRound: {
      {
        const std::lock_guard lock(asking_);
        Round& state = rounds_[traffic_->place[packet]];
        state.left -= bytes;
        if (state.left == 0) {
          state.sent.reset();
          state.received.reset();
        }
      }
      unread_ -= bytes;
      if (next_round_ < traffic_->rounds.size()) start_rounds();
    }
  }
}

bool Pass::is_sent() {
  const size_t num_rounds = traffic_->rounds.size();
  if (next_round_ < num_rounds) want(wanted_round_, static_cast<int>(num_rounds));
  advance();
  return all_shared_sent_ && all_messages_sent_ && next_round_ == num_rounds;
}

std::vector<int> Pass::receivers() {
  if (next_round_ < traffic_->rounds.size())
    return communicator_->others();  // each takes part in each
  const std::lock_guard lock(sending_);
  std::vector<int> ranks;
  for (size_t to = 0; to < next_to_.size(); ++to) {
    const bool is_open = next_to_[to] < traffic_->shared_to[to].size() ||
                         next_message_[to] < traffic_->messages_to[to].size();
    if (is_open) ranks.push_back(static_cast<int>(to));
  }
  return ranks;
}

void Pass::close() {
  const std::scoped_lock lock(sending_, asking_);
  closed_ = true;
}

}  // namespace smex::runtime
