// Runs of element-wise calls as one.
#include "partition/lower/pointwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "../../kernels/pointwise/run.h"
#include "../graphs.h"
#include "ir/error.h"
#include "partition/lower/lower.h"
#include "partition/lower/residency.h"
#include "partition/search/search.h"
#include "tdl/interpreter.h"

namespace smex {
namespace {

const LowerOptions kApart{{}, /*join=*/false};

/// The operators of a list's calls, joined ones by what they are made of.
std::vector<std::string> calls(const std::vector<Instr>& instrs) {
  std::vector<std::string> names;
  for (const Instr& instr : instrs) {
    if (const auto* compute = std::get_if<ComputeInstr>(&instr))
      names.push_back(compute->what.empty() ? compute->target : '[' + compute->what + ']');
  }
  return names;
}

using Names = std::vector<std::string>;

/// Of the one worker's forward list.
Names calls(const Graph& graph) {
  return calls(lower(graph, search(graph, {})).workers[0].forward);
}

const ComputeInstr& joined_call(const Program& program, int worker = 0) {
  for (const Instr& instr : program.workers[worker].forward) {
    const auto* const compute = std::get_if<ComputeInstr>(&instr);
    if (compute && compute->target == "smex::pointwise") return *compute;
  }
  throw InternalError("there is no joined call");
}

TEST(JoinPointwise, MakesOneCallOfAChain) {
  test::Builder b;
  const ValueId x = b.input({3, 4}), y = b.input({3, 4});
  b.source = "model.py:7";
  b.output(b.map("neg", {b.map("mul", {b.map("exp", {x}), y})}));
  const Program program = lower(b.graph, search(b.graph, {}));
  EXPECT_EQ(calls(program.workers[0].forward), Names{"[exp, mul, neg]"});
  const ComputeInstr& call = joined_call(program);
  EXPECT_EQ(std::get<std::string>(call.args[1]), "exp(x0); (x2) * (x1); -(x3) > x4");
  EXPECT_EQ(std::get<std::vector<ValueRef>>(call.args[0]).size(), 2u);
  EXPECT_EQ(call.output_shapes, (std::vector<Shape>{{3, 4}}));
  EXPECT_EQ(call.source, "model.py:7");
  EXPECT_EQ(call.op, 2);
  EXPECT_EQ(operator_name(call), "smex::pointwise[exp, mul, neg]");
}

TEST(JoinPointwise, KeepsWhatOthersRead) {
  test::Builder b;
  const ValueId x = b.input({3, 3});
  const ValueId inner = b.map("exp", {x}), outer = b.map("neg", {inner});
  b.output(b.mm(inner, outer));
  const Program program = lower(b.graph, search(b.graph, {}));
  EXPECT_EQ(calls(program.workers[0].forward), (Names{"[exp, neg]", "mm"}));
  EXPECT_EQ(joined_call(program).outputs.size(), 2u);
}

TEST(JoinPointwise, KeepsOutputsOfTheProgram) {
  test::Builder b;
  const ValueId x = b.input({3, 3}), inner = b.map("exp", {x});
  b.output(inner);
  b.output(b.map("neg", {inner}));
  b.output(b.sum_all(x));
  const Program program = lower(b.graph, search(b.graph, {}));
  EXPECT_EQ(calls(program.workers[0].forward), (Names{"[exp, neg]", "sum_all"}));
  EXPECT_EQ(joined_call(program).outputs.size(), 2u);
}

TEST(JoinPointwise, LeavesWhatIsNeededInBetween) {
  test::Builder b;
  const ValueId x = b.input({3, 3});
  const ValueId inner = b.map("exp", {x});
  const ValueId product = b.mm(inner, x);
  b.output(b.map("sub", {inner, product}));
  EXPECT_EQ(calls(b.graph), (Names{"exp", "mm", "sub"}));
}

TEST(JoinPointwise, WaitsForWhatIsMadeInBetween) {
  test::Builder b;
  const ValueId x = b.input({3, 3}), y = b.input({3, 3});
  const ValueId inner = b.map("exp", {x});
  b.output(b.map("sub", {inner, b.mm(y, y)}));
  b.output(b.sum_all(x));  // x lives on: what waits holds nothing more
  EXPECT_EQ(calls(b.graph), (Names{"mm", "[exp, sub]", "sum_all"}));
}

TEST(JoinPointwise, LeavesOtherShapesAndTypes) {
  test::Builder b;
  const ValueId x = b.input({3, 3});
  b.output(b.map("neg", {b.sum_rows(b.map("exp", {x}))}));
  EXPECT_EQ(calls(b.graph), (Names{"exp", "sum_rows", "neg"}));
  test::Builder c;
  c.output(c.map("neg", {c.cast(c.map("exp", {c.input({3, 3})}), 8)}));
  EXPECT_EQ(calls(c.graph), (Names{"exp", "cast", "neg"}));
}

TEST(JoinPointwise, LeavesExponentialsOfDoubles) {
  test::Builder b;
  const ValueId x = b.input({3, 3}, Role::kInput, 8);
  b.output(b.map("neg", {b.map("neg", {b.map("exp", {x})})}));
  EXPECT_EQ(calls(b.graph), (Names{"exp", "[neg, neg]"}));
}

TEST(JoinPointwise, LeavesIntegers) {
  test::Builder b;
  const ValueId x = b.graph.add_value("ids", {3, 3}, "int64", 8, Role::kInput);
  const ValueId made = b.map("neg", {x});
  b.output(b.map("neg", {made}));
  Graph graph;
  for (const Value& value : b.graph.values()) {
    if (value.role == Role::kInput)
      graph.add_value(value.name, value.shape, "int64", 8, value.role);
  }
  for (Op op : b.graph.ops()) {
    op.outputs = {graph.add_value("out", {3, 3}, "int64", 8, Role::kIntermediate)};
    graph.add_op(op);
  }
  graph.add_output({graph.ops().back().outputs[0], OutputKind::kOutput, "0", kNoValue});
  EXPECT_EQ(calls(graph), (Names{"neg", "neg"}));
}

// x goes when exp has read it, and both results live on: joined they would be held with it, which
// is more than ever is. Where as much is held at another time they are joined.
TEST(JoinPointwise, LeavesWhatWouldHoldMore) {
  for (const bool is_held_later : {false, true}) {
    test::Builder b;
    const ValueId x = b.input({4, 4}), inner = b.map("exp", {x});
    b.output(inner);
    b.output(b.map("neg", {inner}));
    if (is_held_later) b.output(b.mm(inner, inner));
    const Names found = calls(b.graph);
    EXPECT_EQ(found[0], is_held_later ? "[exp, neg]" : "exp");
  }
}

// What nobody reads goes at once, so it cannot be made later.
TEST(JoinPointwise, LeavesWhatIsGivenUpInBetween) {
  test::Builder b;
  const ValueId x = b.input({4, 4});
  b.map("exp", {x});
  b.output(b.map("neg", {x}));
  EXPECT_EQ(calls(b.graph), (Names{"exp", "neg"}));
}

// The product is between the sum and what reads it, and takes the memory of both: the call that
// reads is made where the sum is, as all that it reads is there.
TEST(JoinPointwise, ComesFirstWhereWaitingWouldHoldMore) {
  test::Builder b;
  const ValueId x = b.input({4, 4}), y = b.input({4, 4}), z = b.input({4, 4});
  const ValueId first = b.map("sub", {b.mm(x, x), b.mm(y, y)});
  const ValueId product = b.mm(b.mm(z, z), z);
  const ValueId second = b.map("exp", {first});
  b.output(b.mm(second, product));
  const Plan plan = search(b.graph, {});
  const Program program = lower(b.graph, plan);
  EXPECT_EQ(calls(program.workers[0].forward), (Names{"mm", "mm", "[sub, exp]", "mm", "mm", "mm"}));
  EXPECT_LE(peak_bytes(program, {}), peak_bytes(lower(b.graph, plan, kApart), {}));
}

TEST(JoinPointwise, TwoGroupsMayShareAnOperand) {
  test::Builder b;
  const ValueId x = b.input({3, 3}), shared = b.map("tanh", {b.mm(x, x)});
  const ValueId first = b.map("neg", {b.map("exp", {shared})});
  const ValueId product = b.mm(first, x);
  const ValueId second = b.map("sub", {b.map("neg", {product}), shared});
  b.output(b.mm(second, x));
  const Program program = lower(b.graph, search(b.graph, {}));
  EXPECT_EQ(calls(program.workers[0].forward),
            (Names{"mm", "[tanh, exp, neg]", "mm", "[neg, sub]", "mm"}));
}

TEST(JoinPointwise, NeighboursThatReadTheSameAreOneCall) {
  test::Builder b;
  const ValueId x = b.input({3, 3});
  const ValueId left = b.map("exp", {x}), right = b.map("neg", {x});
  b.output(b.mm(left, right));
  EXPECT_EQ(calls(b.graph), (Names{"[exp, neg]", "mm"}));
  test::Builder c;
  const ValueId y = c.input({3, 3}), z = c.input({3, 3});
  const ValueId of_y = c.map("exp", {y}), of_z = c.map("neg", {z});
  c.output(c.mm(of_y, of_z));
  EXPECT_EQ(calls(c.graph), (Names{"exp", "neg", "mm"}));
}

TEST(JoinPointwise, LongRunsAreSeveralCalls) {
  test::Builder b;
  ValueId x = b.input({3, 3});
  for (int n = 0; n < 50; ++n) x = b.map("neg", {x});
  b.output(x);
  const Names found = calls(b.graph);
  EXPECT_GT(found.size(), 1u);
  EXPECT_LT(found.size(), 10u);
}

TEST(JoinPointwise, TheBackwardPassIsJoinedByItself) {
  test::Builder b;
  const ValueId x = b.input({4, 4});
  const ValueId made = b.map("tanh", {b.map("neg", {x})});
  b.output(made);
  const ValueId tangent = b.input({4, 4}, Role::kTangent);
  b.backward = true;
  const ValueId inner = b.map("mul", {tangent, b.map("mul", {made, made})});
  b.graph.add_output({b.map("neg", {inner}), OutputKind::kGradient, "x", x});
  const Program program = lower(b.graph, search(b.graph, {}));
  EXPECT_EQ(calls(program.workers[0].forward), Names{"[neg, tanh]"});
  EXPECT_EQ(calls(program.workers[0].backward), Names{"[mul, mul, neg]"});
}

// What another worker fetches is there before either goes on to a product.
TEST(JoinPointwise, WhatOthersFetchDoesNotWaitForWork) {
  test::Builder b;
  const ValueId x = b.input({4, 4}), y = b.input({4, 4});
  const ValueId made = b.map("exp", {x});
  const ValueId product = b.mm(y, y);
  const ValueId whole = b.mm(made, y);  // reads all columns of a row, and has its rows
  b.output(b.map("sub", {made, product}));
  b.output(whole);
  Plan plan = search(b.graph, {2});
  for (const Value& value : b.graph.values()) plan.values[value.id] = {0};
  plan.values[made] = {1};
  for (const Op& op : b.graph.ops()) plan.ops[op.id] = {0};
  const Program program = lower(b.graph, plan);
  for (const WorkerProgram& worker : program.workers) {
    bool was_product = false;
    for (const Instr& instr : worker.forward) {
      const auto* const compute = std::get_if<ComputeInstr>(&instr);
      if (!compute) continue;
      was_product |= compute->target == "mm";
      const bool makes = compute->what.find("exp") != std::string::npos || compute->target == "exp";
      if (makes) EXPECT_FALSE(was_product);
    }
  }
}

TEST(JoinPointwise, WorkersThatAreAlikeRunTheSame) {
  test::Builder b;
  const ValueId x = b.input({9, 4}), y = b.input({9, 4});
  b.output(b.map("sub", {b.map("exp", {b.map("mul", {x, y})}), y}));
  for (const int workers : {1, 2, 3, 9}) {
    const Program program = lower(b.graph, search(b.graph, {workers}));
    for (int w = 0; w < workers; ++w) {
      EXPECT_EQ(calls(program.workers[w].forward), Names{"[mul, exp, sub]"});
      EXPECT_EQ(joined_call(program, w).args, joined_call(program, 0).args);
    }
  }
}

// ---- whole programs ----

/// Runs a program of one worker on numbers: calls by their Specs, joined ones by the kernel.
class Runner {
 public:
  Runner(const Graph& graph, const Program& program) : graph_(graph), program_(program) {
    slots_.resize(program.workers[0].num_slots);
    for (const Binding& input : program.inputs) {
      tdl::Tensor& tensor = slots_[input.slots[0]];
      tensor.shape = input.regions[0].shape();
      tensor.data.resize(Region::whole(tensor.shape).numel());
      for (size_t i = 0; i < tensor.data.size(); ++i)
        tensor.data[i] = std::sin(1.0 + input.value + static_cast<double>(i)) / 3;
    }
  }

  std::vector<std::vector<double>> run() {
    for (const auto* list : {&program_.workers[0].forward, &program_.workers[0].backward}) {
      for (const Instr& instr : *list) step(instr);
    }
    std::vector<std::vector<double>> outputs;
    for (const Binding& output : program_.outputs) outputs.push_back(slots_[output.slots[0]].data);
    return outputs;
  }

 private:
  void step(const Instr& instr) {
    if (const auto* free = std::get_if<FreeInstr>(&instr)) {
      const bool is_output =
          std::any_of(program_.outputs.begin(), program_.outputs.end(),
                      [&](const Binding& output) { return output.slots[0] == free->slot; });
      if (!is_output) slots_[free->slot] = {};
    } else if (const auto* compute = std::get_if<ComputeInstr>(&instr)) {
      compute->target == "smex::pointwise" ? joined(*compute) : call(*compute);
    } else {
      throw InternalError("one worker fetches nothing");
    }
  }

  void call(const ComputeInstr& compute) {
    std::vector<tdl::Tensor> inputs;
    for (const ValueId slot : tensor_operands(compute.args)) inputs.push_back(slots_[slot]);
    slots_[compute.outputs[0]] = tdl::evaluate(*graph_.op(compute.op).spec, inputs)[0];
  }

  void joined(const ComputeInstr& compute) {
    std::vector<const std::vector<double>*> operands;
    for (const ValueRef& operand : std::get<std::vector<ValueRef>>(compute.args[0])) {
      operands.push_back(&slots_[operand.id].data);
      ASSERT_EQ(operands.back()->size(), operands[0]->size()) << "freed too early";
    }
    auto made = kernels::run_pointwise_text(std::get<std::string>(compute.args[1]), operands);
    for (size_t o = 0; o < made.size(); ++o)
      slots_[compute.outputs[o]] = {std::move(made[o]), compute.output_shapes[o]};
  }

  const Graph& graph_;
  const Program& program_;
  std::vector<tdl::Tensor> slots_;
};

size_t count_joined(const Program& program) {
  size_t count = 0;
  for (const WorkerProgram& worker : program.workers) {
    for (const auto* list : {&worker.forward, &worker.backward}) {
      for (const std::string& name : calls(*list)) count += name[0] == '[';
    }
  }
  return count;
}

TEST(JoinPointwise, ComputesWhatTheCallsDo) {
  size_t joined = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const Graph graph = test::elementwise_graph(random, 20);
    const Plan plan = search(graph, {});
    const Program program = lower(graph, plan), apart = lower(graph, plan, kApart);
    joined += count_joined(program);
    const auto found = Runner(graph, program).run(), wanted = Runner(graph, apart).run();
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t o = 0; o < found.size(); ++o) {
      ASSERT_EQ(found[o].size(), wanted[o].size());
      for (size_t i = 0; i < found[o].size(); ++i)
        ASSERT_NEAR(found[o][i], wanted[o][i], 1e-12 * (1 + std::abs(wanted[o][i])));
    }
  }
  EXPECT_GT(joined, 300u);
}

TEST(JoinPointwise, NoPeakGrows) {
  size_t joined = 0;
  for (const Mesh& mesh : {Mesh{}, Mesh{2}, Mesh{3}, Mesh{2, 2}}) {
    for (unsigned seed = 0; seed < 60; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::mt19937 random(seed);
      const Graph graph = test::elementwise_graph(random, 20);
      const Plan plan = seed % 2 ? search(graph, mesh) : test::random_plan(random, graph, mesh);
      for (const std::set<std::string>& views : {std::set<std::string>{}, {"t"}}) {
        const Program program = lower(graph, plan, {views}), apart = lower(graph, plan, kApart);
        joined += count_joined(program);
        const auto found = peak_bytes(program, views), before = peak_bytes(apart, views);
        for (size_t w = 0; w < found.size(); ++w) ASSERT_LE(found[w], before[w]) << "worker " << w;
      }
    }
  }
  EXPECT_GT(joined, 1000u);
}

}  // namespace
}  // namespace smex
