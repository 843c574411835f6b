#include "kernels/message/device_program.h"

#include <algorithm>

namespace smex::kernels {
namespace {

/// Adds dimensions from the innermost one outwards; neighbours that are one to the index merge.
class IndexBuilder {
 public:
  void add(int64_t size, int64_t stride) {
    if (size == 1) return;
    if (!sizes_.empty() && stride == sizes_.back() * strides_.back()) {
      sizes_.back() *= size;
      return;
    }
    sizes_.push_back(size);
    strides_.push_back(stride);
  }

  std::optional<StridedIndex> build() const {
    if (sizes_.size() > StridedIndex::kMaxDims) return std::nullopt;
    StridedIndex index;
    index.num_dims = static_cast<int>(sizes_.size());
    for (int d = 0; d < index.num_dims; ++d) {
      index.sizes[d] = sizes_[index.num_dims - 1 - d];
      index.strides[d] = strides_[index.num_dims - 1 - d];
    }
    return index;
  }

 private:
  std::vector<int64_t> sizes_, strides_;
};

/// The size of dimension `d` of `whole` in `part`, of which leading dimensions may be missing.
int64_t size_in(const FeatureShape& part, const FeatureShape& whole, size_t d) {
  const size_t shift = whole.size() - part.size();
  return d < shift ? 1 : part[d - shift];
}

/// Splits the elements of a message into those that each element of the result begins with, and
/// those that are added to them.
bool set_output(DeviceProgram& to, const FeatureShape& out, const FeatureShape& whole) {
  IndexBuilder base, rest;
  int64_t stride = 1;
  to.rest_count = 1;
  for (size_t d = whole.size(); d-- > 0; stride *= whole[d]) {
    if (d + 1 == whole.size() && to.pick > 1) continue;  // all are equal: the first counts
    if (size_in(out, whole, d) == whole[d]) {
      base.add(whole[d], stride);
    } else {
      rest.add(whole[d], stride);
      to.rest_count *= whole[d];
    }
  }
  const auto first = base.build(), others = rest.build();
  if (!first || !others) return false;
  to.base = *first;
  to.rest = *others;
  return true;
}

/// Gives every slot of a program a register for as long as it is needed.
class RegisterCode {
 public:
  RegisterCode(const MessageProgram& program, DeviceProgram& to) : program_(program), to_(to) {
    last_use_.assign(program.num_slots, 0);
    register_.assign(program.num_slots, -1);
    const int count = static_cast<int>(program.code.size());
    for (int i = 0; i < count; ++i) {
      for (const int slot : {program.code[i].a, program.code[i].b})
        if (slot >= 0) last_use_[slot] = i;
    }
    last_use_[program.result] = count;
  }

  /// False where registers, instructions or sums do not suffice.
  bool translate() {
    for (int i = 0; i < static_cast<int>(program_.code.size()); ++i) {
      const Instruction& step = program_.code[i];
      DeviceInstruction next;
      next.op = step.op;
      next.value = step.value;
      if (!load(step.a, next.a) || !load(step.b, next.b)) return false;
      release(step.a, i);
      release(step.b, i);
      if (step.op == MessageOp::kSumLast) {
        if (to_.num_sums == DeviceProgram::kMaxSums) return false;
        next.b = static_cast<uint8_t>(to_.num_sums);
        to_.sum_at[to_.num_sums++] = static_cast<uint8_t>(to_.num_instructions);
      }
      if (!take(step.out, next.out) || !emit(next)) return false;
    }
    uint8_t result = 0;
    if (!load(program_.result, result)) return false;
    to_.result = result;
    return true;
  }

 private:
  bool emit(const DeviceInstruction& next) {
    if (to_.num_instructions == DeviceProgram::kMaxInstructions) return false;
    to_.code[to_.num_instructions++] = next;
    return true;
  }

  bool take(int slot, uint8_t& result) {
    const auto free = std::find(is_taken_.begin(), is_taken_.end(), false);
    if (free == is_taken_.end()) return false;
    *free = true;
    register_[slot] = static_cast<int>(free - is_taken_.begin());
    result = static_cast<uint8_t>(register_[slot]);
    return true;
  }

  void release(int slot, int i) {
    if (slot < 0 || last_use_[slot] > i || register_[slot] < 0) return;
    is_taken_[register_[slot]] = false;
  }

  /// The register of a slot; an operand's is loaded at its first use.
  bool load(int slot, uint8_t& result) {
    if (slot < 0) return true;
    if (register_[slot] >= 0) {
      result = static_cast<uint8_t>(register_[slot]);
      return true;
    }
    DeviceInstruction next;
    next.op = MessageOp::kOperand;
    const auto& operands = program_.operands;
    const auto read = std::find_if(operands.begin(), operands.end(),
                                   [&](const MessageOperand& x) { return x.slot == slot; });
    next.a = static_cast<uint8_t>(read - operands.begin());
    if (!take(slot, next.out)) return false;
    result = next.out;
    return emit(next);
  }

  const MessageProgram& program_;
  DeviceProgram& to_;
  std::vector<int> last_use_, register_;
  std::vector<bool> is_taken_ = std::vector<bool>(DeviceProgram::kMaxRegisters, false);
};

}  // namespace

std::optional<StridedIndex> strided_index(const FeatureShape& part, const FeatureShape& whole) {
  IndexBuilder index;
  int64_t stride = 1;
  for (size_t d = whole.size(); d-- > 0;) {
    const int64_t size = size_in(part, whole, d);
    index.add(whole[d], size == whole[d] ? stride : 0);
    stride *= size;
  }
  return index.build();
}

std::optional<DeviceProgram> to_device(const MessageProgram& program,
                                       const std::vector<FeatureShape>& operands) {
  if (program.operands.size() > DeviceProgram::kMaxOperands) return std::nullopt;
  if (!program.is_fused) return std::nullopt;
  std::vector<FeatureShape> shapes;
  for (const MessageOperand& read : program.operands) shapes.push_back(operands.at(read.index));
  const FeatureShape whole = broadcast_shapes(shapes);

  DeviceProgram result;
  result.elements = program.elements;
  result.last = program.last;
  result.out_elements = program.out_elements;
  result.pick = program.pick;
  for (const MessageOperand& read : program.operands) {
    const auto index = strided_index(operands.at(read.index), whole);
    if (!index) return std::nullopt;
    result.reads_destination |= read.target == Target::kDestination;
    result.operands[result.num_operands++] = {nullptr, read.target, read.broadcast.row_size,
                                              *index};
  }
  if (!set_output(result, program.out_shape, whole)) return std::nullopt;
  if (!RegisterCode(program, result).translate()) return std::nullopt;
  return result;
}

}  // namespace smex::kernels
