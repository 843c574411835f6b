// Compiled once for each instruction set.
#include "kernels/sddmm/sddmm.h"

#include "edges/piece.h"
#include "kernels/cpu/dot.h"
#include "kernels/message/edge_operand.h"
#include "kernels/message/instantiate.h"
#include "kernels/message/interpreter.h"

namespace smex::kernels::SMEX_ISA {
namespace {

// ---- sums of products over groups of elements: dot products, one for each head ----

template <typename T, typename I>
class DotPiece {
 public:
  DotPiece(const SddmmTask<T, I>& task, EdgeOperand<T, I> x, EdgeOperand<T, I> y)
      : task_(task),
        x_(x.is_per_edge() ? x : y),
        y_(x.is_per_edge() ? y : x),
        heads_(task.program->out_elements),
        inner_(task.program->elements / heads_),
        row_(new C[kConverts ? task.program->elements : 1]) {}
  ~DotPiece() { delete[] row_; }
  DotPiece(const DotPiece&) = delete;
  DotPiece& operator=(const DotPiece&) = delete;

  void run(int64_t index) const {
    const Piece<I> piece(task_.rows, index, task_.num_pieces);
    piece.for_each_row([&](int64_t row, int64_t begin, int64_t end, RowPart) {
      if (y_.is_per_edge()) {
        run_row(row, begin, end, [&](int64_t k) { return y_.at(row, k); });
      } else {  // what all edges of the row read is converted once
        const C* const of_row = in_sum_type(y_.at(row, begin), heads_ * inner_, row_);
        run_row(row, begin, end, [&](int64_t) { return of_row; });
      }
    });
  }

 private:
  using C = accumulate_t<T>;
  static constexpr bool kConverts = !std::is_same_v<T, C>;

  template <typename Other>
  SMEX_INLINE void run_row(int64_t row, int64_t begin, int64_t end, const Other& other) const {
    int64_t k = begin;
    if constexpr (kLanes<C> >= 4) {
      // The lanes of four edges are added up together, which costs half.
      if (heads_ == 1 && inner_ % kLanes<C> == 0)
        for (; k + 4 <= end; k += 4) four_edges(row, k, other);
    }
    for (; k < end; ++k) {
      ask_for(row, k);
      head_dots(x_.at(row, k), other(k), heads_, inner_, result(k));
    }
  }

  template <typename Other>
  SMEX_INLINE void four_edges(int64_t row, int64_t k, const Other& other) const {
    constexpr int W = kLanes<C>;
    Vector<C, W> lanes[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      ask_for(row, k + i);
      lanes[i] = dot_lanes<W>(x_.at(row, k + i), other(k + i), inner_);
    }
    const auto sums = four_sums<C, W>(lanes[0], lanes[1], lanes[2], lanes[3]);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) store_one(result(k + i), sums[i]);
  }

  SMEX_INLINE T* result(int64_t k) const {
    return task_.out + (task_.rows.eids ? int64_t{task_.rows.eids[k]} : k) * heads_;
  }

  SMEX_INLINE void ask_for(int64_t row, int64_t k) const {
    const Ahead ahead(k, task_.rows.num_edges - 1);
    prefetch_operand(x_, ahead, row);
    prefetch_operand(y_, ahead, row);
    if (task_.rows.eids) __builtin_prefetch(result(ahead.far), /*write=*/1);
  }

  const SddmmTask<T, I>& task_;
  const EdgeOperand<T, I> x_, y_;
  const int64_t heads_, inner_;
  C* const row_;
};

// ---- a copy, or one operation on two operands ----

/// The row of all elements of an operand, in vectors that may begin anywhere in it.
template <typename T>
struct WideRow {
  using C = accumulate_t<T>;
  const T* from;
  Broadcast::Kind kind;
  int64_t inner;

  template <int W>
  SMEX_INLINE Vector<C, W> at(int64_t i) const {
    if (kind == Broadcast::Kind::kFull) return load<C, W>(from + i);
    if (kind == Broadcast::Kind::kScalar) return splat<C, W>(load_one(from));
    return splat<C, W>(load_one(from + i / inner));  // a head, which W divides
  }
};

template <typename T, typename I>
struct ElementwisePiece {
  using C = accumulate_t<T>;
  const SddmmTask<T, I>& task;
  EdgeOperand<T, I> x, y;  // y is not read by a copy
  const MessageOperand *x_read, *y_read;
  MessageOp op;  // kOperand: a copy

  void run(int64_t index) const {
    switch (op) {
      case MessageOp::kAdd:
        return run_with(index, [](auto a, auto b) { return a + b; });
      case MessageOp::kSub:
        return run_with(index, [](auto a, auto b) { return a - b; });
      case MessageOp::kMul:
        return run_with(index, [](auto a, auto b) { return a * b; });
      case MessageOp::kDiv:
        return run_with(index, [](auto a, auto b) { return a / b; });
      default:
        return run_with(index, [](auto a, auto) { return a; });
    }
  }

 private:
  template <typename Function>
  void run_with(int64_t index, const Function& f) const {
    constexpr int W = kLanes<C>;
    const int64_t n = task.program->out_elements;
    if (n >= W) return run_rows<W>(index, f);
    if constexpr (W > 8) {
      if (n >= 8) return run_rows<8>(index, f);
    }
    if (n >= 4) return run_rows<4>(index, f);
    run_rows<1>(index, f);
  }

  template <int W, typename Function>
  void run_rows(int64_t index, const Function& f) const {
    const Piece<I> piece(task.rows, index, task.num_pieces);
    const EdgeRows<I>& rows = task.rows;
    const int64_t n = task.program->out_elements, final_edge = rows.num_edges - 1;
    piece.for_each_row([&](int64_t row, int64_t begin, int64_t end, RowPart) {
      for (int64_t k = begin; k < end; ++k) {
        const Ahead ahead(k, final_edge);
        prefetch_operand(x, ahead, row);
        if (y_read) prefetch_operand(y, ahead, row);
        if (rows.eids)
          __builtin_prefetch(task.out + int64_t{rows.eids[ahead.far]} * n, /*write=*/1);
        const WideRow<T> a{x.at(row, k), x_read->broadcast.kind, x_read->broadcast.inner};
        const WideRow<T> b =
            y_read ? WideRow<T>{y.at(row, k), y_read->broadcast.kind, y_read->broadcast.inner} : a;
        T* const to = task.out + (rows.eids ? int64_t{rows.eids[k]} : k) * n;
        int64_t i = 0;
        for (; i + W <= n; i += W) store<W>(to + i, f(a.template at<W>(i), b.template at<W>(i)));
        for (; i < n; ++i) store<1>(to + i, f(a.template at<1>(i), b.template at<1>(i)));
      }
    });
  }
};

/// Whether vectors may be read anywhere in the operand's row of all elements.
bool is_wide(const MessageOperand& read) {
  constexpr int kWidest = 16;
  return read.broadcast.kind == Broadcast::Kind::kFull ||
         read.broadcast.kind == Broadcast::Kind::kScalar ||
         (read.broadcast.kind == Broadcast::Kind::kHead && read.broadcast.inner % kWidest == 0);
}

bool is_elementwise(const MessageProgram& program) {
  if (program.reduces || program.pick != 1 || program.operands.size() > 2) return false;
  for (const MessageOperand& read : program.operands)
    if (!is_wide(read)) return false;
  if (program.code.empty()) return program.operands.size() == 1;
  const Instruction& step = program.code[0];
  const bool binary = step.op == MessageOp::kAdd || step.op == MessageOp::kSub ||
                      step.op == MessageOp::kMul || step.op == MessageOp::kDiv;
  return program.code.size() == 1 && binary && program.operands.size() == 2 &&
         step.a == program.operands[0].slot && step.b == program.operands[1].slot;
}

// ---- any message ----

template <typename T, typename I>
void general_pieces(const SddmmTask<T, I>& task, int64_t first_piece, int64_t last_piece) {
  using C = accumulate_t<T>;
  const MessageProgram& program = *task.program;
  Interpreter<T> interpreter(program, task.operands);
  EdgeBlock block;
  C* const sums = new C[program.out_elements + 1];
  const bool is_plain = !program.reduces && program.pick == 1;
  block.in_order = !task.rows.eids;  // pieces lie one after another
  const auto flush = [&] {
    if (block.size == 0) return;
    interpreter.run(block);
    if (block.in_order && is_plain) {
      copy_numbers(task.out + block.eids[0] * program.out_elements, interpreter.result(),
                   block.size * program.elements);
    } else {
      for (int i = 0; i < block.size; ++i)
        write_message(program, interpreter.result() + i * program.elements,
                      task.out + block.eids[i] * program.out_elements, sums);
    }
    block.size = 0;
  };
  for (int64_t index = first_piece; index < last_piece; ++index) {
    const Piece<I> piece(task.rows, index, task.num_pieces);
    piece.for_each_row([&](int64_t row, int64_t begin, int64_t end, RowPart) {
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

}  // namespace

template <typename T, typename I>
void sddmm_pieces(const SddmmTask<T, I>& task, int64_t begin, int64_t end) {
  const MessageProgram& program = *task.program;
  if (program.out_elements == 0) return;
  const auto operand = [&](int i) {
    const MessageOperand& read = program.operands[i];
    return EdgeOperand<T, I>(task.rows, task.operands, read);
  };
  if (is_dot(program)) {
    const DotPiece<T, I> piece(task, operand(0), operand(1));
    for (int64_t index = begin; index < end; ++index) piece.run(index);
    return;
  }
  if (is_elementwise(program)) {
    const bool copies = program.code.empty();
    const ElementwisePiece<T, I> piece{task,
                                       operand(0),
                                       operand(copies ? 0 : 1),
                                       &program.operands[0],
                                       copies ? nullptr : &program.operands[1],
                                       copies ? MessageOp::kOperand : program.code[0].op};
    for (int64_t index = begin; index < end; ++index) piece.run(index);
    return;
  }
  general_pieces(task, begin, end);
}

#define SMEX_INSTANTIATE(T, I) \
  template void sddmm_pieces<T, I>(const SddmmTask<T, I>&, int64_t begin, int64_t end);
SMEX_FOR_EACH_TYPE(SMEX_INSTANTIATE)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels::SMEX_ISA
