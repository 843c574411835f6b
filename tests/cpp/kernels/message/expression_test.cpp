#include "kernels/message/expression.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>

#include "kernels/message/operation_table.h"
#include "kernels/message/reference.h"

namespace smex::kernels {
namespace {

// ---- reading and printing ----

struct Text {
  const char* from;
  const char* printed;
};

TEST(ParseMessage, PrintsWithAsFewParenthesesAsNeeded) {
  constexpr Text kTexts[] = {
      {"u0", "u0"},
      {"  v12 ", "v12"},
      {"e3", "e3"},
      {"c4 * u0", "c4 * u0"},
      {"((u0))", "u0"},
      {"u0+v1*e2", "u0 + v1 * e2"},
      {"(u0 + v1) * e2", "(u0 + v1) * e2"},
      {"u0 - (v1 - e2)", "u0 - (v1 - e2)"},
      {"(u0 - v1) - e2", "u0 - v1 - e2"},
      {"u0 / (v1 / e2)", "u0 / (v1 / e2)"},
      {"u0 / v1 * e2", "u0 / v1 * e2"},
      {"u0 * (v1 / e2)", "u0 * (v1 / e2)"},
      {"-u0 * v1", "-u0 * v1"},
      {"-(u0 * v1)", "-(u0 * v1)"},
      {"-(u0 + v1)", "-(u0 + v1)"},
      {"u0 * -v1", "u0 * -v1"},
      {"u0 - -v1", "u0 - -v1"},
      {"dot(u0, v1)", "dot(u0, v1)"},
      {"sum_last(u0 * v1)", "dot(u0, v1)"},
      {"sum_last(u0 + v1)", "sum_last(u0 + v1)"},
      {"dot(u0 + 1, v1) * e2", "dot(u0 + 1, v1) * e2"},
      {"leaky_relu(u0 + v1, 0.2)", "leaky_relu(u0 + v1, 0.2)"},
      {"leaky_relu(u0, -0.5)", "leaky_relu(u0, -0.5)"},
      {"pow(u0, -1)", "pow(u0, -1)"},
      {"maximum(u0, 0) - minimum(v1, .5)", "maximum(u0, 0) - minimum(v1, 0.5)"},
      {"greater(u0, v1)", "greater(u0, v1)"},
      {"select(less(u0, v1), expm1(u0))", "select(less(u0, v1), expm1(u0))"},
      {"equal(u0, log1p(less_equal(v1, 2)))", "equal(u0, log1p(less_equal(v1, 2)))"},
      {"select(u0, -inf)", "select(u0, -inf)"},
      {"part(u0, 1) + part(1 - u0, v1)", "part(u0, 1) + part(1 - u0, v1)"},
      {"weigh(greater(u0, v1), e2)", "weigh(greater(u0, v1), e2)"},
      {"straight_through(u0, slope(e2, v1))", "straight_through(u0, slope(e2, v1))"},
      {"leaky_step(u0, 0.25)", "leaky_step(u0, 0.25)"},
      {"erf(sin(cos(u0)))", "erf(sin(cos(u0)))"},
      {"softplus(u0)", "softplus(u0)"},
      {"pow(u0, 0.5)", "sqrt(u0)"},
      {"abs(exp(log(relu(sigmoid(sign(sqrt(step(tanh(u0)))))))))",
       "abs(exp(log(relu(sigmoid(sign(sqrt(step(tanh(u0)))))))))"},
      {"u0 * 1e-5 + 1e+20", "u0 * 1e-05 + 1e+20"},
      {"u0 * -2.5", "u0 * -2.5"},
      {"maximum(u0, -inf)", "maximum(u0, -inf)"},
      {"u0 + nan", "u0 + nan"},
  };
  for (const Text& text : kTexts) {
    const std::string printed = to_string(parse_message(text.from));
    EXPECT_EQ(printed, text.printed) << text.from;
    EXPECT_EQ(to_string(parse_message(printed)), printed) << text.from;
  }
}

Message random_message(std::mt19937_64& draw, int depth) {
  const Target targets[] = {Target::kSource, Target::kDestination, Target::kEdge};
  if (depth == 0 || draw() % 8 == 0) {
    const int index = static_cast<int>(draw() % 3);
    return draw() % 4 ? operand(targets[index], index)
                      : constant(static_cast<double>(draw() % 9) / 4 - 1);
  }
  const auto inner = [&] { return random_message(draw, depth - 1); };
  const Operation& known = operations()[draw() % operations().size()];
  if (!known.is_elementwise) return inner();
  if (known.takes_number)
    return call(known.op, inner(), constant(static_cast<double>(draw() % 9) / 4 - 1));
  return known.arguments == 2 ? call(known.op, inner(), inner()) : call(known.op, inner());
}

// The same value, or both are no number: a simplification may not know which argument it is.
void expect_same_value(const Message& a, const Message& b) {
  const double leaves[] = {0.75, -1.25, 2};
  const auto leaf = [&](const MessageNode& m) {
    return reference::Array{{2}, {leaves[m.operand], leaves[(m.operand + 1) % 3]}};
  };
  const reference::Array x = reference::evaluate(a, leaf), y = reference::evaluate(b, leaf);
  ASSERT_EQ(x.data.size(), y.data.size());
  for (size_t i = 0; i < x.data.size(); ++i)
    EXPECT_TRUE(x.data[i] == y.data[i] || (std::isnan(x.data[i]) && std::isnan(y.data[i])))
        << x.data[i] << " and " << y.data[i];
}

TEST(ParseMessage, ReadsBackWhatItPrints) {
  std::mt19937_64 draw(1);
  for (int i = 0; i < 500; ++i) {
    const Message message = random_message(draw, 4);
    const std::string text = to_string(message);
    SCOPED_TRACE(text);
    const Message again = parse_message(text);
    EXPECT_EQ(to_string(again), text);
    expect_same_value(message, again);
    if (HasFailure()) return;
  }
}

TEST(ParseMessage, ErrorsShowWhere) {
  struct Case {
    const char* text;
    const char* expected;
    int position;
    const char* found;
  };
  constexpr Case kCases[] = {
      {"", "an operand, a number or a function", 0, ""},
      {"u0 +", "an operand, a number or a function", 4, ""},
      {"u0 + * v1", "an operand, a number or a function", 5, "* v1"},
      {"U0", "an operand, a number or a function", 0, "U0"},
      {"u0 v1", "the end", 3, "v1"},
      {"u0)", "the end", 2, ")"},
      {"2u0", "the end", 1, "u0"},
      {"(u0", "')'", 3, ""},
      {"exp(u0", "')'", 6, ""},
      {"exp(u0, v1)", "')'", 6, ", v1)"},
      {"exp u0", "'('", 4, "u0"},
      {"u", "'('", 1, ""},
      {"maximum(u0)", "','", 10, ")"},
      {"dot(u0)", "','", 6, ")"},
      {"dot(u0, v1, e2)", "')'", 10, ", e2)"},
      {"sinh(u0)", "a known function", 0, "sinh(u0)"},
      {"exp2(u0)", "a known function", 0, "exp2(u0)"},
      {"u0(v1)", "a known function", 0, "u0(v1)"},
      {"add(u0, v1)", "a known function", 0, "add(u0, v1)"},
      {"u0 + x1", "an operand such as u0, v1, e2 or c3", 5, "x1"},
      {"u0 + w1", "an operand such as u0, v1, e2 or c3", 5, "w1"},
      {"u0 * uv1", "an operand such as u0, v1, e2 or c3", 5, "uv1"},
      {"u99999999999999", "an operand such as u0, v1, e2 or c3", 0, "u99999999999"},
      {"u0 + pow(u0, v1)", "a number as the second argument", 5, "pow(u0, v1)"},
      {"leaky_relu(u0, e1)", "a number as the second argument", 0, "leaky_relu(u"},
      {"leaky_step(u0, e1)", "a number as the second argument", 0, "leaky_step(u"},
      {"u0 + .", "a number", 5, "."},
      {"u0 + 1e999", "a number", 5, "1e999"},
  };
  for (const Case& sample : kCases) {
    try {
      parse_message(sample.text);
      ADD_FAILURE() << "no error: " << sample.text;
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(error.what(), "message \"" + std::string(sample.text) + "\": expected " +
                                  sample.expected + " at position " +
                                  std::to_string(sample.position) + ", found \"" + sample.found +
                                  "\"");
    }
  }
}

// ---- the table ----

TEST(Operations, AreFoundByNameAndByOp) {
  for (const Operation& known : operations()) {
    EXPECT_EQ(find_operation(known.name), &operation_of(known.op)) << known.name;
    EXPECT_EQ(operation_of(known.op).op, known.op) << known.name;
    EXPECT_EQ(takes_number(known.op), known.takes_number) << known.name;
  }
  EXPECT_EQ(find_operation("frob"), nullptr);
  EXPECT_FALSE(takes_number(MessageOp::kOperand));
}

TEST(Operations, SayWhatTheirLinesSay) {
  const Operation& sub = operation_of(MessageOp::kSub);
  EXPECT_STREQ(sub.name, "sub");
  EXPECT_STREQ(sub.sign, "-");
  EXPECT_STREQ(sub.torch, "sub");
  EXPECT_EQ(sub.arguments, 2);
  EXPECT_STREQ(operation_of(MessageOp::kLess).torch, "lt");
  EXPECT_TRUE(operation_of(MessageOp::kLess).is_condition);
  EXPECT_FALSE(operation_of(MessageOp::kLess).has_gradient);
  EXPECT_TRUE(operation_of(MessageOp::kSelect).has_gradient);
  EXPECT_STREQ(operation_of(MessageOp::kSelect).torch, "");
  EXPECT_FALSE(operation_of(MessageOp::kSumLast).is_elementwise);
  EXPECT_TRUE(operation_of(MessageOp::kSumLast).in_messages);
  EXPECT_FALSE(operation_of(MessageOp::kMaxLast).in_messages);
}

TEST(ParseMessage, HasNoOperationsOfPrograms) {
  EXPECT_THROW(parse_message("max_last(u0)"), std::invalid_argument);
}

// ---- simplification ----

TEST(Call, SimplifiesWhereAConstantAllowsIt) {
  constexpr Text kTexts[] = {
      {"u0 + -0", "u0"},       {"-0 + u0", "u0"},  {"u0 - 0", "u0"},      {"u0 * 1", "u0"},
      {"1 * u0", "u0"},        {"u0 / 1", "u0"},   {"--u0", "u0"},        {"pow(u0, 1)", "u0"},
      {"u0 + -v1", "u0 - v1"}, {"2 * 3 - 1", "5"}, {"1 / 4 + 1", "1.25"}, {"-(2)", "-2"},
  };
  for (const Text& text : kTexts) EXPECT_EQ(to_string(parse_message(text.from)), text.printed);
}

// 0 added to -0 is 0.
TEST(Call, KeepsWhatChangesTheSignOfZero) {
  for (const char* text : {"u0 + 0", "0 + u0", "u0 - -0"})
    EXPECT_EQ(to_string(parse_message(text)), text);
}

// An operand gives the message its shape: it may not disappear.
TEST(Call, KeepsEveryOperand) {
  for (const char* text :
       {"pow(u0, 0)", "u0 * 0", "0 * u0", "u0 - u0", "0 / u0", "pow(u0, 0) + v1"})
    EXPECT_TRUE(depends_on(parse_message(text), Target::kSource, 0)) << text;
}

// ---- questions ----

TEST(Message, OperandsThatOccur) {
  const Message message = parse_message("u2 * exp(v0) + u2 - e5");
  EXPECT_EQ(num_operands(message), 6);
  EXPECT_EQ(num_operands(parse_message("3")), 0);
  std::string names;
  for (const Message& read : operands_of(message)) names += to_string(read) + " ";
  EXPECT_EQ(names, "u2 v0 e5 ");
  EXPECT_TRUE(depends_on(message, Target::kSource, 2));
  EXPECT_TRUE(depends_on(message, Target::kDestination, 0));
  EXPECT_FALSE(depends_on(message, Target::kSource, 0));
  EXPECT_FALSE(depends_on(message, Target::kEdge, 2));
}

TEST(Message, ReversedSwapsSourcesAndDestinations) {
  const Message message = parse_message("dot(u0, v1) * e2 + pow(v3, 2) * c4");
  EXPECT_EQ(to_string(reversed(message)), "dot(v0, u1) * e2 + pow(u3, 2) * c4");
  EXPECT_EQ(to_string(reversed(reversed(message))), to_string(message));
}

}  // namespace
}  // namespace smex::kernels
