#include "kernels/pointwise/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>

#include "kernels/message/operation_table.h"
#include "kernels/numbers.h"
#include "run.h"

namespace smex::kernels {
namespace {

std::string error_of(const std::string& text, int num_operands = 2) {
  try {
    parse_pointwise(text, num_operands);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

std::string operations_of(const PointwiseProgram& program) {
  std::string ops;
  for (const Instruction& step : program.code) ops += operation_of(step.op).name + std::string(" ");
  return ops;
}

TEST(PointwiseProgram, ReadsCalls) {
  const PointwiseProgram program = parse_pointwise("sigmoid(x0); 0.5; x2 * x3 > x4 x0", 2);
  ASSERT_EQ(program.code.size(), 3u);
  EXPECT_EQ(program.code[0].op, MessageOp::kSigmoid);
  EXPECT_EQ(program.code[1].value, 0.5);
  EXPECT_EQ(program.code[2].op, MessageOp::kMul);
  EXPECT_EQ(program.outs.size(), 2u);
  EXPECT_EQ(program.outs[1], 0);
}

TEST(PointwiseProgram, ValuesThatAreDoneGiveTheirSlots) {
  const PointwiseProgram chain = parse_pointwise("exp(x0); exp(x1); exp(x2); exp(x3) > x4", 1);
  EXPECT_EQ(chain.num_slots, 2);
  const PointwiseProgram kept =
      parse_pointwise("exp(x0); exp(x1); exp(x2); exp(x3) > x1 x2 x3 x4", 1);
  EXPECT_EQ(kept.num_slots, 5);
  const PointwiseProgram twice = parse_pointwise("exp(x0); x1 * x1; exp(x2); x2 + x3 > x4", 1);
  EXPECT_NE(twice.code[2].out, twice.code[3].b == twice.code[2].out ? twice.code[3].a : -1);
}

// A formula may hold several calls; what is written twice is computed once.
TEST(PointwiseProgram, ReadsFormulas) {
  const PointwiseProgram program =
      parse_pointwise("1 - sigmoid(x0); x2 * sigmoid(x0) + x1 * 1 > x3 x1", 2);
  EXPECT_EQ(operations_of(program), "sigmoid sub mul add ");
  EXPECT_EQ(program.outs[1], 1);
  EXPECT_EQ(program.code[1].a, -1);  // the number 1
  EXPECT_EQ(program.code[1].value, 1);
}

TEST(PointwiseProgram, TakesNumbersAsArguments) {
  const PointwiseProgram program = parse_pointwise("leaky_relu(x0, -0.5); pow(x1, 3) > x2", 1);
  ASSERT_EQ(program.code.size(), 2u);
  EXPECT_EQ(program.code[0].value, -0.5);
  EXPECT_EQ(program.code[0].b, -1);
  EXPECT_EQ(program.code[1].value, 3);
}

TEST(PointwiseProgram, TellsWhatNeedsWholeRows) {
  EXPECT_FALSE(parse_pointwise("exp(x0) > x1", 1).by_rows);
  EXPECT_TRUE(parse_pointwise("exp(x0) > x1:1", 1).by_rows);
  EXPECT_TRUE(parse_pointwise("max_last(x0); x0 - x1 > x2", 1).by_rows);
  EXPECT_FALSE(parse_pointwise("sum_last(x0); exp(x0) > x2", 1).by_rows);  // is not needed
  const PointwiseProgram program = parse_pointwise("sum_last(x0); less(x1, 0) > x1:1 x2:1? x1", 1);
  EXPECT_EQ(program.columns, (std::vector<bool>{true, true, false}));
  EXPECT_EQ(program.conditions, (std::vector<bool>{false, true, false}));
}

// What is added up is no value by itself, if it is a product and nothing else reads it.
TEST(PointwiseProgram, AddsUpProducts) {
  const PointwiseProgram dot = parse_pointwise("x0 * x1; sum_last(x2) > x3", 2);
  EXPECT_EQ(operations_of(dot), "sum_last ");
  EXPECT_EQ(dot.code[0].a, 0);
  EXPECT_EQ(dot.code[0].b, 1);
  EXPECT_EQ(operations_of(parse_pointwise("sum_last(pow(x0, 2)) > x1", 1)), "sum_last ");
  EXPECT_EQ(operations_of(parse_pointwise("dot(x0, x1) > x2", 2)), "sum_last ");
  EXPECT_EQ(operations_of(parse_pointwise("x0 * x1; sum_last(x2) > x3 x2", 2)), "mul sum_last ");
  EXPECT_EQ(operations_of(parse_pointwise("sum_last(x0 * 3) > x1", 1)), "mul sum_last ");
  EXPECT_EQ(operations_of(parse_pointwise("sum_last(pow(x0, 3)) > x1", 1)), "pow sum_last ");
}

TEST(PointwiseProgram, SaysWhatIsWrong) {
  struct Case {
    const char* text;
    const char* error;
  };
  constexpr Case kCases[] = {
      {"exp(x0)", "expected ';' and a formula, or '>' and the results at position 7, found \"\""},
      {"exp(x0) >", "expected an operand, a number or a function at position 9, found \"\""},
      {"exp(x0) > 2", "expected the results, such as x2 x3 at position 11, found \"\""},
      {"frob(x0) > x2", "expected a known function at position 0, found \"frob(x0) > x\""},
      {"exp(x0, x1) > x2", "expected ')' at position 6, found \", x1) > x2\""},
      {"exp(u0) > x2", "expected a value such as x0 at position 4, found \"u0) > x2\""},
      {"pow(x0, x1) > x2",
       "expected a number as the second argument at position 0, found \"pow(x0, x1) \""},
      {"x0 + 1 > x2:2", "expected '1' at position 12, found \"2\""},
      {"x0 + 1 > x2? :1",
       "expected an operand, a number or a function at position 13, found \":1\""},
      {"exp(x2) > x2", "expected the number of a value below 2, found \"2\""},
      {"exp(x0) > x1? ?",
       "expected an operand, a number or a function at position 14, found \"?\""},
      {"exp(x0) > x3", "expected the number of a value below 3, found \"3\""},
  };
  for (const Case& sample : kCases)
    EXPECT_EQ(error_of(sample.text),
              "program \"" + std::string(sample.text) + "\": " + sample.error);
}

/// Where tensors lie, results first, with strides in elements: of columns, then of rows.
template <typename T>
struct Tensors {
  std::vector<char*> data;
  std::vector<int64_t> columns, rows;
  std::vector<bool> bools;

  template <typename Element>
  void add(const Element* tensor, int64_t column_stride, int64_t row_stride) {
    data.push_back(reinterpret_cast<char*>(const_cast<Element*>(tensor)));
    columns.push_back(column_stride * static_cast<int64_t>(sizeof(Element)));
    rows.push_back(row_stride * static_cast<int64_t>(sizeof(Element)));
    bools.push_back(std::is_same_v<Element, bool>);
  }

  void run(const PointwiseProgram& program, int64_t num_columns, int64_t num_rows) const {
    std::vector<int64_t> strides = columns;
    strides.insert(strides.end(), rows.begin(), rows.end());
    SMEX_PICK(run_pointwise<T>)(program, bools, data.data(), strides.data(), num_columns, num_rows);
  }
};

TEST(PointwiseKernel, OutsMayLieWhereOperandsAre) {
  const PointwiseProgram program = parse_pointwise("x0 + x1; x2 * x0 > x2 x3", 2);
  constexpr int64_t kRows = 3, kWidth = 1100;  // several blocks, and a part of one
  std::vector<double> a(kRows * kWidth), b(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = 0.25 * static_cast<double>(i);
    b[i] = 1 - a[i] / 3;
  }
  const std::vector<double> old_a = a, old_b = b;
  Tensors<double> tensors;
  for (int i = 0; i < 2; ++i) {
    tensors.add(a.data(), 1, kWidth);
    tensors.add(b.data(), 1, kWidth);
  }
  tensors.run(program, kWidth, kRows);
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_DOUBLE_EQ(a[i], old_a[i] + old_b[i]);
    ASSERT_DOUBLE_EQ(b[i], (old_a[i] + old_b[i]) * old_a[i]);
  }
}

// Either argument of every operation of two may be a number.
TEST(PointwiseKernel, TakesNumbersOnEitherSide) {
  const std::vector<double> x = {-2, -0., 0., 0.5, 1, 3};
  for (const char* const call : {"# + %", "# - %", "# * %", "# / %", "equal(#, %)", "greater(#, %)",
                                 "less(#, %)", "less_equal(#, %)", "maximum(#, %)", "minimum(#, %)",
                                 "part(#, %)", "select(#, %)", "weigh(#, %)"}) {
    for (const bool is_first : {true, false}) {
      const auto text = [&](const std::string& a, const std::string& b) {
        std::string made = call;
        made.replace(made.find('#'), 1, a);
        made.replace(made.find('%'), 1, b);
        return made;
      };
      const std::string number = is_first ? text("0.5", "x0") : text("x0", "0.5");
      const std::string value = is_first ? text("x1", "x0") : text("x0", "x1");
      EXPECT_EQ(run_pointwise_text(number + " > x1", {&x})[0],
                run_pointwise_text("0.5; " + value + " > x2", {&x})[0])
          << number;
    }
  }
}

TEST(PointwiseKernel, RepeatsRowsAndColumns) {
  const PointwiseProgram program = parse_pointwise("x0 * x1; x3 + x2 > x4", 3);
  const std::vector<float> row = {1, 2, 3}, column = {10, 20}, whole = {.5, .25, 0, 1, 2, 3};
  std::vector<float> found(6);
  Tensors<float> tensors;
  tensors.add(found.data(), 1, 3);
  tensors.add(row.data(), 1, 0);
  tensors.add(column.data(), 0, 1);
  tensors.add(whole.data(), 1, 3);
  tensors.run(program, 3, 2);
  EXPECT_EQ(found, (std::vector<float>{10.5, 20.25, 30, 21, 42, 63}));
}

// What repeats along a row is a number where rows are long, unless another call wants it as a row.
TEST(PointwiseKernel, ReadsOneNumberForARow) {
  constexpr int64_t kRows = 3;
  for (const int64_t width : {1, 7, 127, 128, 512, 513, 1300}) {
    std::vector<float> whole(kRows * width), found(whole.size()), turned(whole.size());
    for (size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<float>(i % 97) - 40;
    const std::vector<float> column = {2, -3, 0.5}, other = {1, 2, 4}, one = {8};
    const PointwiseProgram program =
        parse_pointwise("x0 * x1 - x3; exp(x2); x4 / x2 + x5 * x1 > x6 x1", 4);
    Tensors<float> tensors;
    tensors.add(found.data(), 1, width);
    tensors.add(turned.data(), kRows, 1);
    tensors.add(whole.data(), 1, width);
    tensors.add(column.data(), 0, 1);
    tensors.add(other.data(), 0, 1);
    tensors.add(one.data(), 0, 0);
    tensors.run(program, width, kRows);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < width; ++c) {
        const float x = whole[r * width + c];
        const float wanted = (x * column[r] - one[0]) / other[r] + std::exp(other[r]) * column[r];
        ASSERT_NEAR(found[r * width + c], wanted, 1e-5f * (1 + std::abs(wanted))) << width;
        ASSERT_EQ(turned[c * kRows + r], column[r]);
      }
    }
  }
}

/// Rows of numbers, and what is known of each.
struct Rows {
  int64_t width;
  std::vector<double> numbers;

  explicit Rows(int64_t rows, int64_t width) : width(width), numbers(rows * width) {
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = std::sin(0.7 * static_cast<double>(i)) + static_cast<double>(1 + i % 3);
  }
  const double* row(int64_t r) const { return numbers.data() + r * width; }
  double sum(int64_t r) const { return std::accumulate(row(r), row(r) + width, 0.0); }
  double max(int64_t r) const { return *std::max_element(row(r), row(r) + width); }
  double squares(int64_t r) const {
    return std::inner_product(row(r), row(r) + width, row(r), 0.0);
  }
};

// Blocks hold several short rows, the last one fewer, or one that is longer than a block.
TEST(PointwiseKernel, AddsUpRows) {
  const PointwiseProgram program = parse_pointwise(
      "sum_last(x0 * x0); sqrt(x2); x0 / x3 * x1 - max_last(x0); 2; less(x2, 1) > x4 x3:1 x2 x5:1 "
      "x6:1?",
      2);
  for (const int64_t width : {1, 2, 3, 7, 16, 64, 100, 511, 512, 513, 2000}) {
    for (const int64_t rows : {1, 5, 300}) {
      const Rows x(rows, width);
      const std::vector<double> weight(width, 0.5);
      std::vector<double> found(rows * width), roots(rows), squares(found.size()), twos(rows);
      const auto less = std::make_unique<bool[]>(rows);
      Tensors<double> tensors;
      const int64_t repeated = width == 1 ? 1 : 0;
      tensors.add(found.data(), 1, width);
      tensors.add(roots.data(), repeated, 1);
      tensors.add(squares.data(), 1, width);
      tensors.add(twos.data(), repeated, 1);
      tensors.add(less.get(), repeated, 1);
      tensors.add(x.numbers.data(), 1, width);
      tensors.add(weight.data(), 1, 0);
      tensors.run(program, width, rows);
      for (int64_t r = 0; r < rows; ++r) {
        const double root = std::sqrt(x.squares(r));
        ASSERT_NEAR(roots[r], root, 1e-12 * root);
        ASSERT_EQ(twos[r], 2);
        ASSERT_EQ(less[r], x.squares(r) < 1);
        for (int64_t c = 0; c < width; ++c) {
          const int64_t i = r * width + c;
          ASSERT_NEAR(found[i], x.numbers[i] / root * 0.5 - x.max(r), 1e-12) << width << " " << i;
          ASSERT_NEAR(squares[i], root * root, 1e-12 * root * root);
        }
      }
    }
  }
}

// What repeats along a row is added up as often as it is there.
TEST(PointwiseKernel, AddsUpWhatRepeats) {
  const PointwiseProgram program = parse_pointwise(
      "sum_last(x0); max_last(x0); sum_last(x0 * x0); sum_last(x0 * x1) > x2 x3 x4 x5", 2);
  constexpr int64_t kRows = 3, kWidth = 40;
  const std::vector<float> column = {2, -3, 0.5};
  const std::vector<float> ones(kRows * kWidth, 1);
  std::vector<std::vector<float>> found(4, std::vector<float>(ones.size()));
  Tensors<float> tensors;
  for (auto& out : found) tensors.add(out.data(), 1, kWidth);
  tensors.add(column.data(), 0, 1);
  tensors.add(ones.data(), 1, kWidth);
  tensors.run(program, kWidth, kRows);
  for (size_t i = 0; i < ones.size(); ++i) {
    const float x = column[i / kWidth];
    ASSERT_EQ(found[0][i], kWidth * x);
    ASSERT_EQ(found[1][i], x);
    ASSERT_EQ(found[2][i], kWidth * x * x);
    ASSERT_EQ(found[3][i], kWidth * x);
  }
}

TEST(PointwiseKernel, TheLargestOfANaNIsANaN) {
  const PointwiseProgram program = parse_pointwise("max_last(x0) > x1", 1);
  for (const int64_t width : {1, 5, 16, 40, 700}) {
    for (int64_t at = 0; at < width; at += 1 + width / 9) {
      std::vector<float> x(width, -INFINITY), found(width);
      Tensors<float> tensors;
      tensors.add(found.data(), 1, width);
      tensors.add(x.data(), 1, width);
      tensors.run(program, width, 1);
      ASSERT_EQ(found[0], -INFINITY);
      x[at] = NAN;
      tensors.run(program, width, 1);
      ASSERT_TRUE(std::isnan(found[0]) && std::isnan(found[width - 1])) << width << " " << at;
    }
  }
}

// Results and operands that are turned round, a value that results twice, and an operand that does.
TEST(PointwiseKernel, ReadsAndWritesAnyStrides) {
  const PointwiseProgram program = parse_pointwise("x0 - x1; exp(x2) > x2 x2 x0 x3", 2);
  constexpr int64_t kRows = 5, kWidth = 700;
  std::vector<float> a(kRows * kWidth), b(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = 1e-3f * static_cast<float>(i);
    b[i] = 1 - a[i] / 3;
  }
  std::vector<std::vector<float>> found(4, std::vector<float>(a.size()));
  Tensors<float> tensors;
  for (int k = 0; k < 4; ++k) {
    const bool turned = k % 2 == 1;
    tensors.add(found[k].data(), turned ? kRows : 1, turned ? 1 : kWidth);
  }
  tensors.add(a.data(), 1, kWidth);
  tensors.add(b.data(), kRows, 1);
  tensors.run(program, kWidth, kRows);
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kWidth; ++c) {
      const int64_t dense = r * kWidth + c, turned = c * kRows + r;
      const float difference = a[dense] - b[turned];
      ASSERT_EQ(found[0][dense], difference);
      ASSERT_EQ(found[1][turned], difference);
      ASSERT_EQ(found[2][dense], a[dense]);
      ASSERT_NEAR(found[3][turned], std::exp(difference), 1e-5f * std::exp(difference));
    }
  }
}

// Bool operands are 0 and 1, a bool result is where the number is not 0; both along rows of any
// length and at any strides, and one in the memory of the other.
template <typename T>
void check_bools(int64_t width, bool turned) {
  constexpr int64_t kRows = 3;
  const PointwiseProgram program = parse_pointwise(
      "less(x0, 1); maximum(x4, x1); part(x5, x0) + part(1 - x5, x2); x6 * x3 > x5? x7 x4? x0?", 4);
  EXPECT_EQ(program.conditions, (std::vector<bool>{true, false, true, true}));
  const int64_t across = turned ? kRows : 1, down = turned ? 1 : width;
  std::vector<T> whole(kRows * width), product(whole.size());
  for (size_t i = 0; i < whole.size(); ++i)
    narrow(static_cast<accumulate_t<T>>(i % 5) - 2, whole[i]);
  narrow(accumulate_t<T>(NAN), whole[0]);
  const T other = whole[1];
  const auto bools = std::make_unique<bool[]>(whole.size());
  const auto mask = std::make_unique<bool[]>(whole.size()),
             again = std::make_unique<bool[]>(whole.size());
  const bool column[kRows] = {true, false, true};
  for (size_t i = 0; i < whole.size(); ++i) mask[i] = i % 3 == 0;
  const std::vector<bool> old(mask.get(), mask.get() + whole.size());
  Tensors<T> tensors;
  tensors.add(mask.get(), across, down);  // where the operand lies
  tensors.add(product.data(), across, down);
  tensors.add(bools.get(), across, down);
  tensors.add(again.get(), across, down);
  tensors.add(whole.data(), across, down);
  tensors.add(mask.get(), across, down);
  tensors.add(&other, 0, 0);
  tensors.add(column, 0, 1);
  tensors.run(program, width, kRows);
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < width; ++c) {
      const int64_t i = r * down + c * across;
      const auto x = widen(whole[i]);
      ASSERT_EQ(bools[i], x < 1) << i;
      ASSERT_EQ(mask[i], x < 1 || old[i]) << i;
      ASSERT_EQ(again[i], x != 0) << i;  // NaN is not 0
      const auto wanted = (x < 1 || old[i] ? x : widen(other)) * (column[r] ? 1 : 0);
      ASSERT_TRUE(widen(product[i]) == wanted || (x != x && old[i])) << i;
    }
  }
}

TEST(PointwiseKernel, ReadsAndWritesBools) {
  for (const int64_t width : {1, 7, 64, 127, 128, 513, 1300}) {
    for (const bool turned : {false, true}) {
      check_bools<float>(width, turned);
      check_bools<double>(width, turned);
      check_bools<BFloat16>(width, turned);
    }
  }
}

TEST(PointwiseKernel, BoolsMayLieAsFarApartAsNumbers) {
  const PointwiseProgram program = parse_pointwise("part(x1, x0); less(x2, 3) > x2 x3?", 2);
  constexpr int64_t kWidth = 40, kApart = sizeof(float);
  std::vector<float> a(kWidth), found(kWidth);
  bool mask[kWidth * kApart] = {}, less[kWidth * kApart] = {};
  for (int64_t i = 0; i < kWidth; ++i) {
    a[i] = static_cast<float>(i % 7);
    mask[i * kApart] = i % 3 == 0;
  }
  Tensors<float> tensors;
  tensors.add(found.data(), 1, kWidth);
  tensors.add(less, kApart, kWidth * kApart);
  tensors.add(a.data(), 1, kWidth);
  tensors.add(mask, kApart, kWidth * kApart);
  tensors.run(program, kWidth, 1);
  for (int64_t i = 0; i < kWidth; ++i) {
    ASSERT_EQ(found[i], i % 3 == 0 ? a[i] : 0) << i;
    ASSERT_EQ(less[i * kApart], found[i] < 3) << i;
    ASSERT_FALSE(less[i * kApart + 1] || less[i * kApart + 2] || less[i * kApart + 3]) << i;
  }
}

TEST(PointwiseKernel, HalfTypesAreComputedInSingle) {
  const PointwiseProgram program = parse_pointwise("x0 * x0; x1 + x0 > x2", 1);
  std::vector<BFloat16> a(40), found(40);
  for (size_t i = 0; i < a.size(); ++i) narrow(1 + static_cast<float>(i) / 128, a[i]);
  Tensors<BFloat16> tensors;
  tensors.add(found.data(), 1, 0);
  tensors.add(a.data(), 1, 0);
  tensors.run(program, 40, 1);
  for (size_t i = 0; i < a.size(); ++i) {
    BFloat16 wanted;
    narrow(widen(a[i]) * widen(a[i]) + widen(a[i]), wanted);
    ASSERT_EQ(widen(found[i]), widen(wanted)) << i;
  }
}

}  // namespace
}  // namespace smex::kernels
