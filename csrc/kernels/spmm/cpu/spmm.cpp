// Compiled once for each instruction set.
#include "kernels/spmm/spmm.h"

#include "kernels/message/instantiate.h"
#include "kernels/spmm/cpu/general_rows.h"
#include "kernels/spmm/cpu/special.h"

namespace smex::kernels::SMEX_ISA {
namespace {

/// True when a loop of its own has done the piece.
template <typename T, typename I>
bool run_special(const SpmmTask<T, I>& task, int64_t index) {
  const bool sums = task.reduce == Reduce::kSum || task.reduce == Reduce::kMean;
  if (!is_product(*task.program)) return false;
  if (sums) return run_sum(task, index);
  return task.program->code.empty() && run_extremum(task, index);
}

}  // namespace

template <typename T, typename I>
void spmm_pieces(const SpmmTask<T, I>& task, int64_t begin, int64_t end) {
  if (task.program->out_elements == 0) return;
  int64_t index = begin;
  while (index < end && run_special(task, index)) ++index;
  if (index == end) return;
  GeneralPiece<T, I> general(task);
  for (; index < end; ++index) general.run(index);
}

template <typename T, typename I>
void spmm_finish(const SpmmTask<T, I>& task) {
  using C = accumulate_t<T>;
  const int64_t n = task.program->out_elements;
  const bool sums = task.reduce == Reduce::kSum || task.reduce == Reduce::kMean;
  for_each_shared_row(task.rows, task.num_pieces, [&](int64_t row, int64_t first, int64_t last) {
    const int64_t stop = task.rows.indptr[row + 1];
    const C degree = static_cast<C>(stop - task.rows.indptr[row]);
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = (first * 2 + static_cast<int>(RowPart::kTail)) * n + i;
      C best = task.shared[at];
      I place = task.winner ? task.shared_winner[at] : I(0);
      for (int64_t p = first + 1; p <= last; ++p) {
        at = (p * 2 + static_cast<int>(RowPart::kHead)) * n + i;
        const C value = task.shared[at];
        if (sums) {
          best += value;
          continue;
        }
        if (!takes_over(task.reduce == Reduce::kMax, value, best)) continue;
        best = value;
        if (task.winner) place = task.shared_winner[at];
      }
      if (task.reduce == Reduce::kMean) best /= degree;
      store_one(task.out + row * n + i, best);
      if (task.winner) task.winner[row * n + i] = place;
    }
  });
}

#define SMEX_INSTANTIATE(T, I)                                                        \
  template void spmm_pieces<T, I>(const SpmmTask<T, I>&, int64_t begin, int64_t end); \
  template void spmm_finish<T, I>(const SpmmTask<T, I>&);
SMEX_FOR_EACH_TYPE(SMEX_INSTANTIATE)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels::SMEX_ISA
