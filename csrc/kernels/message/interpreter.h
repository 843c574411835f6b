// Runs programs on blocks of edges. Included by kernels that are compiled per instruction set.
#pragma once

#include <algorithm>
#include <cmath>

#include "edges/rows.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/tanh_erf.h"
#include "kernels/message/apply.h"
#include "kernels/message/program.h"

namespace smex::kernels::SMEX_ISA {

/// The nodes and the feature row of each edge of a block.
constexpr int kMaxBlockEdges = 256;
/// Numbers in a slot: few enough that all slots stay in the first-level cache.
constexpr int64_t kSlotElements = 1024;

struct EdgeBlock {
  int size = 0;
  bool in_order = false;  ///< each edge's feature row is the next one
  int64_t rows[kMaxBlockEdges];
  int64_t columns[kMaxBlockEdges];
  int64_t eids[kMaxBlockEdges];
};

/// `out = f(a)` for an `f` of vectors of any number of lanes.
template <typename C, typename Function>
SMEX_INLINE void map_lanes(C* out, const C* a, int64_t n, const Function& f) {
  constexpr int W = kLanes<C>;
  int64_t i = 0;
  for (; i + W <= n; i += W) store<W>(out + i, f(load<C, W>(a + i)));
  for (; i < n; ++i) out[i] = f(Vector<C, 1>{a[i]})[0];
}
template <typename C, typename Function>
SMEX_INLINE void map_unary(C* out, const C* a, int64_t n, const Function& f) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = f(a[i]);
}
template <typename C, typename Function>
SMEX_INLINE void map_binary(C* out, const C* a, const C* b, int64_t n, const Function& f) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
}

/// `power_of` (apply.h), in a loop of its own for each of the short ways.
template <typename C>
void run_power(C exponent, C* out, const C* a, int64_t n) {
  if (exponent == C(2)) return map_unary(out, a, n, [](C x) { return power_of(x, C(2)); });
  if (exponent == C(3)) return map_unary(out, a, n, [](C x) { return power_of(x, C(3)); });
  if (exponent == C(-1)) return map_unary(out, a, n, [](C x) { return power_of(x, C(-1)); });
  if (exponent == C(-2)) return map_unary(out, a, n, [](C x) { return power_of(x, C(-2)); });
  if (exponent == C(0.5)) return map_unary(out, a, n, [](C x) { return power_of(x, C(0.5)); });
  if (exponent == C(-0.5)) return map_unary(out, a, n, [](C x) { return power_of(x, C(-0.5)); });
  return map_unary(out, a, n, [exponent](C x) { return std::pow(x, exponent); });
}

/// As NumberMath (apply.h), of the vectors `V` of `C`.
template <typename C, typename V>
struct VectorMath {
  static constexpr int W = sizeof(V) / sizeof(C);
  static SMEX_INLINE V exp(V x) { return exp_of<W>(x); }
  static SMEX_INLINE V log1p(V x) {
    for (int i = 0; i < W; ++i) x[i] = std::log1p(x[i]);
    return x;
  }
  static SMEX_INLINE V tanh(V x) { return tanh_of<W>(x); }
  static SMEX_INLINE V erf(V x) { return erf_of<W>(x); }
};

/// `f` of numbers and a constant; a power has a loop of its own.
template <MessageOp op, typename C, typename Function>
SMEX_INLINE void map_number(C value, C* out, const C* a, int64_t n, const Function& f) {
  if constexpr (op == MessageOp::kPow) {
    run_power(value, out, a, n);
  } else {
    map_unary(out, a, n, f);
  }
}

template <int W, typename C>
SMEX_INLINE C sum_of(const C* a, int64_t n) {
  Vector<C, W> sum = {}, other = {};
  int64_t i = 0;
  for (; i + 2 * W <= n; i += 2 * W) {
    sum += load<C, W>(a + i);
    other += load<C, W>(a + i + W);
  }
  if (i + W <= n) {
    sum += load<C, W>(a + i);
    i += W;
  }
  C total = sum_lanes<C, W>(sum + other);
  for (; i < n; ++i) total += a[i];
  return total;
}

/// The larger of two numbers, or of each two lanes; a NaN is larger.
template <typename C>
SMEX_INLINE C larger(C x, C y) {
  return x > y || x != x ? x : y;
}
template <typename C, int W>
SMEX_INLINE Vector<C, W> larger_lanes(Vector<C, W> x, Vector<C, W> y) {
  return (x > y) | (x != x) ? x : y;
}

// Not inlined: among the loops of all operations GCC 12 keeps what they add up in memory.

/// The sum of a group of `n` numbers.
template <typename C>
[[gnu::noinline]] C sum_of_group(const C* a, int64_t n) {
  return n < kLanes<C> ? sum_of<4>(a, n) : sum_of<kLanes<C>>(a, n);
}

/// The largest of them.
template <typename C>
[[gnu::noinline]] C max_of_group(const C* a, int64_t n) {
  constexpr int W = kLanes<C>;
  C max = a[0];
  int64_t i = 0;
  if (n >= W) {
    auto lanes = load<C, W>(a);
    for (i = W; i + W <= n; i += W) lanes = larger_lanes<C, W>(load<C, W>(a + i), lanes);
    max = lanes[0];
    for (int lane = 1; lane < W; ++lane) max = larger<C>(lanes[lane], max);
  }
  for (; i < n; ++i) max = larger(a[i], max);
  return max;
}

/// Fills groups of `last` numbers with what `f(group)` says of each.
template <typename C, typename Function>
SMEX_INLINE void fill_groups(C* out, const C* a, int64_t n, int64_t last, const Function& f) {
  for (int64_t start = 0; start < n; start += last) std::fill_n(out + start, last, f(a + start));
}

// A loop for each form of operations.def.
#define SMEX_LOOP_unary(op, result) map_unary(out, a, n, [](C x) { return result; })
#define SMEX_LOOP_lanes(op, result)          \
  map_lanes(out, a, n, [](auto x) {          \
    using Math = VectorMath<C, decltype(x)>; \
    return result;                           \
  })
#define SMEX_LOOP_binary(op, result) \
  map_binary(out, a, b, n, []([[maybe_unused]] C x, [[maybe_unused]] C y) { return result; })
#define SMEX_LOOP_number(op, result) \
  map_number<op>(value, out, a, n, [value](C x) { return result; })
#define SMEX_LOOP_sum(op, result) \
  fill_groups(out, a, n, last, [last](const C* group) { return sum_of_group(group, last); })
#define SMEX_LOOP_max(op, result) \
  fill_groups(out, a, n, last, [last](const C* group) { return max_of_group(group, last); })

/// One instruction on `n` numbers; `last` is the size of the groups that kSumLast adds up
/// and of which kMaxLast is the largest.
template <typename C>
void run_instruction(const Instruction& step, C* out, const C* a, const C* b, int64_t n,
                     int64_t last) {
  const C value = static_cast<C>(step.value);
  switch (step.op) {
    case MessageOp::kOperand:
      return;
    case MessageOp::kConstant:
      for (int64_t i = 0; i < n; ++i) out[i] = value;
      return;
#define SMEX_OP(id, name, form, result, to_a, to_b, torch) \
  case MessageOp::id:                                      \
    return SMEX_LOOP_##form(MessageOp::id, result);
#include "kernels/message/operations.def"
  }
}

#undef SMEX_LOOP_unary
#undef SMEX_LOOP_lanes
#undef SMEX_LOOP_binary
#undef SMEX_LOOP_number
#undef SMEX_LOOP_sum
#undef SMEX_LOOP_max

/// Copies `n` numbers; elements of 16 bits are widened, or rounded.
template <typename To, typename From>
SMEX_INLINE void copy_numbers(To* to, const From* from, int64_t n) {
  using C = accumulate_t<From>;
  constexpr int W = kLanes<C>;
  int64_t i = 0;
  for (; i + W <= n; i += W) store<W>(to + i, load<C, W>(from + i));
  for (; i < n; ++i) store_one(to + i, load_one(from + i));
}

/// Copies the row at `from`, repeated as `broadcast` says, into `to[0 .. n)`.
template <typename T>
void load_row(accumulate_t<T>* to, const T* from, int64_t n, const Broadcast& broadcast) {
  using C = accumulate_t<T>;
  switch (broadcast.kind) {
    case Broadcast::Kind::kFull:
      return copy_numbers(to, from, n);
    case Broadcast::Kind::kScalar: {
      const C value = load_one(from);
      for (int64_t i = 0; i < n; ++i) to[i] = value;
      return;
    }
    case Broadcast::Kind::kHead:
      for (int64_t start = 0, h = 0; start < n; start += broadcast.inner, ++h) {
        const C value = load_one(from + h);
        for (int64_t i = 0; i < broadcast.inner; ++i) to[start + i] = value;
      }
      return;
    case Broadcast::Kind::kTile:
      for (int64_t start = 0; start < n; start += broadcast.inner)
        for (int64_t i = 0; i < broadcast.inner; ++i) to[start + i] = load_one(from + i);
      return;
    case Broadcast::Kind::kTable:
      for (int64_t i = 0; i < n; ++i) to[i] = load_one(from + broadcast.table[i]);
      return;
  }
}

/// Copies the rows of `ids`, of `kElements` numbers each.
template <int kElements, typename T>
SMEX_INLINE void gather_rows(accumulate_t<T>* to, const T* from, const int64_t* ids, int count) {
  for (int i = 0; i < count; ++i)
    store<kElements>(to + i * kElements,
                     load<accumulate_t<T>, kElements>(from + ids[i] * kElements));
}

/// Copies the number of each of `ids`, `kElements` times.
template <int kElements, typename T>
SMEX_INLINE void repeat_numbers(accumulate_t<T>* to, const T* from, const int64_t* ids, int count) {
  for (int i = 0; i < count; ++i)
    store<kElements>(to + i * kElements,
                     splat<accumulate_t<T>, kElements>(load_one(from + ids[i])));
}

/// Copies the rows of `ids`, each repeated as `broadcast` says into `n` numbers.
template <typename T>
void load_rows(accumulate_t<T>* to, const T* from, const int64_t* ids, int count, int64_t n,
               const Broadcast& broadcast) {
  if (broadcast.kind == Broadcast::Kind::kFull) {
    if (n == 1) return gather_rows<1>(to, from, ids, count);
    if (n == 2) return gather_rows<2>(to, from, ids, count);
    if (n == 4) return gather_rows<4>(to, from, ids, count);
    if (n == 8) return gather_rows<8>(to, from, ids, count);
    if (n == 16) return gather_rows<16>(to, from, ids, count);
  }
  if (broadcast.kind == Broadcast::Kind::kScalar) {
    if (n == 1) return gather_rows<1>(to, from, ids, count);
    if (n == 2) return repeat_numbers<2>(to, from, ids, count);
    if (n == 4) return repeat_numbers<4>(to, from, ids, count);
    if (n == 8) return repeat_numbers<8>(to, from, ids, count);
    if (n == 16) return repeat_numbers<16>(to, from, ids, count);
  }
  for (int i = 0; i < count; ++i)
    load_row(to + i * n, from + ids[i] * broadcast.row_size, n, broadcast);
}

/// The slots of a program for a block of edges, and the running of it.
template <typename T>
class Interpreter {
 public:
  using C = accumulate_t<T>;

  Interpreter(const MessageProgram& program, const T* const* operands)
      : program_(program), operands_(operands) {
    const int64_t n = program.elements > 0 ? program.elements : 1;
    block_edges_ = static_cast<int>(kSlotElements / n);
    if (block_edges_ > kMaxBlockEdges) block_edges_ = kMaxBlockEdges;
    if (block_edges_ < 1) block_edges_ = 1;
    slot_size_ = n * block_edges_;
    slots_ = new C[slot_size_ * program.num_slots];
  }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;
  ~Interpreter() { delete[] slots_; }

  /// So many edges fit a block.
  int block_edges() const { return block_edges_; }

  /// Computes the messages of the block: edge i's are `elements` numbers at `result() + i *
  /// elements`.
  void run(const EdgeBlock& block) {
    const int64_t n = program_.elements;
    for (const MessageOperand& read : program_.operands) {
      const int64_t* const ids = read.target == Target::kSource        ? block.columns
                                 : read.target == Target::kDestination ? block.rows
                                 : read.target == Target::kEdge        ? block.eids
                                                                       : nullptr;
      const T* const from = operands_[read.index];
      const int64_t size = read.broadcast.row_size;
      C* const to = slot(read.slot);
      if (!ids) {
        for (int i = 0; i < block.size; ++i) load_row(to + i * n, from, n, read.broadcast);
      } else if (ids == block.eids && block.in_order && size == n) {  // the rows are one
        load_row(to, from + ids[0] * n, block.size * n, read.broadcast);
      } else {
        for (int i = 0; i < block.size; ++i) __builtin_prefetch(from + ids[i] * size);
        load_rows(to, from, ids, block.size, n, read.broadcast);
      }
    }
    for (const Instruction& step : program_.code)
      run_instruction(step, slot(step.out), slot(step.a), slot(step.b), block.size * n,
                      program_.last);
  }

  const C* result() const { return slots_ + program_.result * slot_size_; }

 private:
  C* slot(int index) const { return index < 0 ? nullptr : slots_ + index * slot_size_; }

  const MessageProgram& program_;
  const T* const* operands_;
  int block_edges_ = 1;
  int64_t slot_size_ = 1;
  C* slots_ = nullptr;
};

/// Puts the message of one edge, `program.elements` numbers, where it belongs.
template <typename C, typename To>
void write_message(const MessageProgram& program, const C* message, To* to, C* sums) {
  const int64_t n = program.out_elements;
  if (!program.reduces) {
    if (program.pick == 1) {
      copy_numbers(to, message, n);
    } else {
      for (int64_t i = 0; i < n; ++i) store_one(to + i, message[i * program.pick]);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) sums[i] = 0;
  for (int64_t i = 0; i < program.elements; i += program.pick)
    sums[program.out.element(i)] += message[i];
  for (int64_t i = 0; i < n; ++i) store_one(to + i, sums[i]);
}

}  // namespace smex::kernels::SMEX_ISA
