// Runs any message, one element in a thread at a time.
#pragma once

#include "kernels/message/apply.h"
#include "kernels/message/cuda/device.cuh"
#include "kernels/message/device_program.h"

namespace smex::kernels {

/// A program and the edge it is run for.
///
/// Sums over the last dimension are made by the whole team once for each group of elements they
/// cover: with sums, all lanes must ask for elements of one group at the same time.
template <typename T>
class Machine {
 public:
  using C = accumulate_t<T>;

  SMEX_DEVICE Machine(const DeviceProgram& program, const Team& team)
      : program_(program), team_(team) {}

  SMEX_DEVICE void start_edge(int64_t source, int64_t destination, int64_t edge) {
    source_ = source;
    destination_ = destination;
    edge_ = edge;
    group_ = -1;
  }

  /// An element of the message.
  SMEX_DEVICE C value(int64_t element) {
    if (program_.num_sums > 0) {
      const int64_t group = StridedIndex::quotient(element, program_.last);
      if (group != group_) add_up(group);
      group_ = group;
    }
    run(element, program_.num_instructions);
    return registers_[program_.result];
  }

 private:
  SMEX_DEVICE void add_up(int64_t group) {
    for (int s = 0; s < program_.num_sums; ++s) {
      const int at = program_.sum_at[s];
      C sum = 0;
      for (int64_t i = team_.lane; i < program_.last; i += team_.lanes) {
        run(group * program_.last + i, at);
        sum += registers_[program_.code[at].a];
      }
      sums_[s] = team_.sum(sum);
    }
  }

  SMEX_DEVICE void run(int64_t element, int count) {
    for (int i = 0; i < count; ++i) {
      const DeviceInstruction& step = program_.code[i];
      C result;
      if (step.op == MessageOp::kOperand) {
        result = load(program_.operands[step.a], element);
      } else if (step.op == MessageOp::kSumLast) {
        result = sums_[step.b];
      } else {
        result =
            apply<C>(step.op, registers_[step.a], registers_[step.b], static_cast<C>(step.value));
      }
      registers_[step.out] = result;
    }
  }

  SMEX_DEVICE C load(const DeviceOperand& operand, int64_t element) const {
    const int64_t row = operand.target == Target::kSource        ? source_
                        : operand.target == Target::kDestination ? destination_
                        : operand.target == Target::kEdge        ? edge_
                                                                 : int64_t{0};
    return widen(
        static_cast<const T*>(operand.data)[row * operand.row_size + operand.index.of(element)]);
  }

  const DeviceProgram& program_;
  const Team& team_;
  int64_t source_ = 0, destination_ = 0, edge_ = 0, group_ = -1;
  C registers_[DeviceProgram::kMaxRegisters] = {};
  C sums_[DeviceProgram::kMaxSums] = {};
};

/// How teams share the elements of messages.
///
/// Without sums, or where sums are only a part, each lane has an element of its own, those of a
/// team lying in one span that shares its sums. Otherwise a team works on one element of the
/// result together.
struct TeamLayout {
  int lanes = 1;
  bool is_owned = true;
  int64_t span = 1;  ///< elements that share sums
  int64_t tiles_per_span = 1;
  int64_t tiles = 1;  ///< what one team does for an edge is a tile

  static TeamLayout of(const DeviceProgram& program) {
    TeamLayout layout;
    layout.is_owned = program.pick == 1 && program.rest_count == 1;
    const int64_t group = program.num_sums > 0 ? program.last : 1;
    if (!layout.is_owned) {
      layout.lanes = lanes_for(program.rest_count > group ? program.rest_count : group);
      layout.tiles = program.out_elements;
      return layout;
    }
    layout.span = program.num_sums > 0 ? program.last : program.elements;
    layout.lanes = lanes_for(layout.span);
    layout.tiles_per_span = ceil_div(layout.span, layout.lanes);
    layout.tiles = program.elements / layout.span * layout.tiles_per_span;
    return layout;
  }

  /// The element of the result that a lane has in a tile, and whether it is the one to write it.
  /// Every lane gets an element that exists.
  SMEX_DEVICE int64_t element(int64_t tile, int lane, bool* writes) const {
    if (!is_owned) {
      *writes = lane == 0;
      return tile;
    }
    const int64_t index = StridedIndex::quotient(tile, tiles_per_span);
    const int64_t offset = (tile - index * tiles_per_span) * lanes + lane;
    *writes = offset < span;
    return index * span + (offset < span ? offset : span - 1);
  }
};

/// The element `out` of the result, to be called by the whole team.
template <typename T>
SMEX_DEVICE accumulate_t<T> value_of(Machine<T>& machine, const DeviceProgram& program,
                                     const TeamLayout& layout, const Team& team, int64_t out) {
  if (layout.is_owned) return machine.value(out);
  const int64_t base = program.base.of(out);
  if (program.rest_count == 1) return machine.value(base);
  accumulate_t<T> sum = 0;
  if (program.num_sums > 0) {
    for (int64_t r = 0; r < program.rest_count; ++r)
      sum += machine.value(base + program.rest.of(r));
    return sum;
  }
  for (int64_t r = team.lane; r < program.rest_count; r += team.lanes)
    sum += machine.value(base + program.rest.of(r));
  return team.sum(sum);
}

}  // namespace smex::kernels
