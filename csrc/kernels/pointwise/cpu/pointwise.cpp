// Compiled once for each instruction set.
#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/cpu/dot.h"
#include "kernels/message/interpreter.h"
#include "kernels/pointwise/program.h"

namespace smex::kernels::SMEX_ISA {
namespace {

// So many numbers at once: with a dozen slots the first-level cache holds them.
constexpr int64_t kBlock = 512;

/// `n` numbers, `stride` bytes apart.
template <typename T>
void read_numbers(accumulate_t<T>* to, const char* from, int64_t stride, int64_t n) {
  if (stride == sizeof(T)) {
    load_row(to, reinterpret_cast<const T*>(from), n, Broadcast{});
  } else if (stride == 0) {
    std::fill_n(to, n, load_one(reinterpret_cast<const T*>(from)));
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = load_one(reinterpret_cast<const T*>(from + i * stride));
  }
}

/// The same of bool.
template <typename C>
void read_bools(C* to, const char* from, int64_t stride, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride] ? C(1) : C(0);
}

template <typename C>
void write_bools(char* to, const C* from, int64_t stride, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i * stride] = from[i] != C(0);
}

template <typename T>
void write_numbers(char* to, const accumulate_t<T>* from, int64_t stride, int64_t n) {
  using C = accumulate_t<T>;
  int64_t i = 0;
  if (stride == sizeof(T)) {
    constexpr int W = kLanes<C>;
    T* const row = reinterpret_cast<T*>(to);
    for (; i + W <= n; i += W) store<W>(row + i, load<C, W>(from + i));
  }
  for (; i < n; ++i) narrow(from[i], *reinterpret_cast<T*>(to + i * stride));
}

/// `out = f(a, number)` for each row of `columns` numbers and its number.
template <typename C, typename Function>
SMEX_INLINE void map_rows(C* out, const C* a, const C* numbers, int64_t columns, int64_t rows,
                          const Function& f) {
  for (int64_t r = 0; r < rows; ++r, out += columns, a += columns) {
    const C number = numbers[r];
    map_unary(out, a, columns, [&f, number](C x) { return f(x, number); });
  }
}

/// An operation of two arguments, of which one is a number for each row: `a` or `b` is null.
template <typename C>
void run_with_numbers(const Instruction& step, C* out, const C* a, const C* b, const C* numbers,
                      int64_t columns, int64_t rows) {
  switch (step.op) {
#define SMEX_NUMBER_binary(id, result)                                                     \
  case MessageOp::id:                                                                      \
    return a ? map_rows(out, a, numbers, columns, rows,                                    \
                        []([[maybe_unused]] C x, [[maybe_unused]] C y) { return result; }) \
             : map_rows(out, b, numbers, columns, rows,                                    \
                        []([[maybe_unused]] C y, [[maybe_unused]] C x) { return result; });
#define SMEX_NUMBER_lanes(id, result)
#define SMEX_NUMBER_max(id, result)
#define SMEX_NUMBER_number(id, result)
#define SMEX_NUMBER_sum(id, result)
#define SMEX_NUMBER_unary(id, result)
#define SMEX_OP(id, name, form, result, to_a, to_b, torch) SMEX_NUMBER_##form(id, result)
#include "kernels/message/operations.def"
#undef SMEX_NUMBER_binary
#undef SMEX_NUMBER_lanes
#undef SMEX_NUMBER_max
#undef SMEX_NUMBER_number
#undef SMEX_NUMBER_sum
#undef SMEX_NUMBER_unary
    default:
      return run_instruction<C>(step, out, a, b, rows * columns, int64_t(1));
  }
}

/// The sum, or the largest, of `n` numbers; of two arguments the sum of their products.
template <typename C>
C reduced(const Instruction& step, const C* a, const C* b, int64_t n) {
  if (step.op == MessageOp::kMaxLast) return max_of_group(a, n);
  return b ? dot<kLanes<C>>(a, b, n) : sum_of_group(a, n);
}

/// A program that runs on blocks of a few rows, or of a part of one. An operand that needs no
/// conversion is read, and a result written, where it lies. What is the same along a row is one
/// number for each row of the block, where that is less work.
template <typename T>
class Blocks {
 public:
  using C = accumulate_t<T>;

  Blocks(const PointwiseProgram& program, const std::vector<bool>& bools, char* const* data,
         const int64_t* strides, int64_t columns, int64_t rows)
      : program_(program),
        columns_(columns),
        rows_(rows),
        block_columns_(program.by_rows ? columns : std::min(kBlock, columns)),
        block_rows_(rows_in_block(program, strides)),
        has_numbers_(program.by_rows || block_rows_ == 1),
        memory_(new C[(block_columns_ + 1) * block_rows_ * program.num_slots]),
        slots_(program.num_slots),
        is_number_(program.num_slots) {
    const size_t num_outs = program.outs.size(), count = num_outs + program.num_operands;
    for (size_t k = 0; k < count; ++k)
      tensors_.push_back({data[k], strides[k], strides[count + k], bools[k]});
    for (int slot = 0; slot < program.num_slots; ++slot) slots_[slot] = own(slot);
    for (int k = 0; k < program.num_operands; ++k)
      is_number_[k] = has_numbers_ && columns > 1 && tensors_[num_outs + k].column_stride == 0;
    for (size_t k = num_outs; k < count; ++k) tensors_[k].in_place = is_dense(tensors_[k]);
    for (size_t k = 0; k < num_outs; ++k) tensors_[k].in_place = may_lie_in_place(k);
  }

  void run() {
    for (int64_t row = 0; row < rows_; row += block_rows_) {
      for (int64_t column = 0; column < columns_; column += block_columns_) run_block(row, column);
    }
  }

 private:
  struct Tensor {
    char* data = nullptr;
    int64_t column_stride = 0, row_stride = 0;  ///< in bytes
    bool is_bool = false;
    bool in_place = false;
    int64_t loaded_rows = 0;  ///< of one that repeats a row: so many are in its slot

    char* at(int64_t row, int64_t column) const {
      return data + row * row_stride + column * column_stride;
    }
  };

  /// Several rows, where they are short. Of rows that are not, one, if something repeats along it.
  int64_t rows_in_block(const PointwiseProgram& program, const int64_t* strides) const {
    constexpr int64_t kLongRow = 128;
    const size_t num_outs = program.outs.size();
    const bool repeats =
        std::count(strides + num_outs, strides + num_outs + program.num_operands, int64_t{0}) > 0;
    if (repeats && !program.by_rows && columns_ >= kLongRow) return 1;
    return std::min(rows_, std::max<int64_t>(1, kBlock / columns_));
  }

  void run_step(const Instruction& step, int64_t rows, int64_t columns) {
    const bool is_a = step.a >= 0 && is_number_[step.a], is_b = step.b >= 0 && is_number_[step.b];
    const bool is_wide = (step.a >= 0 && !is_a) || (step.b >= 0 && !is_b);
    const bool reduces = step.op == MessageOp::kSumLast || step.op == MessageOp::kMaxLast;
    if (reduces) {
      reduce(step, whole(step.a, rows, columns), whole(step.b, rows, columns), rows, columns);
      is_number_[step.out] = true;
      return;
    }
    is_number_[step.out] = has_numbers_ && !is_wide;
    if (is_number_[step.out]) {
      return run_whole(step, numbers(step.out), step.a < 0 ? nullptr : numbers(step.a),
                       step.b < 0 ? nullptr : numbers(step.b), rows);
    }
    C* const out = slots_[step.out];
    const C* const a = step.a < 0 || is_a ? nullptr : slots_[step.a];
    const C* const b = step.b < 0 || is_b ? nullptr : slots_[step.b];
    if (!is_a && !is_b) return run_whole(step, out, a, b, rows * columns);
    run_with_numbers<C>(step, out, a, b, numbers(is_a ? step.a : step.b), columns, rows);
  }

  static void run_whole(const Instruction& step, C* out, const C* a, const C* b, int64_t n) {
    if (a && b) return run_instruction<C>(step, out, a, b, n, int64_t(1));
    const auto value = static_cast<C>(step.value);
    run_with_numbers<C>(step, out, a, b, &value, n, 1);
  }

  void reduce(const Instruction& step, const C* a, const C* b, int64_t rows, int64_t columns) {
    C* const out = numbers(step.out);
    for (int64_t r = 0; r < rows; ++r) {
      out[r] = reduced<C>(step, a, b, columns);
      a += columns;
      if (b) b += columns;
    }
  }

  /// A slot of which each row is there as a whole; null for none.
  const C* whole(int slot, int64_t rows, int64_t columns) {
    if (slot < 0 || !is_number_[slot]) return slot < 0 ? nullptr : slots_[slot];
    fill(own(slot), slot, rows, columns);
    return own(slot);
  }

  void fill(C* to, int slot, int64_t rows, int64_t columns) const {
    for (int64_t r = 0; r < rows; ++r) std::fill_n(to + r * columns, columns, numbers(slot)[r]);
  }

  C* own(int slot) const { return memory_.get() + slot * block_columns_ * block_rows_; }

  C* numbers(int slot) const {
    return memory_.get() + (block_columns_ * program_.num_slots + slot) * block_rows_;
  }

  /// Whether a block of it is one piece of memory that holds numbers as they are computed with.
  bool is_dense(const Tensor& x) const {
    return std::is_same_v<T, C> && !x.is_bool && x.column_stride == sizeof(T) &&
           (block_rows_ == 1 || x.row_stride == columns_ * static_cast<int64_t>(sizeof(T)));
  }

  /// Whether the slot of a result can be the result itself.
  bool may_lie_in_place(size_t k) const {
    const auto& outs = program_.outs;
    const bool is_first = std::find(outs.begin(), outs.begin() + k, outs[k]) == outs.begin() + k;
    bool apart = outs[k] >= program_.num_operands && is_first && is_dense(tensors_[k]);
    for (size_t i = outs.size(); i < tensors_.size(); ++i) {
      apart &= tensors_[i].data != tensors_[k].data;
    }
    return apart;
  }

  void run_block(int64_t row, int64_t column) {
    const size_t num_outs = program_.outs.size();
    const int64_t rows = std::min(block_rows_, rows_ - row);
    const int64_t columns = std::min(block_columns_, columns_ - column);
    for (int k = 0; k < program_.num_operands; ++k) {
      load(tensors_[num_outs + k], k, row, rows, column, columns);
    }
    for (size_t k = 0; k < num_outs; ++k) {
      const Tensor& out = tensors_[k];
      if (out.in_place) slots_[program_.outs[k]] = reinterpret_cast<C*>(out.at(row, column));
    }
    for (const Instruction& step : program_.code) run_step(step, rows, columns);
    // Last, since results may lie where operands were read.
    for (size_t k = 0; k < num_outs; ++k) {
      const int slot = program_.outs[k];
      const Tensor& out = tensors_[k];
      const bool is_column = out.column_stride == 0 && columns > 1;
      if (!is_number_[slot]) {
        if (!out.in_place)
          write(out, row, rows, column, is_column ? 1 : columns, slots_[slot], columns);
      } else if (is_column) {
        write(out, row, rows, column, 1, numbers(slot), 1);
      } else {
        fill(slots_[slot], slot, rows, columns);
        if (!out.in_place) write(out, row, rows, column, columns, slots_[slot], columns);
      }
    }
  }

  /// Rows that are `step` numbers apart.
  static void write(const Tensor& out, int64_t row, int64_t rows, int64_t column, int64_t columns,
                    const C* from, int64_t step) {
    for (int64_t r = 0; r < rows; ++r, from += step) {
      char* const to = out.at(row + r, column);
      out.is_bool ? write_bools(to, from, out.column_stride, columns)
                  : write_numbers<T>(to, from, out.column_stride, columns);
    }
  }

  static void read(C* to, const Tensor& x, int64_t row, int64_t column, int64_t n) {
    const char* const from = x.at(row, column);
    x.is_bool ? read_bools(to, from, x.column_stride, n)
              : read_numbers<T>(to, from, x.column_stride, n);
  }

  void load(Tensor& x, int slot, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    if (x.in_place) {
      slots_[slot] = reinterpret_cast<C*>(x.at(row, column));
      return;
    }
    const bool repeats = x.row_stride == 0 && (columns_ == block_columns_ || x.column_stride == 0);
    if (repeats && x.loaded_rows >= rows) return;
    const int64_t n = is_number_[slot] ? 1 : columns;
    C* const to = is_number_[slot] ? numbers(slot) : own(slot);
    for (int64_t r = 0; r < rows; ++r) read(to + r * n, x, row + r, column, n);
    x.loaded_rows = rows;
  }

  const PointwiseProgram& program_;
  const int64_t columns_, rows_, block_columns_, block_rows_;
  const bool has_numbers_;
  const std::unique_ptr<C[]> memory_;  ///< rows of all slots, and behind them numbers
  std::vector<C*> slots_;
  std::vector<bool> is_number_;  ///< by slot whether it holds a number for each row
  std::vector<Tensor> tensors_;  ///< results, then operands
};

}  // namespace

template <typename T>
void run_pointwise(const PointwiseProgram& program, const std::vector<bool>& bools,
                   char* const* data, const int64_t* strides, int64_t columns, int64_t rows) {
  Blocks<T>(program, bools, data, strides, columns, rows).run();
}

#define SMEX_INSTANTIATE(T)                                                                       \
  template void run_pointwise<T>(const PointwiseProgram&, const std::vector<bool>&, char* const*, \
                                 const int64_t*, int64_t, int64_t);
SMEX_INSTANTIATE(float)
SMEX_INSTANTIATE(double)
SMEX_INSTANTIATE(BFloat16)
SMEX_INSTANTIATE(Half)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels::SMEX_ISA
