#include "runtime/processes/communicator.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>

#include "ir/error.h"

namespace smex::runtime {
namespace {

constexpr std::chrono::milliseconds kLook{100};

/// torch's own is named differently in its versions; the operator is not.
c10::intrusive_ptr<c10d::Work> all_to_all(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                          at::Tensor& received, at::Tensor& sent,
                                          std::vector<int64_t> receives,
                                          std::vector<int64_t> sends) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("c10d::alltoall_base_", "")
          .typed<c10::intrusive_ptr<c10d::Work>(
              at::Tensor&, at::Tensor&, const c10::intrusive_ptr<c10d::ProcessGroup>&,
              std::vector<int64_t>, std::vector<int64_t>, bool, int64_t)>();
  constexpr int64_t kTimeoutOfTheGroup = -1;
  return op.call(received, sent, group, std::move(receives), std::move(sends), /*async_op=*/true,
                 kTimeoutOfTheGroup);
}

}  // namespace

Communicator::Communicator(CommunicatorOptions options)
    : options_(std::move(options)), doorbell_(&own_doorbell_) {
  if (Segment* const own = own_segment()) doorbell_ = &own->doorbell();
}

Communicator::~Communicator() {
  {
    const std::lock_guard lock(serving_mutex_);
    closing_ = true;
  }
  serving_changed_.notify_all();
  doorbell_->ring();
  if (server_.joinable()) server_.join();
}

Segment* Communicator::own_segment() const {
  return options_.segments.empty() ? nullptr : options_.segments[options_.rank].get();
}

int Communicator::processes_here() const {
  const int host = options_.hosts[options_.rank];
  return host < 0 ? 1
                  : static_cast<int>(
                        std::count(options_.hosts.begin(), options_.hosts.end(), host));
}

std::shared_ptr<Pass> Communicator::begin(std::shared_ptr<const Traffic> traffic, uint64_t digest,
                                          c10::Device device, Pack pack) {
  throw_if_failed();
  return std::make_shared<Pass>(shared_from_this(), std::move(traffic), num_passes_++, digest,
                                device, std::move(pack));
}

void Communicator::fail(const std::string& text) {
  {
    const std::lock_guard lock(error_mutex_);
    if (!failed_) error_ = text;
    failed_ = true;
  }
  doorbell_->ring();
}

void Communicator::throw_if_failed() {
  if (!failed_) return;
  const std::lock_guard lock(error_mutex_);
  throw UserError("the processes of this net cannot go on, since one has failed: " + error_);
}

int64_t Communicator::of_first(int64_t number) {
  throw_if_failed();
  const auto options = at::TensorOptions().dtype(at::kLong);
  at::Tensor sent = at::full({rank() == 0 ? size() : 0}, number, options);
  at::Tensor received = at::empty({1}, options);
  std::vector<int64_t> sends(size(), rank() == 0 ? 1 : 0), receives(size(), 0);
  receives[0] = 1;
  all_to_all(options_.group, received, sent, std::move(receives), std::move(sends))->wait();
  return received.item<int64_t>();
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
    const uint32_t seen = doorbell_->rung();
    try {
      pass->advance();
    } catch (const std::exception& error) {
      fail(error.what());
    }
    lock.lock();
    if (starving_.lock() == pass && !closing_ && !failed_) {
      lock.unlock();
      doorbell_->wait(seen, kLook);
      lock.lock();
    } else if (failed_) {
      starving_.reset();
    }
  }
}

Pass::Pass(std::shared_ptr<Communicator> communicator, std::shared_ptr<const Traffic> traffic,
           uint64_t number, uint64_t digest, c10::Device device, Communicator::Pack pack)
    : communicator_(std::move(communicator)),
      kept_traffic_(std::move(traffic)),
      traffic_(*kept_traffic_),
      number_(number),
      digest_(digest),
      device_(device),
      pack_(std::move(pack)),
      written_(std::make_unique<std::atomic<bool>[]>(traffic_.outgoing.size())),
      incoming_(std::make_unique<Incoming[]>(traffic_.incoming.size())),
      next_to_(traffic_.shared_to.size(), 0),
      next_from_(traffic_.shared_from.size(), 0) {
  for (size_t n = 0; n < traffic_.rounds.size(); ++n) rounds_.push_back(std::make_shared<Round>());
}

void Pass::written(int packet) {
  written_[packet] = true;
  advance();
}

void Pass::advance() {
  if (!all_shared_sent_.load(std::memory_order_acquire)) send_shared();
  if (next_round_ < rounds_.size()) start_rounds();
}

void Pass::send_shared() {
  Segment* const own = communicator_->own_segment();
  bool has_space = true, is_done = true;
  {
    const std::lock_guard lock(sending_);
    if (closed_) return;
    for (size_t to = 0; to < next_to_.size(); ++to) {
      has_space = send_shared_to(static_cast<int>(to)) && has_space;
      is_done = is_done && next_to_[to] == traffic_.shared_to[to].size();
    }
    if (!has_space) {  // once more, since readers look whether they have to ring
      own->await_space(true);
      has_space = is_done = true;
      for (size_t to = 0; to < next_to_.size(); ++to) {
        has_space = send_shared_to(static_cast<int>(to)) && has_space;
        is_done = is_done && next_to_[to] == traffic_.shared_to[to].size();
      }
    }
    if (has_space && own) own->await_space(false);
    all_shared_sent_ = is_done;
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
  const std::vector<int>& packets = traffic_.shared_to[receiver];
  size_t& next = next_to_[receiver];
  Segment* const own = communicator_->own_segment();
  bool is_new = false, has_space = true;
  for (; next < packets.size() && written_[packets[next]]; ++next) {
    const Packet& packet = traffic_.outgoing[packets[next]];
    const auto offset =
        own->can_notify(receiver) ? own->allocate(packet.bytes) : std::optional<uint64_t>();
    if (!offset) {
      has_space = false;
      break;
    }
    pack_(packet, at::from_blob(own->data(*offset), {packet.bytes}, at::kByte));
    own->notify(receiver,
                {number_, digest_, *offset, static_cast<uint64_t>(packet.bytes)});
    is_new = true;
  }
  if (is_new) communicator_->options_.segments[receiver]->doorbell().ring();
  return has_space;
}

void Pass::start_rounds() {
  const std::lock_guard lock(rounds_mutex_);
  while (!closed_ && next_round_ < rounds_.size()) {
    const Traffic::Round& round = traffic_.rounds[next_round_];
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
  const Traffic::Round& round = traffic_.rounds[number];
  Round& state = *rounds_[number];
  std::vector<int64_t> sends(next_to_.size(), 0), receives(next_from_.size(), 0);
  const auto options = at::TensorOptions().dtype(at::kByte).device(device_);
  state.sent = at::empty({round.sent}, options);
  state.received = at::empty({round.received}, options);
  int64_t at = 0;
  for (const int packet : round.outgoing) {
    const Packet& going = traffic_.outgoing[packet];
    pack_(going, state.sent.narrow(0, at, going.bytes));
    sends[going.to] = going.bytes;
    at += going.bytes;
  }
  at = 0;
  for (const int packet : round.incoming) {
    const Packet& coming = traffic_.incoming[packet];
    incoming_[packet].bytes = state.received.narrow(0, at, coming.bytes);
    receives[coming.from] = coming.bytes;
    at += coming.bytes;
  }
  state.left = round.received;
  unread_ += round.received;
  state.work = all_to_all(communicator_->options_.group, state.received, state.sent,
                          std::move(receives), std::move(sends));
  if (!device_.is_cpu()) {  // who reads makes its stream wait
    state.is_over = true;
    return;
  }
  // The round may outlive the pass, if that fails.
  const std::shared_ptr<Round> kept = rounds_[number];
  const std::weak_ptr<Communicator> all = communicator_;
  state.work->getFuture()->addCallback([kept, all](c10::ivalue::Future& future) {
    const std::shared_ptr<Communicator> communicator = all.lock();
    if (future.hasError()) {
      if (communicator) communicator->fail(future.tryRetrieveErrorMessage());
      return;
    }
    kept->sent.reset();
    kept->is_over = true;
    if (communicator) communicator->doorbell().ring();
  });
}

bool Pass::is_there(int packet) {
  const int round = traffic_.round_of[packet];
  if (round < 0) {
    if (!incoming_[packet].is_there.load(std::memory_order_acquire)) {
      collect(traffic_.incoming[packet].from);
    }
    return incoming_[packet].is_there.load(std::memory_order_acquire);
  }
  if (next_round_ <= static_cast<size_t>(round)) {
    int wanted = wanted_round_;
    while (wanted < round && !wanted_round_.compare_exchange_weak(wanted, round)) {
    }
    start_rounds();
  }
  return next_round_ > static_cast<size_t>(round) && rounds_[round]->is_over;
}

void Pass::collect(int from) {
  Segment& segment = *communicator_->options_.segments[from];
  const std::lock_guard lock(receiving_);
  const std::vector<int>& packets = traffic_.shared_from[from];
  size_t& next = next_from_[from];
  // Not beyond this pass: the sender may have begun the next one.
  for (; next < packets.size(); ++next) {
    const std::optional<Notice> notice = segment.take(communicator_->rank());
    if (!notice) return;
    const Packet& expected = traffic_.incoming[packets[next]];
    if (notice->pass != number_ || notice->digest != digest_ ||
        notice->bytes != static_cast<uint64_t>(expected.bytes)) {
      throw UserError(c10::str(
          "rank ", from, " and this one, rank ", communicator_->rank(),
          ", do not run the same: found pass ", notice->pass, " of program ", notice->digest,
          ", expected pass ", number_, " of program ", digest_,
          "; every rank must call the same nets in the same order with inputs of the same shapes"));
    }
    Incoming& found = incoming_[packets[next]];
    found.from = from;
    found.offset = notice->offset;
    found.bytes = at::from_blob(segment.data(notice->offset), {expected.bytes}, at::kByte);
    found.is_there.store(true, std::memory_order_release);
  }
}

at::Tensor Pass::bytes(int packet) {
  const int round = traffic_.round_of[packet];
  if (round >= 0 && !device_.is_cpu()) rounds_[round]->work->wait();
  return incoming_[packet].bytes;
}

void Pass::consumed(int packet) {
  Incoming& done = incoming_[packet];
  const int round = traffic_.round_of[packet];
  done.bytes.reset();
  if (round < 0) {
    communicator_->options_.segments[done.from]->give_back(done.offset);
    return;
  }
  {
    const std::lock_guard lock(rounds_mutex_);
    Round& state = *rounds_[round];
    state.left -= traffic_.incoming[packet].bytes;
    if (state.left == 0) {
      state.received.reset();
      unread_ -= traffic_.rounds[round].received;
    }
  }
  if (next_round_ < rounds_.size()) start_rounds();
}

bool Pass::is_sent() {
  if (!all_shared_sent_) send_shared();
  if (next_round_ < rounds_.size()) {
    wanted_round_ = static_cast<int>(rounds_.size());
    start_rounds();
  }
  return all_shared_sent_ && next_round_ == rounds_.size();
}

void Pass::close() {
  const std::scoped_lock lock(sending_, rounds_mutex_);
  closed_ = true;
}

}  // namespace smex::runtime
