// The steps of recurrent layers beside their formulas, number by number, for every instruction set.
#include "kernels/recurrent/recurrent.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/message/cpu_samples.h"

namespace smex::kernels {
namespace {

using Numbers = std::vector<double>;

Numbers draw(int64_t count, int seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Numbers result(count);
  for (double& x : result) x = uniform(generator);
  return result;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Sizes {
  int64_t steps, rows, width;
};

// About a vector, a panel and a tile of rows.
const std::vector<Sizes> kSizes = {{1, 1, 1}, {2, 3, 5}, {3, 7, 8}, {2, 13, 17}, {2, 2, 70}};

/// A layer's operands and results.
struct Layer {
  Cell cell;
  Sizes sizes;
  Numbers x, h, c, bias, weight, out, cells, gates;

  Layer(Cell cell, Sizes sizes) : cell(cell), sizes(sizes) {
    const auto [steps, rows, width] = sizes;
    const int64_t states = rows * width, all = steps * states, gate_count = gates_of(cell);
    x = draw(all * gate_count, 1), h = draw(states, 2), c = draw(states, 3);
    bias = draw(3 * width, 4), weight = draw(gate_count * width * width, 5);
    out.resize(all), cells.resize(all), gates.resize(4 * all);
  }

  LayerForward<double> task() {
    LayerForward<double> task{cell, sizes.steps, sizes.rows, sizes.width};
    task.x = x.data(), task.h = h.data(), task.out = out.data();
    if (cell == Cell::kLstm) task.c = c.data(), task.cells = cells.data();
    if (cell == Cell::kGru) task.bias = bias.data();
    if (cell == Cell::kLstm || cell == Cell::kGru) task.gates = gates.data();
    return task;
  }

  /// The hidden number of a row before step t.
  double before(int64_t t, int64_t row, int64_t j) const {
    const int64_t at = row * sizes.width + j;
    return t ? out[(t - 1) * sizes.rows * sizes.width + at] : h[at];
  }

  /// What the hidden numbers before step t make of a gate.
  double product(int64_t t, int64_t row, int64_t gate, int64_t j) const {
    double sum = 0;
    for (int64_t k = 0; k < sizes.width; ++k)
      sum += before(t, row, k) * weight[(gate * sizes.width + j) * sizes.width + k];
    return cell == Cell::kGru ? sum + bias[gate * sizes.width + j] : sum;
  }

  /// The hidden number that the formulas give, from those that `out` has of the step before.
  double expected(int64_t t, int64_t row, int64_t j) const {
    const int64_t width = sizes.width, at = t * sizes.rows + row;
    const auto in = [&](int64_t g) { return x[(at * gates_of(cell) + g) * width + j]; };
    const auto sum = [&](int64_t g) { return in(g) + product(t, row, g, j); };
    if (cell == Cell::kTanh) return std::tanh(sum(0));
    if (cell == Cell::kRelu) return std::max(sum(0), 0.0);
    if (cell == Cell::kGru) {
      const double n = std::tanh(in(2) + sigmoid(sum(0)) * product(t, row, 2, j));
      return (before(t, row, j) - n) * sigmoid(sum(1)) + n;
    }
    const double last = t ? cells[((t - 1) * sizes.rows + row) * width + j] : c[row * width + j];
    return sigmoid(sum(3)) *
           std::tanh(sigmoid(sum(1)) * last + sigmoid(sum(0)) * std::tanh(sum(2)));
  }
};

using Form = decltype(&isa_default::forward_panels<double>);
using Pack = decltype(&isa_default::pack_forward<double>);
using Run = decltype(&isa_default::run_forward<double>);

void run(Layer& layer, Form form_of, Pack pack, Run run_steps) {
  const Panels form = form_of(layer.cell, layer.sizes.width);
  Numbers packed(form.numbers);
  pack(layer.cell, layer.sizes.width, layer.weight.data(), packed.data(), {0, form.panels});
  LayerForward<double> task = layer.task();
  task.weight = packed.data();
  // Rows through all steps in two parts; what is left of them step by step, panel by panel.
  const auto [steps, rows, width] = layer.sizes;
  run_steps(task, {0, steps}, {0, rows / 2}, {0, form.panels});
  for (int64_t t = 0; t < steps; ++t)
    for (int64_t p = 0; p < form.panels; ++p)
      run_steps(task, {t, t + 1}, {rows / 2, rows}, {p, p + 1});
}

TEST(RecurrentSteps, AreTheirFormulas) {
  const auto forms = SMEX_SUPPORTED(forward_panels<double>);
  const auto packs = SMEX_SUPPORTED(pack_forward<double>);
  const auto runs = SMEX_SUPPORTED(run_forward<double>);
  for (const Cell cell : {Cell::kLstm, Cell::kGru, Cell::kTanh, Cell::kRelu}) {
    for (const Sizes& sizes : kSizes) {
      for (size_t version = 0; version < runs.size(); ++version) {
        SCOPED_TRACE(testing::Message() << runs[version].isa << " cell " << static_cast<int>(cell)
                                        << " width " << sizes.width);
        Layer layer(cell, sizes);
        run(layer, forms[version].call, packs[version].call, runs[version].call);
        for (int64_t t = 0; t < sizes.steps; ++t)
          for (int64_t row = 0; row < sizes.rows; ++row)
            for (int64_t j = 0; j < sizes.width; ++j)
              ASSERT_NEAR(layer.out[(t * sizes.rows + row) * sizes.width + j],
                          layer.expected(t, row, j), 1e-12);
      }
    }
  }
}

/// The sum of the hidden numbers, each times its weight in `grad`.
double loss(Layer layer, const Numbers& grad) {
  run(layer, isa_default::forward_panels<double>, isa_default::pack_forward<double>,
      isa_default::run_forward<double>);
  double sum = 0;
  for (size_t i = 0; i < grad.size(); ++i) sum += grad[i] * layer.out[i];
  return sum;
}

TEST(RecurrentSteps, HaveTheGradientsOfDifferences) {
  const auto forms = SMEX_SUPPORTED(backward_panels<double>);
  const auto packs = SMEX_SUPPORTED(pack_backward<double>);
  const auto runs = SMEX_SUPPORTED(run_backward<double>);
  for (const Cell cell : {Cell::kLstm, Cell::kGru, Cell::kTanh, Cell::kRelu}) {
    const Sizes sizes{2, 5, 9};
    for (size_t version = 0; version < runs.size(); ++version) {
      SCOPED_TRACE(testing::Message() << runs[version].isa << " cell " << static_cast<int>(cell));
      Layer layer(cell, sizes);
      run(layer, isa_default::forward_panels<double>, isa_default::pack_forward<double>,
          isa_default::run_forward<double>);
      const Numbers grad = draw(layer.out.size(), 6);
      Numbers dx(layer.x.size()), reset(layer.out.size()), dh(layer.h.size()), carry(dh.size());
      const Panels form = forms[version].call(cell, sizes.width);
      Numbers packed(form.numbers);
      packs[version].call(cell, sizes.width, layer.weight.data(), packed.data(), {0, form.panels});
      LayerBackward<double> task{cell, sizes.steps, sizes.rows, sizes.width};
      task.grad = grad.data(), task.weight = packed.data();
      task.out = layer.out.data(), task.h = layer.h.data();
      task.cells = layer.cells.data(), task.c = layer.c.data(), task.gates = layer.gates.data();
      task.grad_x = dx.data(), task.grad_reset = reset.data(), task.grad_h = dh.data();
      task.carry = carry.data();
      runs[version].call(task, {0, sizes.steps + 1}, {0, sizes.rows}, {0, form.panels});
      constexpr double kStep = 1e-6;
      const auto check = [&](Numbers Layer::* operand, const Numbers& found) {
        for (size_t i = 0; i < found.size(); ++i) {
          Layer more = layer, less = layer;
          (more.*operand)[i] += kStep;
          (less.*operand)[i] -= kStep;
          ASSERT_NEAR(found[i], (loss(more, grad) - loss(less, grad)) / (2 * kStep), 1e-7) << i;
        }
      };
      check(&Layer::x, dx);
      check(&Layer::h, dh);
      if (cell == Cell::kLstm) check(&Layer::c, carry);
    }
  }
}

TEST(RecurrentSteps, GradientsOfWeightsAreSumsOverRows) {
  const auto runs = SMEX_SUPPORTED(run_gradient<double>);
  const auto numbers = SMEX_SUPPORTED(gradient_numbers<double>);
  for (const auto& [rows, columns, width] : kSizes) {
    for (const int64_t many : {rows, rows + 256}) {
      for (size_t version = 0; version < runs.size(); ++version) {
        const Numbers grads = draw(many * (columns + 2), 7), x = draw(many * width, 8);
        Numbers weight(columns * width), bias(columns);
        Numbers packed(numbers[version].call(width));
        const WeightGradient<double> task{many,     width, grads.data(),  columns + 2,
                                          x.data(), width, weight.data(), bias.data()};
        runs[version].call(task, {0, columns}, packed.data());
        for (int64_t g = 0; g < columns; ++g) {
          double total = 0;
          Numbers sums(width);
          for (int64_t m = 0; m < many; ++m) {
            total += grads[m * (columns + 2) + g];
            for (int64_t k = 0; k < width; ++k)
              sums[k] += grads[m * (columns + 2) + g] * x[m * width + k];
          }
          ASSERT_NEAR(bias[g], total, 1e-11);
          for (int64_t k = 0; k < width; ++k) ASSERT_NEAR(weight[g * width + k], sums[k], 1e-11);
        }
      }
    }
  }
}

}  // namespace
}  // namespace smex::kernels
