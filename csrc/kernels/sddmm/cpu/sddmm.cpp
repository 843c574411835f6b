// Compiled once for each instruction set.
#include "kernels/sddmm/sddmm.h"

#include "kernels/message/interpreter.h"
#include "kernels/message/piece.h"

namespace smex::kernels::SMEX_ISA {
namespace {

constexpr int kEdgesAhead = 12;

/// The row of an operand that belongs to an edge.
template <typename T, typename I>
struct EdgeOperand {
  const T* data = nullptr;
  Target target = Target::kSource;
  int64_t size = 0;

  SMEX_INLINE const T* at(const EdgeRows<I>& rows, int64_t row, int64_t k) const {
    if (target == Target::kDestination) return data + row * size;
    if (target == Target::kSource) return data + int64_t{rows.indices[k]} * size;
    return data + (rows.eids ? int64_t{rows.eids[k]} : k) * size;
  }
};

// ---- sums of products over groups of elements: dot products, one for each head ----

/// The dot product of `count` elements.
template <int W, typename T>
SMEX_INLINE accumulate_t<T> dot(const T* x, const T* y, int64_t count) {
  using C = accumulate_t<T>;
  Vector<C, W> sum = {}, other = {};
  int64_t i = 0;
  for (; i + 2 * W <= count; i += 2 * W) {
    sum += load<C, W>(x + i) * load<C, W>(y + i);
    other += load<C, W>(x + i + W) * load<C, W>(y + i + W);
  }
  if (i + W <= count) {
    sum += load<C, W>(x + i) * load<C, W>(y + i);
    i += W;
  }
  C total = sum_lanes<C, W>(sum + other);
  for (; i < count; ++i) total += load_one(x + i) * load_one(y + i);
  return total;
}

/// Adds neighbours: lane i of the result is the sum of the i-th pair of lanes of `a` and then `b`.
template <typename C, int W>
SMEX_INLINE Vector<C, W> add_pairs(Vector<C, W> a, Vector<C, W> b) {
  Mask<C, W> even, odd;
  for (int i = 0; i < W; ++i) {
    even[i] = 2 * i;
    odd[i] = 2 * i + 1;
  }
  return __builtin_shuffle(a, b, even) + __builtin_shuffle(a, b, odd);
}

/// W dot products of W neighbouring elements each.
template <int W, typename T>
SMEX_INLINE Vector<accumulate_t<T>, W> dots_of_vectors(const T* x, const T* y) {
  using C = accumulate_t<T>;
  Vector<C, W> part[W];
#pragma GCC unroll 16
  for (int h = 0; h < W; ++h) part[h] = load<C, W>(x + h * W) * load<C, W>(y + h * W);
#pragma GCC unroll 4
  for (int count = W; count > 1; count /= 2) {
#pragma GCC unroll 8
    for (int h = 0; h < count / 2; ++h) part[h] = add_pairs<C, W>(part[2 * h], part[2 * h + 1]);
  }
  return part[0];
}

template <typename T, typename I>
struct DotPiece {
  const SddmmTask<T, I>& task;
  EdgeOperand<T, I> x, y;
  int64_t heads, inner;

  void run(int64_t index) const {
    const Piece<I> piece(task.rows, index, task.num_pieces);
    const EdgeRows<I>& rows = task.rows;
    const int64_t final_edge = rows.num_edges - 1;
    const int64_t bytes = heads * inner * static_cast<int64_t>(sizeof(T));
    piece.for_each_row([&](int64_t row, int64_t begin, int64_t end, Part) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t ahead = k + kEdgesAhead < final_edge ? k + kEdgesAhead : final_edge;
        // Operands of the row itself are in the cache after its first edge.
        if (x.target != Target::kDestination) prefetch_row(x.at(rows, row, ahead), bytes);
        if (y.target != Target::kDestination) prefetch_row(y.at(rows, row, ahead), bytes);
        if (rows.eids)
          __builtin_prefetch(task.out + int64_t{rows.eids[ahead]} * heads, /*write=*/1);
        T* const to = task.out + (rows.eids ? int64_t{rows.eids[k]} : k) * heads;
        edge(x.at(rows, row, k), y.at(rows, row, k), to);
      }
    });
  }

 private:
  static SMEX_INLINE void prefetch_row(const T* from, int64_t bytes) {
    constexpr int64_t kLine = 64;
    for (int64_t offset = 0; offset < bytes; offset += kLine)
      __builtin_prefetch(reinterpret_cast<const char*>(from) + offset);
  }

  SMEX_INLINE void edge(const T* a, const T* b, T* to) const {
    using C = accumulate_t<T>;
    constexpr int W = kLanes<C>;
    int64_t h = 0;
    if (inner == 8 && W >= 8 && sizeof(C) == 4) {
      constexpr int kHeads = 8;
      for (; h + kHeads <= heads; h += kHeads)
        store<kHeads>(to + h, dots_of_vectors<kHeads>(a + h * kHeads, b + h * kHeads));
    } else if (inner == W) {
      for (; h + W <= heads; h += W) store<W>(to + h, dots_of_vectors<W>(a + h * W, b + h * W));
    }
    for (; h < heads; ++h) {
      const T *const left = a + h * inner, *const right = b + h * inner;
      store_one(to + h, inner >= W      ? dot<W>(left, right, inner)
                        : inner >= 4    ? dot<4>(left, right, inner)
                                        : dot<1>(left, right, inner));
    }
  }
};

// ---- any message ----

/// Puts the message of one edge, `program.elements` numbers, where it belongs.
template <typename T>
void write_message(const Program& program, const accumulate_t<T>* message, T* to,
                   accumulate_t<T>* sums) {
  using C = accumulate_t<T>;
  const int64_t n = program.out_elements;
  if (!program.reduces) {
    if (program.pick == 1) {
      constexpr int W = kLanes<C>;
      int64_t i = 0;
      for (; i + W <= n; i += W) store<W>(to + i, load<C, W>(message + i));
      for (; i < n; ++i) store_one(to + i, message[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) store_one(to + i, message[i * program.pick]);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) sums[i] = 0;
  const Broadcast& out = program.out;
  for (int64_t i = 0; i < program.elements; i += program.pick) {
    const int64_t at = out.kind == Broadcast::Kind::kScalar ? 0
                       : out.kind == Broadcast::Kind::kHead ? i / out.inner
                       : out.kind == Broadcast::Kind::kTile ? i % out.inner
                       : out.kind == Broadcast::Kind::kFull ? i
                                                            : out.table[i];
    sums[at] += message[i];
  }
  for (int64_t i = 0; i < n; ++i) store_one(to + i, sums[i]);
}

template <typename T, typename I>
void general_pieces(const SddmmTask<T, I>& task, int64_t first_piece, int64_t last_piece) {
  using C = accumulate_t<T>;
  const Program& program = *task.program;
  Interpreter<T> interpreter(program, task.operands);
  EdgeBlock block;
  C* const sums = new C[program.out_elements + 1];
  const auto flush = [&] {
    if (block.size == 0) return;
    interpreter.run(block);
    for (int i = 0; i < block.size; ++i)
      write_message<T>(program, interpreter.result() + i * program.elements,
                       task.out + block.eids[i] * program.out_elements, sums);
    block.size = 0;
  };
  for (int64_t index = first_piece; index < last_piece; ++index) {
    const Piece<I> piece(task.rows, index, task.num_pieces);
    piece.for_each_row([&](int64_t row, int64_t begin, int64_t end, Part) {
      for (int64_t k = begin; k < end; ++k) {
        block.rows[block.size] = row;
        block.columns[block.size] = task.rows.indices[k];
        block.eids[block.size] = task.rows.eids ? int64_t{task.rows.eids[k]} : k;
        if (++block.size == interpreter.block_edges()) flush();
      }
    });
  }
  flush();
  delete[] sums;
}

/// True for a product of two full operands that is added up over groups of elements.
bool is_dot(const Program& program) {
  if (program.operands.size() != 2 || program.code.empty()) return false;
  for (const ProgramOperand& read : program.operands)
    if (read.broadcast.kind != Broadcast::Kind::kFull) return false;
  if (program.code[0].op != MessageOp::kMul) return false;
  const bool groups = program.out.kind == Broadcast::Kind::kHead ||
                      program.out.kind == Broadcast::Kind::kScalar;
  if (program.code.size() == 1) return program.reduces && groups && program.pick == 1;
  // dot itself: its value is picked from the sums that kSumLast leaves.
  return program.code.size() == 2 && program.code[1].op == MessageOp::kSumLast &&
         program.pick == program.last && groups;
}

}  // namespace

template <typename T, typename I>
void sddmm_pieces(const SddmmTask<T, I>& task, int64_t begin, int64_t end) {
  const Program& program = *task.program;
  if (program.out_elements == 0) return;
  if (!is_dot(program)) return general_pieces(task, begin, end);
  const auto operand = [&](int i) {
    const ProgramOperand& read = program.operands[i];
    return EdgeOperand<T, I>{task.operands[read.index], read.target, read.broadcast.row_size};
  };
  const DotPiece<T, I> piece{task, operand(0), operand(1), program.out_elements,
                             program.elements / program.out_elements};
  for (int64_t index = begin; index < end; ++index) piece.run(index);
}

#define SMEX_INSTANTIATE(T, I) \
  template void sddmm_pieces<T, I>(const SddmmTask<T, I>&, int64_t begin, int64_t end);
SMEX_INSTANTIATE(float, int32_t)
SMEX_INSTANTIATE(float, int64_t)
SMEX_INSTANTIATE(double, int32_t)
SMEX_INSTANTIATE(double, int64_t)
SMEX_INSTANTIATE(BFloat16, int32_t)
SMEX_INSTANTIATE(BFloat16, int64_t)
SMEX_INSTANTIATE(Half, int32_t)
SMEX_INSTANTIATE(Half, int64_t)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels::SMEX_ISA
