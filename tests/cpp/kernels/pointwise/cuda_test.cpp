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
  auto whole = numbers<T>(rows * (width + gap), 1), row = numbers<T>(width, 2);
  auto column = numbers<T>(rows, 3);
  auto wide_whole = wide(whole), wide_row = wide(row), wide_column = wide(column);
  std::vector<std::vector<T>> found(2, numbers<T>(rows * (width + gap), 4));
  std::vector<std::vector<double>> wanted(2, wide(found[0]));
  const int64_t sizes[] = {width, rows};
  const PointwiseTensor tensors[] = {{found[0].data(), {1, width + gap}},
                                     {found[1].data(), {1, width + gap}},
                                     {whole.data(), {1, width + gap}},
                                     {row.data(), {1, 0}},
                                     {column.data(), {0, 1}}};
  pointwise_cuda<T>(program, std::vector<bool>(5), sizes, 2, tensors, nullptr);
  double* const exact[] = {wanted[0].data(), wanted[1].data(), wide_whole.data(), wide_row.data(),
                           wide_column.data()};
  std::vector<char*> data;
  std::vector<int64_t> strides(10);
  for (int i = 0; i < 5; ++i) {
    data.push_back(reinterpret_cast<char*>(exact[i]));
    for (int d = 0; d < 2; ++d)
      strides[5 * d + i] = tensors[i].strides[d] * static_cast<int64_t>(sizeof(double));
  }
  SMEX_PICK(run_pointwise<double>)(program, std::vector<bool>(5), data.data(), strides.data(),
                                   width, rows);
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

// A sum of a tensor of four dimensions and one that repeats along two of them.
TEST(PointwiseCuda, FourDimensions) {
  const PointwiseProgram program = parse_pointwise("x0 + x1 > x2", 2);
  std::vector<float> a(2 * 3 * 4 * 5), b(3 * 5), found(a.size(), -1);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i);
  for (size_t i = 0; i < b.size(); ++i) b[i] = 1000 * static_cast<float>(i);
  const int64_t sizes[] = {5, 4, 3, 2};
  const PointwiseTensor tensors[] = {
      {found.data(), {1, 5, 20, 60}}, {a.data(), {1, 5, 20, 60}}, {b.data(), {1, 0, 5, 0}}};
  pointwise_cuda<float>(program, std::vector<bool>(3), sizes, 4, tensors, nullptr);
  for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(found[i], a[i] + b[i % 5 + i / 20 % 3 * 5]) << i;
  const PointwiseTensor numbers[] = {{found.data(), {}}, {a.data() + 3, {}}, {b.data() + 1, {}}};
  pointwise_cuda<float>(program, std::vector<bool>(3), sizes, 0, numbers, nullptr);
  EXPECT_EQ(found[0], 1003);
}

TEST(PointwiseCuda, Bools) {
  const PointwiseProgram program = parse_pointwise(
      "less(x0, x1); maximum(x3, x2); part(x4, x0) + part(1 - x4, -1) > x3? x5 x4?", 3);
  constexpr int64_t kRows = 3, kWidth = 5;
  std::vector<float> a(kRows * kWidth), chosen(a.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 4);
  const float b = 2;
  const bool column[kRows] = {false, true, false};
  bool less[kRows * kWidth], either[kRows * kWidth];
  const int64_t sizes[] = {kWidth, kRows};
  const PointwiseTensor tensors[] = {{less, {1, kWidth}},
                                     {chosen.data(), {1, kWidth}},
                                     {either, {1, kWidth}},
                                     {a.data(), {1, kWidth}},
                                     {const_cast<float*>(&b), {0, 0}},
                                     {const_cast<bool*>(column), {0, 1}}};
  pointwise_cuda<float>(program, {true, false, true, false, false, true}, sizes, 2, tensors,
                        nullptr);
  for (size_t i = 0; i < a.size(); ++i) {
    const bool wanted = a[i] < b || column[i / kWidth];
    ASSERT_EQ(less[i], a[i] < b) << i;
    ASSERT_EQ(either[i], wanted) << i;
    ASSERT_EQ(chosen[i], wanted ? a[i] : -1) << i;
  }
}

TEST(PointwiseCuda, LongProgramsAreNotTaken) {
  std::string text = "exp(x0)";
  for (int i = 1; i <= DevicePointwise::kMaxInstructions; ++i)
    text += "; exp(x" + std::to_string(i) + ")";
  text += " > x" + std::to_string(DevicePointwise::kMaxInstructions + 1);
  EXPECT_FALSE(fits_device(parse_pointwise(text, 1)));
  EXPECT_TRUE(fits_device(parse_pointwise(kProgram, 3)));
}

}  // namespace
}  // namespace smex::kernels
