// The CUDA kernel of smex::pointwise, run thread by thread, beside the CPU's.
#include "../message/cuda_emulator.h"
//
#include "kernels/pointwise/cuda/pointwise.cuh"

#include <gtest/gtest.h>

#include <random>

#include "../message/cuda_samples.h"

namespace smex::kernels {
namespace {

template <typename T>
std::vector<T> numbers(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-2, 2);
  std::vector<T> result(count);
  for (T& x : result) narrow(static_cast<accumulate_t<T>>(uniform(random)), x);
  return result;
}

template <typename T>
std::vector<double> wide(const std::vector<T>& values) {
  std::vector<double> result;
  for (const T& x : values) result.push_back(static_cast<double>(widen(x)));
  return result;
}

constexpr const char* kProgram =
    "sigmoid(x0); tanh(x1); x3 * x4; 0.5; x5 + x6; leaky_relu(x7, 0.1); x8 * x2 > x9 x5";

template <typename T>
void check(int64_t rows, int64_t width, int64_t gap) {
  const PointwiseProgram program = parse_pointwise(kProgram, 3);
  const auto whole = numbers<T>(rows * (width + gap), 1), row = numbers<T>(width, 2);
  const auto column = numbers<T>(rows, 3);
  const auto wide_whole = wide(whole), wide_row = wide(row), wide_column = wide(column);
  std::vector<std::vector<T>> found(2, numbers<T>(rows * (width + gap), 4));
  const auto before = wide(found[0]);
  const PointwiseOperand<T> operands[] = {
      {whole.data(), width + gap, 1}, {row.data(), 0, 1}, {column.data(), 1, 0}};
  std::vector<PointwiseOut<T>> outs;
  for (auto& out : found) outs.push_back({out.data(), width + gap});
  pointwise_cuda<T>({&program, operands, outs.data()}, rows, width, nullptr);
  const PointwiseOperand<double> exact[] = {
      {wide_whole.data(), width + gap, 1}, {wide_row.data(), 0, 1}, {wide_column.data(), 1, 0}};
  std::vector<std::vector<double>> wanted(2, before);
  std::vector<PointwiseOut<double>> to;
  for (auto& out : wanted) to.push_back({out.data(), width + gap});
  SMEX_PICK(run_pointwise<double>)({&program, exact, to.data()}, 0, rows, 0, width);
  for (size_t k = 0; k < wanted.size(); ++k)
    for (size_t i = 0; i < wanted[k].size(); ++i)
      ASSERT_NEAR(wide(found[k])[i], wanted[k][i], 4 * cuda_samples::kTolerance<T>)
          << k << " " << i;
}

template <typename T>
void check_all() {
  for (const int64_t rows : {0, 1, 7, 40})
    for (const int64_t width : {1, 5, 64})
      for (const int64_t gap : {0, 3}) check<T>(rows, width, gap);
}

TEST(PointwiseCuda, Float) { check_all<float>(); }
TEST(PointwiseCuda, Double) { check_all<double>(); }
TEST(PointwiseCuda, BFloat16) { check_all<BFloat16>(); }
TEST(PointwiseCuda, Half) { check_all<Half>(); }

TEST(PointwiseCuda, LongProgramsAreNotTaken) {
  std::string text = "exp(x0)";
  for (int i = 1; i <= DevicePointwise::kMaxInstructions; ++i)
    text += "; exp(x" + std::to_string(i) + ")";
  EXPECT_FALSE(fits_device(parse_pointwise(text + " > x1", 1)));
  EXPECT_TRUE(fits_device(parse_pointwise(kProgram, 3)));
}

}  // namespace
}  // namespace smex::kernels
