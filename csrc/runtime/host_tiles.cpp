#include "runtime/host_tiles.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace smex::runtime {
namespace {

/// Where memory of one place lies in another: its storage, and by how many bytes further.
struct Twin {
  const c10::StorageImpl* of = nullptr;
  c10::Storage storage;
  int64_t shift = 0;
};

int64_t begin_of(const at::Tensor& tensor) {
  return tensor.storage_offset() * static_cast<int64_t>(tensor.element_size());
}

Twin twin_of(const at::Tensor& from, const at::Tensor& to) {
  return {from.storage().unsafeGetStorageImpl(), to.storage(), begin_of(to) - begin_of(from)};
}

const Twin* find(const std::vector<Twin>& twins, const at::Tensor& tensor) {
  for (const Twin& twin : twins) {
    if (twin.of == tensor.storage().unsafeGetStorageImpl()) return &twin;
  }
  return nullptr;
}

/// A tensor like another one, in memory that begins so many bytes later.
at::Tensor like(const at::Tensor& tensor, const c10::Storage& storage, int64_t shift) {
  const auto offset = (begin_of(tensor) + shift) / static_cast<int64_t>(tensor.element_size());
  at::Tensor made = at::empty({0}, tensor.options().device(storage.device()).pinned_memory(false));
  made.set_(storage, offset, tensor.sizes(), tensor.strides());
  made._set_conj(tensor.is_conj());
  made._set_neg(tensor.is_neg());
  return made;
}

/// All bytes of the memory that a tensor lies in.
at::Tensor bytes_of(const at::Tensor& tensor) {
  const auto size = static_cast<int64_t>(tensor.storage().nbytes());
  at::Tensor bytes = at::empty({0}, at::TensorOptions().device(tensor.device()).dtype(at::kByte));
  bytes.set_(tensor.storage(), 0, {size}, {1});
  return bytes;
}

}  // namespace

HostTiles::HostTiles(c10::Device device) : device_(device) {
  if (device.is_cpu()) return;
  stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

void HostTiles::give(SlotState& slot, const at::Tensor& tile) {
  const bool has_gaps = !tile.is_non_overlapping_and_dense();
  slot.host = has_gaps ? tile.clone(at::MemoryFormat::Contiguous) : tile;
  slot.borrowed = true;
}

at::Tensor HostTiles::to_host(const at::Tensor& tile) const {
  const at::Tensor from = bytes_of(tile);
  at::Tensor into =
      at::empty(from.sizes(), at::TensorOptions().dtype(at::kByte).pinned_memory(!!stream_));
  if (!stream_) return into.copy_(from);
  const c10::impl::VirtualGuardImpl guard(device_.type());
  c10::Event made(device_.type());
  made.record(guard.getStream(device_));
  made.block(*stream_);
  const c10::StreamGuard stream_guard(*stream_);
  into.copy_(from, /*non_blocking=*/true);
  from.record_stream(*stream_);
  return into;
}

at::Tensor HostTiles::to_device(const SlotState& slot) const {
  const auto copy = [&] {
    if (slot.borrowed) {  // the caller's memory may be larger
      at::Tensor tile = at::empty_strided(slot.host.sizes(), slot.host.strides(),
                                          slot.host.options().device(device_).pinned_memory(false));
      return tile.copy_(slot.host, /*non_blocking=*/true);
    }
    const at::Tensor from = bytes_of(slot.host);
    at::Tensor into = at::empty(from.sizes(), from.options().device(device_).pinned_memory(false));
    into.copy_(from, /*non_blocking=*/true);
    return like(slot.host, into.storage(), 0);
  };
  if (!stream_) return copy();
  const c10::impl::VirtualGuardImpl guard(device_.type());
  const c10::Stream current = guard.getStream(device_);
  at::Tensor tile;
  {
    const c10::StreamGuard stream_guard(*stream_);
    tile = copy();
  }
  c10::Event come(device_.type());
  come.record(*stream_);
  come.block(current);
  tile.record_stream(current);
  return tile;
}

int64_t HostTiles::write(const std::vector<SlotState*>& slots) {
  std::vector<Twin> twins;
  for (const SlotState* slot : slots) {
    if (slot->host.defined() && slot->tensor.defined()) {
      twins.push_back(twin_of(slot->tensor, slot->host));
    }
  }
  int64_t written = 0;
  for (SlotState* slot : slots) {
    if (slot->host.defined() || !slot->tensor.defined() || !slot->tensor.has_storage()) continue;
    const Twin* twin = find(twins, slot->tensor);
    slot->borrowed = twin && slots.front()->borrowed;
    if (!twin) {
      const at::Tensor copy = to_host(slot->tensor);
      written += static_cast<int64_t>(copy.storage().nbytes());
      twins.push_back({slot->tensor.storage().unsafeGetStorageImpl(), copy.storage(), 0});
      twin = &twins.back();
    }
    slot->host = like(slot->tensor, twin->storage, twin->shift);
  }
  return written;
}

void HostTiles::drop(const std::vector<SlotState*>& slots, MemoryCounter& memory) {
  std::vector<Twin> twins;
  for (SlotState* slot : slots) {
    if (!slot->tensor.defined()) continue;
    if (slot->host.defined()) {
      twins.push_back(twin_of(slot->tensor, slot->host));
    } else if (const Twin* twin = find(twins, slot->tensor)) {
      slot->host = like(slot->tensor, twin->storage, twin->shift);
      slot->borrowed = slots.front()->borrowed;
    }
  }
  for (SlotState* slot : slots) {
    memory.remove(slot->tensor);
    slot->tensor.reset();
  }
}

int64_t HostTiles::restore(const std::vector<SlotState*>& slots, MemoryCounter& memory) {
  std::vector<Twin> twins;
  int64_t restored = 0;
  for (SlotState* slot : slots) {
    if (slot->tensor.defined() || !slot->host.defined()) continue;
    if (const Twin* twin = find(twins, slot->host)) {
      slot->tensor = like(slot->host, twin->storage, twin->shift);
    } else {
      slot->tensor = to_device(*slot);
      twins.push_back(twin_of(slot->host, slot->tensor));
      restored += static_cast<int64_t>(slot->tensor.storage().nbytes());
    }
    memory.add(slot->tensor);
  }
  return restored;
}

void HostTiles::settle() const {
  if (stream_) stream_->synchronize();
}

}  // namespace smex::runtime
