#include "runtime/remote_tiles.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include "runtime/plain_dispatch.h"
#include "runtime/spin.h"

namespace smex::runtime {
namespace {

std::unique_ptr<std::atomic<int>[]> counters(const std::vector<int>& counts) {
  auto counters = std::make_unique<std::atomic<int>[]>(counts.size());
  for (size_t n = 0; n < counts.size(); ++n) counters[n] = counts[n];
  return counters;
}

}  // namespace

RemoteTiles::RemoteTiles(const Executor& executor, Host host, uint64_t net)
    : executor_(executor),
      host_(std::move(host)),
      communicator_(*executor.communicator()),
      digest_(executor.digest() ^ net) {}

void RemoteTiles::begin(bool backward) {
  backward_ = backward;
  const Steps& steps = executor_.steps();
  sources_left_ = counters(steps.packet_sources[backward]);
  readers_left_ = counters(steps.packet_readers[backward]);
  pass_ = communicator_.begin(
      steps.traffic[backward], digest_ + (backward ? 1 : 0),
      executor_.device(executor_.workers()[0]),
      [this](const Packet& packet, const at::Tensor& bytes) { pack(packet, bytes); });
  for (const int w : executor_.workers()) {
    for (const auto& [slot, packets] : steps.workers[w].packets[backward]) {
      if (host_.slot(w, slot).ready) written(w, slot);
    }
  }
  pass_->advance();
}

void RemoteTiles::finish() {
  communicator_.await({pass_->number(), pass_->digest(), [this] { return pass_->receivers(); },
                       /*spins=*/false,
                       [this] {
                         pass_->advance();
                         host_.check_interrupt();
                       }},
                      [this] { return pass_->is_sent(); });
}

void RemoteTiles::end() {
  if (!pass_) return;
  pass_->close();
  pass_.reset();
}

void RemoteTiles::pack(const Packet& packet, const at::Tensor& bytes) {
  const PlainDispatch plain;
  std::vector<RemoteRead> read;
  for (const Parcel& parcel : packet.parcels) {
    const SlotState& state = host_.slot(parcel.worker, parcel.slot);
    if (state.written) {
      const c10::impl::VirtualGuardImpl guard(bytes.device().type());
      state.written->block(guard.getStream(bytes.device()));
    }
    const at::Tensor& from = state.tensor;
    const Shape shape = parcel.box.shape();
    const int64_t size = parcel.box.numel() * static_cast<int64_t>(from.element_size());
    const at::Tensor place =
        bytes.narrow(0, parcel.offset, size).view(from.scalar_type()).view(shape);
    copy_elements(place, Region::whole(shape), from, parcel.box, executor_.steps().lists);
    const bool is_new = std::none_of(read.begin(), read.end(), [&](const RemoteRead& other) {
      return other.worker == parcel.worker && other.slot == parcel.slot;
    });
    if (is_new) read.push_back({parcel.worker, parcel.slot});
  }
  for (const RemoteRead& source : read) host_.release(source.worker, source.slot);
}

void RemoteTiles::written(int worker, Slot slot) {
  const auto& packets = executor_.steps().workers[worker].packets[backward_];
  const auto found = packets.find(slot);
  if (found == packets.end()) return;
  for (const int packet : found->second) {
    if (--sources_left_[packet] == 0) pass_->written(packet);
  }
}

bool RemoteTiles::await(int worker, const Copy& copy, const std::function<void()>& go_on) {
  const Packet& awaited = incoming(copy);
  Recorder& recorder = communicator_.recorder();
  const uint64_t ticket =
      recorder.begin({Recorder::Kind::kExchange,
                      backward_ ? Recorder::Phase::kBackward : Recorder::Phase::kForward, worker,
                      awaited.relayout, executor_.exchange_text(), awaited.from,
                      static_cast<int64_t>(pass_->number()), awaited.bytes});
  await_bell(
      worker, [&] { return pass_->senders(copy.packet); },
      [&] {
        go_on();
        return is_there(copy) || host_.is_stopping();
      });
  recorder.end(ticket);
  return is_there(copy);
}

void RemoteTiles::await(int worker, const std::function<bool()>& is_over) {
  await_bell(worker, {}, is_over);
}

void RemoteTiles::await_bell(int worker, std::function<std::vector<int>()> ranks,
                             const std::function<bool()>& is_over) {
  const int threads = communicator_.processes_here() * static_cast<int>(executor_.workers().size());
  const bool on_caller = worker == executor_.workers()[0];
  communicator_.await({pass_->number(), pass_->digest(), std::move(ranks), have_cores(threads),
                       [&] {
                         pass_->advance();
                         if (on_caller) host_.check_interrupt();
                       }},
                      is_over);
}

at::Tensor RemoteTiles::parcel(const Copy& copy, c10::ScalarType type) const {
  const int64_t size =
      Region::whole(copy.shape).numel() * static_cast<int64_t>(c10::elementSize(type));
  return pass_->bytes(copy.packet).narrow(0, copy.offset, size).view(type).view(copy.shape);
}

void RemoteTiles::read(const Copy& copy) {
  if (--readers_left_[copy.packet] == 0) pass_->consumed(copy.packet);
}

uint64_t RemoteTiles::record(int worker, size_t position) {
  const auto phase = backward_ ? Recorder::Phase::kBackward : Recorder::Phase::kForward;
  return communicator_.recorder().begin(
      {Recorder::Kind::kInstruction, phase, worker, static_cast<int32_t>(position),
       executor_.text(worker, backward_, position), -1, static_cast<int64_t>(pass_->number())});
}

const Packet& RemoteTiles::incoming(const Copy& copy) const {
  return executor_.steps().traffic[backward_]->incoming[copy.packet];
}

}  // namespace smex::runtime
