#include "partition/lower/list_uses.h"

#include <algorithm>

namespace smex {

Slot viewed(const ComputeInstr& compute, const std::set<std::string>& views) {
  if (compute.copies || !views.count(compute.target)) return kNoSlot;
  for (const Attr& arg : compute.args) {
    if (const auto* first = std::get_if<ValueRef>(&arg)) return first->id;
  }
  return kNoSlot;
}

ListUses::ListUses(const Program& program, int worker, bool backward,
                   const std::set<std::string>& views)
    : program_(program.workers[worker]),
      slot_made_(program_.num_slots, -1),
      freed_(program_.num_slots, -1),
      kept_(program_.num_slots, false),
      shapes_(program_.num_slots, nullptr),
      storage_(program_.num_slots, -1) {
  for (const Binding& output : program.outputs) {
    if (output.slots.at(worker) != kNoSlot) kept_[output.slots[worker]] = true;
  }
  const auto& instrs = backward ? program_.backward : program_.forward;
  length_ = static_cast<int>(instrs.size());
  find_storages(program, worker, views);
  note_lifetimes(backward);
  note_uses(instrs, worker);
}

void ListUses::allocate(Slot slot, const Shape& shape, int position) {
  storage_[slot] = static_cast<int>(bytes_.size());
  const int itemsize = program_.slot_itemsizes.empty() ? 1 : program_.slot_itemsizes[slot];
  bytes_.push_back(Region::whole(shape).numel() * itemsize);
  made_.push_back(position);
}

void ListUses::find_storages(const Program& program, int worker,
                             const std::set<std::string>& views) {
  input_shapes_.reserve(program.inputs.size());
  for (const Binding& input : program.inputs) {
    if (input.slots[worker] != kNoSlot) {
      const Slot slot = input.slots[worker];
      shapes_[slot] = &input_shapes_.emplace_back(input.regions[worker].shape());
      allocate(slot, *shapes_[slot], -1);
    }
  }
  int position = 0;
  for (const auto* instrs : {&program_.forward, &program_.backward}) {
    for (const Instr& instr : *instrs) {
      if (const auto* fetch = std::get_if<FetchInstr>(&instr)) {
        shapes_[fetch->dest] = &fetch->shape;
        if (fetch->view) {
          storage_[fetch->dest] = storage_[fetch->parts.front().slot];
        } else if (!fetch->begun) {
          allocate(fetch->dest, fetch->shape, position);
        }
      } else if (const auto* compute = std::get_if<ComputeInstr>(&instr)) {
        const Slot base = viewed(*compute, views);
        const bool is_cropped = !compute->crop.empty() && !compute->computed.empty();
        for (size_t o = 0; o < compute->outputs.size(); ++o) {
          const Slot out = compute->outputs[o];
          if (out == kNoSlot) continue;
          shapes_[out] = &compute->output_shapes[o];
          if (compute->inside.dest != kNoSlot) {
            allocate(compute->inside.dest, compute->inside.shape, position);
            storage_[out] = storage_[compute->inside.dest];
          } else if (base != kNoSlot) {
            storage_[out] = storage_[base];
          } else {
            allocate(out, is_cropped ? compute->computed : compute->output_shapes[o], position);
          }
        }
      }
      ++position;
    }
  }
}

void ListUses::note_lifetimes(bool backward) {
  const int forward_length = static_cast<int>(program_.forward.size());
  const int begin = backward ? forward_length : 0;
  const int total = forward_length + static_cast<int>(program_.backward.size());
  std::vector<int> freed(program_.num_slots, total);  // in both lists
  int position = 0;
  for (const auto* instrs : {&program_.forward, &program_.backward}) {
    for (const Instr& instr : *instrs) {
      if (const auto* free = std::get_if<FreeInstr>(&instr)) freed[free->slot] = position;
      ++position;
    }
  }
  released_.assign(bytes_.size(), 0);
  read_remotely_.assign(bytes_.size(), false);
  for (Slot slot = 0; slot < program_.num_slots; ++slot) {
    if (storage_[slot] < 0) continue;
    const int until = kept_[slot] ? total : freed[slot];
    if (program_.remote_reads[slot] > 0) read_remotely_[storage_[slot]] = true;
    int& released = released_[storage_[slot]];
    released = std::max(released, until - begin);
    const bool in_list = until >= begin && until < begin + length_;
    if (in_list) freed_[slot] = until - begin;
  }
  for (int& made : made_) made -= begin;
}

void ListUses::note_uses(const std::vector<Instr>& instrs, int worker) {
  first_reader_.assign(program_.num_slots + 1, 0);
  for (const Instr& instr : instrs) {
    for_each_read(instr, worker, [&](Slot slot) { ++first_reader_[slot + 1]; });
  }
  for (Slot slot = 0; slot < program_.num_slots; ++slot) {
    first_reader_[slot + 1] += first_reader_[slot];
  }
  readers_.resize(first_reader_.back());
  std::vector<int> next(first_reader_.begin(), first_reader_.end() - 1);
  int position = 0;
  for (const Instr& instr : instrs) {
    if (const auto* fetch = std::get_if<FetchInstr>(&instr)) slot_made_[fetch->dest] = position;
    if (const auto* compute = std::get_if<ComputeInstr>(&instr)) {
      for (const Slot slot : compute->outputs) {
        if (slot != kNoSlot) slot_made_[slot] = position;
      }
    }
    for_each_read(instr, worker, [&](Slot slot) { readers_[next[slot]++] = position; });
    ++position;
  }
}

std::vector<int64_t> ListUses::held() const {
  std::vector<int64_t> held(length_ + 1, 0);
  for (size_t s = 0; s < bytes_.size(); ++s) {
    if (made_[s] >= length_ || released_[s] <= 0) continue;
    held[std::max(made_[s], 0)] += bytes_[s];
    held[std::min(released_[s], length_)] -= bytes_[s];
  }
  for (int i = 1; i < length_; ++i) held[i] += held[i - 1];
  held.pop_back();
  return held;
}

std::vector<int64_t> ListUses::awaited() const {
  std::vector<int64_t> awaited(length_, 0);
  for (size_t s = 0; s < bytes_.size(); ++s) {
    if (read_remotely_[s] && released_[s] < length_)
      awaited[std::max(released_[s], 0)] += bytes_[s];
  }
  for (int i = 1; i < length_; ++i) awaited[i] += awaited[i - 1];
  return awaited;
}

}  // namespace smex
