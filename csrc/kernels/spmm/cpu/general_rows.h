// Any message, by the interpreter. Included by kernels that are compiled per instruction
// set.
#pragma once

#include "edges/piece.h"
#include "kernels/message/interpreter.h"
#include "kernels/spmm/spmm.h"

namespace smex::kernels::SMEX_ISA {

/// True when `candidate` takes the place of `best`. A NaN does, as in torch.amax; among equals the
/// one that was there stays.
template <typename C>
SMEX_INLINE bool takes_over(bool is_max, C candidate, C best) {
  return (is_max ? !(candidate <= best) : !(candidate >= best)) && best == best;
}

/// The pieces of a task, one at a time.
template <typename T, typename I>
class GeneralPiece {
 public:
  using C = accumulate_t<T>;

  explicit GeneralPiece(const SpmmTask<T, I>& task)
      : task_(task),
        interpreter_(*task.program, task.operands),
        n_(task.program->out_elements),
        best_(new C[n_ + 1]),
        place_(new int64_t[n_ + 1]) {}
  ~GeneralPiece() {
    delete[] best_;
    delete[] place_;
  }

  void run(int64_t index) {
    const Piece<I> piece(task_.rows, index, task_.num_pieces);
    // The walk over rows runs ahead of the messages by a block; both see the same positions.
    message_ = message_end_ = piece.begin.edge;
    last_edge_ = piece.end.edge;
    block_row_ = piece.begin.row;
    piece.for_each_row([&](int64_t row, int64_t begin, int64_t end, RowPart part) {
      reset(begin == end);
      for (int64_t k = begin; k < end; ++k) {
        if (k == message_end_) next_block(k);
        combine(interpreter_.result() + (k - message_) * task_.program->elements, k, k == begin);
      }
      write(index, row, begin, end, part);
    });
  }

 private:
  void next_block(int64_t first) {
    EdgeBlock& block = block_;
    const int64_t room = last_edge_ - first, most = interpreter_.block_edges();
    block.size = static_cast<int>(room < most ? room : most);
    for (int i = 0; i < block.size; ++i) {
      const int64_t k = first + i;
      while (k >= int64_t{task_.rows.indptr[block_row_ + 1]}) ++block_row_;
      block.rows[i] = block_row_;
      block.columns[i] = task_.rows.indices[k];
      block.eids[i] = task_.rows.eids ? int64_t{task_.rows.eids[k]} : k;
    }
    interpreter_.run(block);
    message_ = first;
    message_end_ = first + block.size;
  }

  void reset(bool is_empty) {
    const bool sums = task_.reduce == Reduce::kSum || task_.reduce == Reduce::kMean;
    const C start = sums || !is_empty ? C(0) : load_one(&task_.empty);
    for (int64_t i = 0; i < n_; ++i) best_[i] = start;
    for (int64_t i = 0; i < n_; ++i) place_[i] = -1;
  }

  void combine(const C* message, int64_t k, bool is_first) {
    const int64_t pick = task_.program->pick;
    switch (task_.reduce) {
      case Reduce::kSum:
      case Reduce::kMean:
        if (pick == 1) {
          for (int64_t i = 0; i < n_; ++i) best_[i] += message[i];
        } else {
          for (int64_t i = 0; i < n_; ++i) best_[i] += message[i * pick];
        }
        return;
      case Reduce::kMax:
      case Reduce::kMin:
        for (int64_t i = 0; i < n_; ++i) {
          const C value = message[i * pick];
          if (is_first || takes_over(task_.reduce == Reduce::kMax, value, best_[i])) {
            best_[i] = value;
            place_[i] = k;
          }
        }
    }
  }

  void write(int64_t index, int64_t row, int64_t begin, int64_t end, RowPart part) {
    const int64_t at =
        part == RowPart::kWhole ? row * n_ : (index * 2 + static_cast<int>(part)) * n_;
    if (task_.winner) {
      I* const to = (part == RowPart::kWhole ? task_.winner : task_.shared_winner) + at;
      for (int64_t i = 0; i < n_; ++i) to[i] = static_cast<I>(place_[i]);
    }
    if (part != RowPart::kWhole) {
      for (int64_t i = 0; i < n_; ++i) task_.shared[at + i] = best_[i];
      return;
    }
    const bool divides = task_.reduce == Reduce::kMean && end > begin;
    const C degree = divides ? static_cast<C>(end - begin) : C(1);
    for (int64_t i = 0; i < n_; ++i) store_one(task_.out + at + i, best_[i] / degree);
  }

  const SpmmTask<T, I>& task_;
  Interpreter<T> interpreter_;
  EdgeBlock block_;
  int64_t n_;
  C* best_;
  int64_t* place_;
  int64_t message_ = 0, message_end_ = 0, last_edge_ = 0, block_row_ = 0;
};

}  // namespace smex::kernels::SMEX_ISA
