// Symbolic gradients against differences of the messages' values.
#include <gtest/gtest.h>

#include <random>

#include "kernels/message/expression.h"
#include "kernels/message/reference.h"

namespace smex::kernels {
namespace {

using reference::Array;

struct Case {
  const char* text;
  std::vector<FeatureShape> shapes;
};

/// Numbers away from 0, 1/2 and each other, where the functions have corners.
std::vector<Array> values_of(const std::vector<FeatureShape>& shapes, bool positive) {
  std::vector<Array> values;
  int count = 0;
  for (const FeatureShape& shape : shapes) {
    Array x{shape, std::vector<double>(reference::size_of(shape))};
    for (double& value : x.data) {
      value = 0.3 + 0.17 * (count * 7 % 13) + 0.011 * count;
      if (!positive && count % 3 == 0) value = -value;
      ++count;
    }
    values.push_back(x);
  }
  return values;
}

Array value_of(const Message& message, const std::vector<Array>& operands) {
  return reference::evaluate(message, [&](const MessageNode& m) { return operands[m.operand]; });
}

/// The sum of all elements of the message, each times its gradient.
double weighted(const Message& message, const std::vector<Array>& operands, const Array& grad) {
  const Array value = value_of(message, operands);
  double sum = 0;
  for (size_t i = 0; i < value.data.size(); ++i) sum += value.data[i] * grad.data[i];
  return sum;
}

std::vector<int64_t> last_sizes(const std::vector<Array>& operands) {
  std::vector<int64_t> result;
  for (const Array& x : operands) result.push_back(x.shape.empty() ? 1 : x.shape.back());
  return result;
}

/// As the operators use it: summed where the operand was repeated, repeated where it was not.
Array gradient_of(const Message& message, const Message& read, std::vector<Array> operands,
                  const Array& grad) {
  const int last = static_cast<int>(operands.size());
  const FeatureShape shape = operands[read->operand].shape;
  operands.push_back(grad);
  const Message d = derivative(message, read->target, read->operand, operand(Target::kEdge, last),
                               last_sizes(operands));
  const Array wide = value_of(d, operands);
  FeatureShape own = shape;  // of the operand, with no more than the derivative's sizes
  for (size_t i = 0; i < own.size(); ++i) {
    const size_t from_end = own.size() - i;
    if (from_end > wide.shape.size() || wide.shape[wide.shape.size() - from_end] == 1) own[i] = 1;
  }
  return reference::expanded(reference::summed_to(wide, own), shape);
}

void check(const Case& sample, bool positive) {
  SCOPED_TRACE(std::string(sample.text) + (positive ? " of positive numbers" : ""));
  const Message message = parse_message(sample.text);
  std::vector<Array> operands = values_of(sample.shapes, positive);
  Array grad = value_of(message, operands);
  for (size_t i = 0; i < grad.data.size(); ++i)
    grad.data[i] = 0.5 + 0.25 * static_cast<double>(i % 5);
  for (const Message& read : operands_of(message)) {
    SCOPED_TRACE("gradient of " + to_string(read));
    const Array found = gradient_of(message, read, operands, grad);
    std::vector<double>& x = operands[read->operand].data;
    for (size_t i = 0; i < x.size(); ++i) {
      constexpr double kStep = 1e-6;
      const double before = x[i];
      x[i] = before + kStep;
      const double up = weighted(message, operands, grad);
      x[i] = before - kStep;
      const double down = weighted(message, operands, grad);
      x[i] = before;
      const double expected = (up - down) / (2 * kStep);
      ASSERT_NEAR(found.data[i], expected, 1e-7 + 1e-6 * std::abs(expected)) << "element " << i;
    }
  }
}

TEST(Derivative, OfEveryOperation) {
  for (const char* text : {"u0",
                           "3 * u0",
                           "u0 + v1",
                           "u0 - v1",
                           "u0 * v1",
                           "u0 / v1",
                           "maximum(u0, v1)",
                           "minimum(u0, v1)",
                           "maximum(u0, 0.5)",
                           "greater(u0, v1) * u0",
                           "weigh(greater(u0, v1), u0 * v1)",
                           "part(less(u0, v1), u0 * v1) + part(1 - less(u0, v1), v1)",
                           "leaky_step(u0, 0.2) * u0",
                           "select(less(u0, v1), u0 * v1)",
                           "select(1 - equal(v1, v1), u0) + u0",
                           "select(less_equal(v1, u0), 2) * u0",
                           "pow(u0, 2)",
                           "pow(u0, 3)",
                           "pow(u0, -1)",
                           "leaky_relu(u0, 0.2)",
                           "leaky_relu(u0, -0.5)",
                           "leaky_relu(u0, 1.5)",
                           "-u0",
                           "abs(u0)",
                           "sign(u0) * u0",
                           "step(u0) * u0",
                           "relu(u0)",
                           "exp(u0)",
                           "expm1(u0)",
                           "erf(u0)",
                           "sin(u0)",
                           "cos(u0)",
                           "sigmoid(u0)",
                           "softplus(u0)",
                           "tanh(u0)",
                           "sum_last(u0)",
                           "dot(u0, v1)",
                           "u0 * u0",
                           "u0 / u0 + u0",
                           "2 / u0",
                           "1 - u0",
                           "exp(-u0) * u0"})
    check({text, {{2, 3}, {2, 3}}}, /*positive=*/false);
  for (const char* text :
       {"sqrt(u0)", "log(u0)", "log1p(u0)", "pow(u0, 0.5)", "sqrt(u0 * v1) / log(v1 + 2)"})
    check({text, {{2, 3}, {2, 3}}}, /*positive=*/true);
}

Message gradient_in(const char* text, const std::vector<int64_t>& last_sizes) {
  const Message message = parse_message(text);
  return derivative(message, Target::kSource, 0, operand(Target::kEdge, 9), last_sizes);
}

// A mask that is a factor makes no number of an infinite gradient.
TEST(Derivative, ChoosesWhereASlopeIs0) {
  struct Case {
    const char* text;
    const char* gradient;
  };
  constexpr Case kCases[] = {
      {"relu(u0)", "select(step(u0), e9)"},
      {"sqrt(relu(u0))", "select(step(u0), e9 * 0.5 / sqrt(relu(u0)))"},
      {"maximum(u0, v1)", "weigh(greater(u0, v1), e9)"},
      {"minimum(v1, u0)", "weigh(greater(v1, u0), e9)"},
      {"select(v1, u0)", "select(v1, e9)"},
      {"part(v1, u0)", "select(v1, e9)"},
      {"leaky_relu(u0, 0.25)", "e9 * leaky_step(u0, 0.25)"},
      {"abs(u0)", "e9 * sign(u0)"},
      {"softplus(u0)", "e9 * maximum(sigmoid(u0), less(20, u0))"},
      {"v1 / u0", "-(e9 * (v1 / u0 / u0))"},
  };
  const std::vector<int64_t> sizes(10, 3);
  for (const Case& sample : kCases)
    EXPECT_EQ(to_string(gradient_in(sample.text, sizes)), sample.gradient) << sample.text;
}

TEST(Derivative, IsWhatAFunctionSays) {
  const std::vector<int64_t> sizes(10, 3);
  EXPECT_EQ(to_string(gradient_in("straight_through(exp(u0), slope(cos(u0), u0))", sizes)),
            "e9 * cos(u0)");
  EXPECT_EQ(to_string(gradient_in("straight_through(u0, v1)", sizes)), "0");
}

// As torch does: what a node is used for is added up before it passes through the node.
TEST(Derivative, AddsUpBeforeItPassesThroughANode) {
  const std::vector<int64_t> sizes(10, 3);
  EXPECT_EQ(to_string(gradient_in("2 * sqrt(u0) - sqrt(u0)", sizes)),
            "(-e9 + e9 * 2) * 0.5 / sqrt(u0)");
  std::vector<int64_t> wide(10, 3);
  wide[0] = 1;
  EXPECT_EQ(to_string(gradient_in("exp(u0) * v1", wide)), "dot(e9, v1) * exp(u0)");
}

// The operand occurs, but nothing depends on its value.
TEST(Derivative, OfStepsIsZero) {
  for (const char* text :
       {"sign(u0)", "step(u0)", "greater(u0, v1)", "less(u0, v1)", "less_equal(u0, v1)",
        "equal(u0, v1)", "select(u0, 1)", "step(u0) + sign(v1)"})
    check({text, {{2, 3}, {2, 3}}}, /*positive=*/false);
}

TEST(Derivative, OfBroadcastOperands) {
  const std::vector<FeatureShape> kShapes[] = {{{3}, {1}, {3}},       {{2, 3}, {3}, {2, 1}},
                                               {{2, 1}, {1, 3}, {}},  {{}, {4}, {1}},
                                               {{1}, {2, 3, 4}, {4}}, {{2, 1, 4}, {3, 1}, {4}}};
  for (const auto& shapes : kShapes)
    for (const char* text :
         {"u0 + v1 - e2", "u0 * v1 / e2", "exp(u0 * v1) * e2", "leaky_relu(u0 + v1, 0.2) * e2",
          "maximum(u0, v1) * e2", "(u0 + v1) * (v1 + e2)", "u0 * u0 + v1 * v1 + e2"})
      check({text, shapes}, /*positive=*/false);
}

TEST(Derivative, OfSumsOverTheLastDimension) {
  const Case kCases[] = {{"dot(u0, v1)", {{4}, {4}}},
                         {"dot(u0, v1)", {{2, 4}, {4}}},
                         {"dot(u0, v1)", {{2, 4}, {2, 1}}},
                         {"dot(u0, v1)", {{1}, {4}}},
                         {"dot(u0, u0)", {{2, 4}}},
                         {"dot(u0, v1) * e2", {{2, 4}, {2, 4}, {2, 4}}},
                         {"dot(u0, v1) * e2", {{2, 4}, {2, 4}, {2, 1}}},
                         {"dot(u0, v1) * e2", {{4}, {4}, {3, 1}}},
                         {"exp(dot(u0, v1)) * u0", {{2, 4}, {2, 4}}},
                         {"dot(u0, v1) + u0", {{2, 4}, {2, 4}}},
                         {"dot(leaky_relu(u0 + v1, 0.2), e2)", {{2, 4}, {2, 4}, {2, 4}}},
                         {"sum_last(u0) * sum_last(v1)", {{2, 4}, {2, 4}}},
                         {"sum_last(sum_last(u0) * v1)", {{2, 4}, {2, 4}}},
                         {"sum_last(u0 * u0)", {{}}},
                         {"exp(sum_last(log(abs(u0))))", {{2, 3}}}};
  for (const Case& sample : kCases) check(sample, /*positive=*/false);
}

// The gradient of an operand of size 1 counts once for every element that it is added to.
TEST(Derivative, OfSumsToWhichARepeatedOperandIsAdded) {
  const Case kCases[] = {{"sum_last(u0 + v1)", {{1}, {4}}},
                         {"sum_last(u0 + v1)", {{2, 1}, {2, 4}}},
                         {"sum_last(u0 + v1)", {{}, {4}}},
                         {"sum_last(u0 - exp(v1)) * e2", {{1}, {4}, {1}}},
                         {"dot(u0 + v1, e2)", {{1}, {4}, {4}}}};
  for (const Case& sample : kCases) check(sample, /*positive=*/false);
}

}  // namespace
}  // namespace smex::kernels
