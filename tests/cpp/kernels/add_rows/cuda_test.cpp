// The CUDA kernel of smex::add_rows, run thread by thread.
#include "../message/cuda_emulator.h"
//
#include "kernels/add_rows/cuda/add_rows.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "../cuda/matrix.h"

namespace smex::kernels {
namespace {

template <typename T>
void check_add_rows(const std::vector<int64_t>& index, int64_t num_rows, int64_t width,
                    int64_t absent, int64_t gap) {
  std::mt19937 random(8);
  const auto count = static_cast<int64_t>(index.size());
  Matrix<T> to(num_rows, width, gap, random), rows(count, width, 2 * gap, random);
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int64_t i) { return index[i]; });
  Matrix<T> wanted = to;
  for (int64_t i = 0; i < num_rows; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      accumulate_t<T> sum = widen(to.at(i, j));
      for (int64_t k = 0; k < count; ++k)
        if (index[k] == i && i != absent) sum += widen(rows.at(k, j));
      narrow(sum, wanted.at(i, j));
    }
  }
  AddRows<T> task;
  task.count = count;
  task.num_rows = num_rows;
  task.width = width;
  task.absent = absent;
  task.index = index.data();
  task.order = order.data();
  task.rows = rows.begin();
  task.rows_stride = rows.stride;
  task.to = to.begin();
  task.to_stride = to.stride;
  add_rows_cuda(task, nullptr);
  for (int64_t i = 0; i < num_rows; ++i)
    for (int64_t j = 0; j < width; ++j) ASSERT_EQ(to.value(i, j), wanted.value(i, j));
  EXPECT_TRUE(to.gaps_are_untouched());
}

template <typename T>
void check_all_add_rows() {
  std::vector<int64_t> hub(90, 4), repeated;
  for (int64_t i = 0; i < 50; ++i) repeated.push_back(i * i * 7 % 11);
  for (const auto& index : {std::vector<int64_t>{}, {10}, {3, 1, 3, 10, 0, 10, 3}, hub, repeated})
    for (const int64_t width : {0, 1, 3, 8, 33})
      for (const int64_t gap : {0, 1, 8})
        for (const int64_t absent : {-1, 4, 10}) check_add_rows<T>(index, 11, width, absent, gap);
}

TEST(AddRowsCuda, Float) { check_all_add_rows<float>(); }
TEST(AddRowsCuda, Double) { check_all_add_rows<double>(); }
TEST(AddRowsCuda, BFloat16) { check_all_add_rows<BFloat16>(); }
TEST(AddRowsCuda, Half) { check_all_add_rows<Half>(); }

TEST(AddRowsCuda, TrapsOnNumbersOutOfRange) {
  EXPECT_THROW(check_add_rows<float>({2, 3}, 3, 4, -1, 0), std::runtime_error);
  EXPECT_THROW(check_add_rows<float>({-1, 1}, 3, 4, -1, 0), std::runtime_error);
}

}  // namespace
}  // namespace smex::kernels
