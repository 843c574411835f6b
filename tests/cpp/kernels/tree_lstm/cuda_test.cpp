// The CUDA kernels of smex::tree_lstm and its gradient, run thread by thread.
#include "../message/cuda_emulator.h"
//
#include "kernels/tree_lstm/cuda/tree_lstm.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "../cuda/matrix.h"
#include "../message/cuda_samples.h"

namespace smex::kernels {
namespace {

using cuda_samples::kTolerance;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// h and c of one element from its gates i, o, u, f_1, ... and the children's cells.
std::pair<double, double> cell_of(const std::vector<double>& gates,
                                  const std::vector<double>& cells) {
  double c = sigmoid(gates[0]) * std::tanh(gates[2]);
  for (size_t j = 0; j < cells.size(); ++j) c += sigmoid(gates[3 + j]) * cells[j];
  return {sigmoid(gates[1]) * std::tanh(c), c};
}

/// The operands of a cell.
template <typename T>
struct Sample {
  std::mt19937 random{3};
  int64_t rows, width, children;
  std::vector<int64_t> places;
  Matrix<T> gates;
  std::vector<Matrix<T>> cells;
  std::vector<const T*> cell_data;
  std::vector<int64_t> cell_strides;

  Sample(int64_t rows, int64_t width, int64_t children, int64_t gap)
      : rows(rows),
        width(width),
        children(children),
        places(3 + children),
        gates(rows, (3 + children) * width, gap, random) {
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), random);
    cells.reserve(children);
    for (int64_t j = 0; j < children; ++j) {
      cells.emplace_back(rows, width, gap * (j + 1), random);
      cell_data.push_back(cells.back().begin());
      cell_strides.push_back(cells.back().stride);
    }
  }

  std::vector<double> gates_of(int64_t row, int64_t column) {
    std::vector<double> result;
    for (const int64_t place : places) result.push_back(gates.value(row, place * width + column));
    return result;
  }
  std::vector<double> cells_of(int64_t row, int64_t column) {
    std::vector<double> result;
    for (auto& cell : cells) result.push_back(cell.value(row, column));
    return result;
  }

  template <typename Task>
  void describe(Task& task) {
    task.width = width;
    task.children = children;
    task.places = places.data();
    task.gates = gates.begin();
    task.gates_stride = gates.stride;
    task.cells = cell_data.data();
    task.cell_strides = cell_strides.data();
  }
};

template <typename T>
void check_forward(int64_t rows, int64_t width, int64_t children, int64_t gap) {
  Sample<T> sample(rows, width, children, gap);
  Matrix<T> h(rows, width, gap), c(rows, width, 2 * gap);
  CellForward<T> task;
  sample.describe(task);
  task.h = h.begin();
  task.h_stride = h.stride;
  task.c = c.begin();
  task.c_stride = c.stride;
  cell_forward_cuda(task, rows, nullptr);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      const auto [wanted_h, wanted_c] = cell_of(sample.gates_of(i, j), sample.cells_of(i, j));
      const double most = 1 + std::fabs(wanted_c);
      ASSERT_NEAR(h.value(i, j), wanted_h, kTolerance<T> * most) << i << " " << j;
      ASSERT_NEAR(c.value(i, j), wanted_c, kTolerance<T> * most) << i << " " << j;
    }
  }
  EXPECT_TRUE(h.gaps_are_untouched());
  EXPECT_TRUE(c.gaps_are_untouched());
}

/// The gradients against differences of the values; `in_place`: those of gates where the gates lay.
template <typename T>
void check_backward(int64_t rows, int64_t width, int64_t children, int64_t gap, bool in_place) {
  Sample<T> sample(rows, width, children, gap);
  Matrix<T> c(rows, width, gap), grad_h(rows, width, gap, sample.random);
  Matrix<T> grad_c(rows, width, 2 * gap, sample.random);
  Matrix<T> grad_gates(rows, (3 + children) * width, gap);
  Matrix<T> grad_cells(rows, children * width, 0);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < width; ++j)
      c.at(i, j) = number<T>(cell_of(sample.gates_of(i, j), sample.cells_of(i, j)).second);
  Sample<T> before = sample;
  CellBackward<T> task;
  sample.describe(task);
  task.grad_h = grad_h.begin();
  task.grad_h_stride = grad_h.stride;
  task.grad_c = grad_c.begin();
  task.grad_c_stride = grad_c.stride;
  task.c = c.begin();
  task.c_stride = c.stride;
  Matrix<T>& found = in_place ? sample.gates : grad_gates;
  task.grad_gates = found.begin();
  task.grad_gates_stride = found.stride;
  task.grad_cells = grad_cells.begin();
  cell_backward_cuda(task, rows, nullptr);
  constexpr double kStep = 1e-5;
  const double tolerance = std::max(8 * kTolerance<T>, 1e-8);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      const auto gates = before.gates_of(i, j), cells = before.cells_of(i, j);
      const auto loss = [&](const auto& of_gates, const auto& of_cells) {
        const auto [h, own] = cell_of(of_gates, of_cells);
        return h * grad_h.value(i, j) + own * grad_c.value(i, j);
      };
      for (size_t k = 0; k < gates.size(); ++k) {
        auto more = gates, less = gates;
        more[k] += kStep;
        less[k] -= kStep;
        const double wanted = (loss(more, cells) - loss(less, cells)) / (2 * kStep);
        ASSERT_NEAR(found.value(i, before.places[k] * width + j), wanted, tolerance) << k;
      }
      for (size_t k = 0; k < cells.size(); ++k) {
        auto more = cells, less = cells;
        more[k] += kStep;
        less[k] -= kStep;
        const double wanted = (loss(gates, more) - loss(gates, less)) / (2 * kStep);
        ASSERT_NEAR(grad_cells.value(i, k * width + j), wanted, tolerance) << k;
      }
    }
  }
  EXPECT_TRUE(found.gaps_are_untouched());
}

/// Widths that wide loads divide and others; rows that begin where these reach, and where not.
template <typename T>
void check_cells() {
  for (const int64_t children : {0, 1, 2, 5}) {
    for (const int64_t width : {1, 3, 4, 8, 24, 33}) {
      for (const int64_t gap : {0, 1, 2, 8}) {
        SCOPED_TRACE(std::to_string(children) + " children, width " + std::to_string(width) +
                     ", gap " + std::to_string(gap));
        for (const int64_t rows : {1, 5}) {
          check_forward<T>(rows, width, children, gap);
          check_backward<T>(rows, width, children, gap, /*in_place=*/rows == 1);
        }
      }
    }
  }
}

TEST(CellCuda, Float) { check_cells<float>(); }
TEST(CellCuda, Double) { check_cells<double>(); }
TEST(CellCuda, BFloat16) { check_cells<BFloat16>(); }
TEST(CellCuda, Half) { check_cells<Half>(); }

TEST(CellCuda, NothingIsLaunchedForNothing) {
  check_forward<float>(0, 8, 2, 0);
  check_forward<float>(3, 0, 2, 0);
  check_backward<float>(0, 8, 2, 0, /*in_place=*/false);
  check_backward<float>(3, 0, 2, 0, /*in_place=*/false);
}

TEST(CellCuda, MostChildrenAndSeveralBlocks) {
  check_forward<float>(2, 4, kMostDeviceChildren, 1);
  check_backward<float>(2, 4, kMostDeviceChildren, 0, /*in_place=*/true);
  check_forward<float>(70, 40, 1, 0);
  check_backward<float>(70, 33, 1, 1, /*in_place=*/true);
}

TEST(CellCuda, ExtremeGatesGiveLimits) {
  for (const float x : {-1e30f, -200.f, 200.f, 1e30f}) {
    std::vector<float> gates(4, x), cell = {2}, h(1), c(1);
    const std::vector<int64_t> places = {0, 1, 2, 3}, strides = {1};
    const float* cells[] = {cell.data()};
    CellForward<float> task;
    task.width = task.children = 1;
    task.places = places.data();
    task.gates = gates.data();
    task.gates_stride = 4;
    task.cells = cells;
    task.cell_strides = strides.data();
    task.h = h.data();
    task.c = c.data();
    task.h_stride = task.c_stride = 1;
    cell_forward_cuda(task, 1, nullptr);
    EXPECT_FLOAT_EQ(c[0], x > 0 ? 3 : 0);
    EXPECT_FLOAT_EQ(h[0], x > 0 ? std::tanh(3.f) : 0);
  }
}

TEST(PackPlace, CountsBeyond32Bits) {
  constexpr int64_t kPacks = 300, kRow = 20'000'000'000;
  const PackPlace place = PackPlace::of<4>(kRow * kPacks + 299, kPacks);
  EXPECT_EQ(place.row, kRow);
  EXPECT_EQ(place.column, 4 * 299);
  const PackPlace wide = PackPlace::of<1>(7 * (int64_t{1} << 33) + 5, int64_t{1} << 33);
  EXPECT_EQ(wide.row, 7);
  EXPECT_EQ(wide.column, 5);
}

}  // namespace
}  // namespace smex::kernels
