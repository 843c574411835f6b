// Compiled once for each instruction set.
#include "kernels/attention/attention.h"

#include "kernels/attention/cpu/attention_rows.h"
#include "kernels/cpu/dot.h"
#include "kernels/message/edge_operand.h"
#include "kernels/message/instantiate.h"
#include "kernels/message/interpreter.h"

namespace smex::kernels::SMEX_ISA {
namespace {

/// Dot products of two operands' heads.
template <typename T, typename I>
class DotScores {
 public:
  using C = accumulate_t<T>;

  explicit DotScores(const FormulaAttentionTask<T, I>& task)
      : task_(task),
        x_(task.rows, task.operands, task.program->operands[0]),
        y_(task.rows, task.operands, task.program->operands[1]),
        inner_(task.program->elements / task.heads) {}

  void put(int64_t row, int64_t begin, int64_t end, C* to) const {
    for (int64_t k = begin; k < end; ++k, to += task_.heads) {
      const Ahead ahead(k, task_.rows.num_edges - 1);
      prefetch_operand(x_, ahead, row);
      prefetch_operand(y_, ahead, row);
      head_dots(x_.at(row, k), y_.at(row, k), task_.heads, inner_, to);
    }
  }

 private:
  const FormulaAttentionTask<T, I>& task_;
  const EdgeOperand<T, I> x_, y_;
  const int64_t inner_;
};

/// Any formula.
template <typename T, typename I>
class FormulaScores {
 public:
  using C = accumulate_t<T>;

  explicit FormulaScores(const FormulaAttentionTask<T, I>& task)
      : task_(task), interpreter_(*task.program, task.operands), sums_(new C[task.heads + 1]) {}
  ~FormulaScores() { delete[] sums_; }
  FormulaScores(const FormulaScores&) = delete;
  FormulaScores& operator=(const FormulaScores&) = delete;

  void put(int64_t row, int64_t begin, int64_t end, C* to) {
    const EdgeRows<I>& rows = task_.rows;
    while (begin < end) {
      const int64_t room = interpreter_.block_edges();
      block_.size = static_cast<int>(end - begin < room ? end - begin : room);
      for (int i = 0; i < block_.size; ++i) {
        block_.rows[i] = row;
        block_.columns[i] = rows.indices[begin + i];
        block_.eids[i] = rows.eids ? int64_t{rows.eids[begin + i]} : begin + i;
      }
      interpreter_.run(block_);
      for (int i = 0; i < block_.size; ++i, to += task_.heads)
        write_message(*task_.program, interpreter_.result() + i * task_.program->elements, to,
                      sums_);
      begin += block_.size;
    }
  }

 private:
  const FormulaAttentionTask<T, I>& task_;
  Interpreter<T> interpreter_;
  EdgeBlock block_;
  C* const sums_;
};

template <typename Scores, typename T, typename I>
void run_pieces(const FormulaAttentionTask<T, I>& task, int64_t begin, int64_t end) {
  with_elements(task.heads, [&](auto heads) {
    Scores scores(task);
    AttentionRows<heads.value, T, I, Scores> rows(task, scores);
    for (int64_t index = begin; index < end; ++index) rows.piece(index);
  });
}

}  // namespace

template <typename T, typename I>
void attention_pieces(const FormulaAttentionTask<T, I>& task, int64_t begin, int64_t end) {
  is_dot(*task.program) ? run_pieces<DotScores<T, I>>(task, begin, end)
                        : run_pieces<FormulaScores<T, I>>(task, begin, end);
}

template <typename T, typename I>
void attention_finish(const AttentionTask<T, I>& task) {
  using C = accumulate_t<T>;
  const int64_t heads = task.heads, width = heads * task.inner, size = width + 2 * heads;
  for_each_shared_row(task.rows, task.num_pieces, [&](int64_t row, int64_t first, int64_t last) {
    const auto part = [&](int64_t p) {
      return task.shared +
             (p * 2 + static_cast<int>(p == first ? RowPart::kTail : RowPart::kHead)) * size;
    };
    for (int64_t h = 0; h < heads; ++h) {
      C largest = part(first)[h], sum = 0;
      for (int64_t p = first; p <= last; ++p) {
        const C other = part(p)[h];
        largest = other > largest || other != other ? other : largest;
      }
      // The first part's place takes the sums.
      C* const total = part(first) + 2 * heads + h * task.inner;
      for (int64_t p = first; p <= last; ++p) {
        const C* const from = part(p);
        const C scale = exp_one(FlatSoftmax<C>::shifted(from[h], largest));
        sum += from[heads + h] * scale;
        for (int64_t d = 0; d < task.inner; ++d) {
          const C value = from[2 * heads + h * task.inner + d] * scale;
          total[d] = p == first ? value : total[d] + value;
        }
      }
      if (task.sum) {
        task.largest[row * heads + h] = largest;
        task.sum[row * heads + h] = sum;
      }
      T* const out = task.out + row * width + h * task.inner;
      for (int64_t d = 0; d < task.inner; ++d) store_one(out + d, total[d] / sum);
    }
  });
}

#define SMEX_INSTANTIATE(T, I)                                                               \
  template void attention_pieces<T, I>(const FormulaAttentionTask<T, I>&, int64_t, int64_t); \
  template void attention_finish<T, I>(const AttentionTask<T, I>&);
SMEX_FOR_EACH_TYPE(SMEX_INSTANTIATE)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels::SMEX_ISA
