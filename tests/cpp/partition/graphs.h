#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "partition/plan/plan.h"
#include "partition/vertices/boundaries.h"
#include "tdl/expr.h"
#include "tdl/spec.h"

namespace smex::test {

/// Builds small graphs by hand. Equal calls share a spec, as captured graphs do.
class Builder {
 public:
  ValueId input(Shape shape, Role role = Role::kInput, int itemsize = 4) {
    return graph.add_value("v" + std::to_string(graph.values().size()), std::move(shape),
                           dtype(itemsize), itemsize, role);
  }

  ValueId mm(ValueId a, ValueId b) {
    using namespace tdl;
    const Shape &x = shape(a), &y = shape(b);
    auto body = make_reduce(ReduceKind::kSum, {2},
                            make_call("mul", {read(0, {0, 2}), read(a == b ? 0 : 1, {2, 1})}));
    return add_op("mm", {a, b}, {x[0], y[1]}, {x[0], y[1], x[1]}, {0, 1}, std::move(body));
  }

  ValueId add(ValueId a, ValueId b) {
    auto body = tdl::make_call("add", {read(0, {0, 1}), read(a == b ? 0 : 1, {0, 1})});
    return add_op("add", {a, b}, shape(a), shape(a), {0, 1}, std::move(body));
  }

  /// An element-wise function of the language of Specs.
  ValueId map(const std::string& function, const std::vector<ValueId>& operands) {
    std::vector<ValueId> inputs;
    std::vector<tdl::ExprPtr> args;
    const std::vector<int> axes =
        shape(operands[0]).size() == 1 ? std::vector<int>{0} : std::vector<int>{0, 1};
    for (ValueId id : operands) {
      auto input = std::find(inputs.begin(), inputs.end(), id);
      const int number = static_cast<int>(input - inputs.begin());
      if (input == inputs.end()) inputs.push_back(id);
      args.push_back(read(number, axes));
    }
    const Shape made = shape(operands[0]);
    return add_op(function, operands, made, made, axes, tdl::make_call(function, std::move(args)));
  }

  ValueId cast(ValueId a, int itemsize) {
    return add_op("cast", {a}, shape(a), shape(a), {0, 1}, read(0, {0, 1}), itemsize);
  }

  ValueId transpose(ValueId a) {
    const Shape& x = shape(a);
    return add_op("t", {a}, {x[1], x[0]}, {x[1], x[0]}, {0, 1}, read(0, {1, 0}));
  }

  ValueId sum_rows(ValueId a) {
    using namespace tdl;
    const Shape& x = shape(a);
    return add_op("sum_rows", {a}, {x[0]}, x, {0},
                  make_reduce(ReduceKind::kSum, {1}, read(0, {0, 1})));
  }

  ValueId sum_all(ValueId a) {
    using namespace tdl;
    return add_op("sum_all", {a}, {}, shape(a), {},
                  make_reduce(ReduceKind::kSum, {0, 1}, read(0, {0, 1})));
  }

  /// Means of `value` [S, E], weighted by the softmax of `query` [L, E] times `key` [S, E], and the
  /// logarithm of the weights' sum [L].
  std::pair<ValueId, ValueId> attend(ValueId query, ValueId key, ValueId value) {
    using namespace tdl;
    const Shape q = shape(query), k = shape(key);
    const auto score =
        make_reduce(ReduceKind::kSum, {3}, make_call("mul", {read(0, {0, 3}), read(1, {1, 3})}));
    const std::vector<ValueId> made =
        add_op("attend", {query, key, value}, {q, {q[0]}}, {q[0], k[0], q[1], q[1]},
               {{{0, 2}, make_softmax_mean({1}, read(2, {1, 2}), score)},
                {{0}, make_reduce(ReduceKind::kLogSumExp, {1}, score)}});
    return {made[0], made[1]};
  }

  /// A compressed matrix: where its rows begin and end, and the columns in them.
  struct Structure {
    ValueId bounds, columns;
    std::shared_ptr<const tdl::Table> bound_numbers, column_numbers;
  };

  Structure structure(const std::vector<int64_t>& bounds, const std::vector<int64_t>& columns) {
    const auto constant = [&](const std::vector<int64_t>& numbers) {
      return input({static_cast<int64_t>(numbers.size())}, Role::kConstant, 8);
    };
    return {constant(bounds), constant(columns), std::make_shared<const tdl::Table>(bounds),
            std::make_shared<const tdl::Table>(columns)};
  }

  /// The rows of `features` in the columns of each row of the structure, added up.
  ValueId gather_sums(const Structure& edges, ValueId features) {
    using namespace tdl;
    const int64_t rows = shape(edges.bounds)[0] - 1, places = shape(edges.columns)[0];
    const Shape made{rows, shape(features)[1]};
    const ExprPtr row = make_index(0), next = make_call("add", {row, make_const(1)});
    const ExprPtr is_in =
        make_call("in_row", {make_index(1), make_read(0, {row}), make_read(0, {next})});
    const ExprPtr column = make_read(1, {make_index(1)});
    const ExprPtr value = make_read(2, {column, make_index(2)});
    Op op;
    op.target = "gather_sums";
    for (ValueId id : {edges.bounds, edges.columns, features}) op.args.emplace_back(ValueRef{id});
    auto spec = std::make_shared<Spec>();
    spec->indices = {{"v", rows, false}, {"e", places, false}, {"f", made[1], false}};
    spec->input_shapes = {{rows + 1}, {places}, shape(features)};
    spec->outputs = {
        {{0, 2},
         make_reduce(ReduceKind::kSum, {1}, make_call("where", {is_in, value, make_const(0)}))}};
    spec->tables = {edges.bound_numbers, edges.column_numbers, nullptr};
    check_spec(*spec);
    op.spec = spec;
    op.outputs = {input(made, Role::kIntermediate)};
    op.backward = backward;
    return graph.op(graph.add_op(std::move(op))).outputs[0];
  }

  void output(ValueId id) { graph.add_output({id, OutputKind::kOutput, "0", kNoValue}); }

  Graph graph;
  int region = kNoRegion;  ///< of the ops that are added
  bool backward = false;   ///< they belong to the backward pass, tangent or not
  std::string module;      ///< that calls them
  std::string source;      ///< the line that does

 private:
  const Shape& shape(ValueId id) const { return graph.value(id).shape; }
  static std::string dtype(int itemsize) { return itemsize == 8 ? "float64" : "float32"; }

  static tdl::ExprPtr read(int input, const std::vector<int>& indices) {
    std::vector<tdl::ExprPtr> args;
    for (int index : indices) args.push_back(tdl::make_index(index));
    return tdl::make_read(input, std::move(args));
  }

  ValueId add_op(const std::string& target, const std::vector<ValueId>& operands, Shape made,
                 const Shape& extents, std::vector<int> axes, tdl::ExprPtr body, int itemsize = 0) {
    return add_op(target, operands, {std::move(made)}, extents,
                  {{std::move(axes), std::move(body)}}, itemsize)[0];
  }

  std::vector<ValueId> add_op(const std::string& target, const std::vector<ValueId>& operands,
                              std::vector<Shape> made, const Shape& extents,
                              std::vector<tdl::Statement> outputs, int itemsize = 0) {
    Op op;
    op.target = target;
    for (ValueId id : operands) op.args.emplace_back(ValueRef{id});
    auto spec = std::make_shared<tdl::Spec>();
    for (int64_t extent : extents) {
      spec->indices.push_back({"i" + std::to_string(spec->indices.size()), extent, false});
    }
    for (ValueId id : tensor_operands(op.args)) spec->input_shapes.push_back(shape(id));
    spec->outputs = std::move(outputs);
    tdl::check_spec(*spec);
    auto& shared = specs_[{target, {spec->input_shapes, extents}}];
    if (!shared) shared = spec;
    op.spec = shared;
    if (itemsize == 0) itemsize = graph.value(operands[0]).itemsize;
    for (Shape& shape : made)
      op.outputs.push_back(input(std::move(shape), Role::kIntermediate, itemsize));
    op.region = region;
    op.backward = backward;
    op.module_path = module;
    op.source = source;
    for (ValueId id : operands) {
      const OpId producer = graph.value(id).producer;
      op.backward |=
          graph.value(id).role == Role::kTangent || (producer >= 0 && graph.op(producer).backward);
    }
    return graph.op(graph.add_op(std::move(op))).outputs;
  }

  std::map<std::pair<std::string, std::pair<std::vector<Shape>, Shape>>,
           std::shared_ptr<const tdl::Spec>>
      specs_;
};

/// A row sum of `add(x w, y)`.
inline Graph linear_graph(int64_t n, int64_t m, int64_t k) {
  Builder b;
  const ValueId x = b.input({n, k});
  const ValueId w = b.input({k, m}, Role::kParameter);
  const ValueId y = b.input({n, m});
  b.output(b.sum_rows(b.add(b.mm(x, w), y)));
  return std::move(b.graph);
}

/// Attention of `l` queries to `s` keys, whose output and sums are both used.
inline Graph attention_graph(int64_t l, int64_t s, int64_t e) {
  Builder b;
  const ValueId memory = b.input({s, e});
  const ValueId query = b.mm(b.input({l, e}), b.input({e, e}, Role::kParameter));
  const ValueId key = b.mm(memory, b.input({e, e}, Role::kParameter));
  const auto [mean, sum] = b.attend(query, key, memory);
  b.output(b.mm(mean, b.input({e, e}, Role::kParameter)));
  b.output(sum);
  return std::move(b.graph);
}

/// A random compressed matrix of so many rows and columns; some rows are empty.
inline std::pair<std::vector<int64_t>, std::vector<int64_t>> random_structure(std::mt19937& random,
                                                                              int64_t rows,
                                                                              int64_t columns) {
  std::vector<int64_t> bounds{0}, found;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t count = random() % 3 == 0 ? 0 : static_cast<int64_t>(random() % 4);
    for (int64_t n = 0; n < count; ++n) found.push_back(static_cast<int64_t>(random() % columns));
    bounds.push_back(static_cast<int64_t>(found.size()));
  }
  return {bounds, found};
}

/// A graph network: features times weights, and their sums along edges, twice.
inline Graph messages_graph(std::mt19937& random, int64_t vertices, int64_t features) {
  Builder b;
  const auto [bounds, columns] = random_structure(random, vertices, vertices);
  const auto edges = b.structure(bounds, columns);
  ValueId x = b.input({vertices, features});
  for (int layer = 0; layer < 2; ++layer) {
    x = b.gather_sums(edges, b.mm(x, b.input({features, features}, Role::kParameter)));
  }
  b.output(x);
  return std::move(b.graph);
}

/// The same graph, whose vertices are cut anywhere; some parts may be empty.
inline Graph cut_anywhere(std::mt19937& random, const Graph& graph, int workers) {
  Boundaries boundaries;
  for (const EdgeWalk& walk : edge_walks(graph)) {
    std::vector<int64_t>& ends = boundaries[walk.rows()];
    if (!ends.empty()) continue;
    ends = {0, walk.rows()};
    while (ends.size() < static_cast<size_t>(workers) + 1) {
      ends.push_back(static_cast<int64_t>(random() % (walk.rows() + 1)));
    }
    std::sort(ends.begin(), ends.end());
  }
  return with_boundaries(graph, boundaries);
}

/// A two-layer network and its loss.
inline Graph deep_graph(int64_t n, int64_t m, int64_t k) {
  Builder b;
  const ValueId x = b.input({n, k});
  const ValueId hidden = b.mm(x, b.input({k, m}, Role::kParameter));
  const ValueId back = b.mm(b.add(hidden, hidden), b.input({m, k}, Role::kParameter));
  b.output(b.sum_all(b.add(back, x)));
  return std::move(b.graph);
}

/// A forward product and both gradients.
inline Graph training_graph(int64_t n, int64_t m, int64_t k) {
  Builder b;
  const ValueId x = b.input({n, k});
  const ValueId w = b.input({k, m}, Role::kParameter);
  b.output(b.mm(x, w));
  const ValueId tangent = b.input({n, m}, Role::kTangent);
  b.graph.add_output({b.mm(b.transpose(x), tangent), OutputKind::kGradient, "w", w});
  b.graph.add_output({b.mm(tangent, b.transpose(w)), OutputKind::kGradient, "x", x});
  return std::move(b.graph);
}

/// Layers of two products, whose backward passes read all that they make; each is a region of its
/// own, or none is. Their modules are `layers.0` and so on.
inline Graph layers_graph(int64_t n, int64_t m, int64_t k, int layers, bool checkpoints) {
  Builder b;
  struct Layer {
    ValueId x, w, hidden, twice, v;
  };
  std::vector<Layer> made;
  ValueId x = b.input({n, m});
  for (int layer = 0; layer < layers; ++layer) {
    if (checkpoints) b.region = layer;
    b.module = "layers." + std::to_string(layer) + ".inner";
    const ValueId w = b.input({m, k}, Role::kParameter), v = b.input({k, m}, Role::kParameter);
    b.source = "layer.py:1";
    const ValueId hidden = b.mm(x, w), twice = b.add(hidden, hidden);
    made.push_back({x, w, hidden, twice, v});
    b.source = "layer.py:2";
    x = b.mm(twice, v);
  }
  b.output(x);
  b.region = kNoRegion;
  b.backward = true;
  ValueId tangent = b.input({n, m}, Role::kTangent);
  for (auto layer = made.rbegin(); layer != made.rend(); ++layer) {
    b.graph.add_output(
        {b.mm(b.transpose(layer->twice), tangent), OutputKind::kGradient, "v", layer->v});
    const ValueId inner = b.add(b.mm(tangent, b.transpose(layer->v)), layer->hidden);
    b.graph.add_output({b.mm(b.transpose(layer->x), inner), OutputKind::kGradient, "w", layer->w});
    tangent = b.mm(inner, b.transpose(layer->w));
  }
  return std::move(b.graph);
}

/// A weight that is used in `steps` products, and the sum of its gradients.
struct Unrolled {
  Graph graph;
  ValueId weight = kNoValue;
  std::vector<ValueId> gradients, sums;  ///< the last sum is the weight's gradient
};

inline Unrolled unrolled(int steps, int64_t n, int64_t m, int64_t k) {
  Builder b;
  Unrolled made;
  made.weight = b.input({k, m}, Role::kParameter);
  std::vector<ValueId> inputs, tangents;
  for (int s = 0; s < steps; ++s) {
    inputs.push_back(b.input({n, k}));
    b.output(b.mm(inputs.back(), made.weight));
  }
  for (int s = 0; s < steps; ++s) tangents.push_back(b.input({n, m}, Role::kTangent));
  for (int s = 0; s < steps; ++s) {
    made.gradients.push_back(b.mm(b.transpose(inputs[s]), tangents[s]));
    made.sums.push_back(s == 0 ? made.gradients.back()
                               : b.add(made.sums.back(), made.gradients.back()));
  }
  b.graph.add_output({made.sums.back(), OutputKind::kGradient, "w", made.weight});
  made.graph = std::move(b.graph);
  return made;
}

/// The same additions at two item sizes, on operands that are cut alike.
inline Graph mixed_graph(int64_t n, int64_t m) {
  Builder b;
  const ValueId narrow = b.input({n, m});
  const ValueId wide = b.cast(narrow, 8);
  b.output(b.sum_rows(b.add(narrow, narrow)));
  b.output(b.sum_rows(b.add(wide, wide)));
  b.output(b.sum_all(wide));
  b.output(b.sum_all(narrow));
  return std::move(b.graph);
}

/// Element-wise calls among others, forward and backward, of values that are read once or more
/// often. Numbers stay finite.
inline Graph elementwise_graph(std::mt19937& random, int calls) {
  const int64_t n = 4, m = 6;
  Builder b;
  const ValueId weight = b.input({m, m}, Role::kParameter);
  std::vector<ValueId> values{b.input({n, m}), b.input({n, m})};
  const auto any = [&] {
    return values[values.size() - 1 - random() % std::min<size_t>(values.size(), 5)];
  };
  for (int pass = 0; pass < 2; ++pass) {
    b.backward = pass == 1;
    if (pass == 1) values.push_back(b.input({n, m}, Role::kTangent));
    for (int call = 0; call < calls; ++call) {
      switch (random() % 8) {
        case 0:
          values.push_back(b.mm(any(), weight));
          break;
        case 1:
          values.push_back(b.transpose(b.transpose(any())));
          break;
        case 2:
          b.graph.add_output({b.sum_rows(any()), OutputKind::kOutput, "0", kNoValue});
          break;
        case 3:
        case 4:
          values.push_back(b.map(random() % 2 ? "tanh" : "neg", {any()}));
          break;
        default:
          values.push_back(b.map(random() % 2 ? "sub" : "max", {any(), any()}));
      }
    }
    b.output(any());
  }
  b.graph.add_output({values.back(), OutputKind::kGradient, "x", values[0]});
  return std::move(b.graph);
}

/// Any cut of every value and any split of every op, good or bad.
inline Plan random_plan(std::mt19937& random, const Graph& graph, const Mesh& mesh) {
  Plan plan;
  plan.mesh = mesh;
  for (const Value& value : graph.values()) {
    Choices& choices = plan.values.emplace_back();
    for (size_t s = 0; s < mesh.size(); ++s) {
      choices.push_back(static_cast<int>(random() % (value.shape.size() + 1)) - 1);
    }
  }
  for (const Op& op : graph.ops()) {
    const auto splits = tdl::derive_splits(*op.spec);
    Choices& choices = plan.ops.emplace_back();
    for (size_t s = 0; s < mesh.size(); ++s) {
      const size_t pick = random() % (splits.size() + 1);
      choices.push_back(pick == splits.size() ? kReplicate : splits[pick].index);
    }
  }
  return plan;
}

/// Weightings of a graph: of all workers alike, of some that get nothing, and of one alone.
inline void weigh(std::mt19937& random, int workers, Graph& graph) {
  std::vector<Weighting> weightings{{"random", {}}, {"some", {}}, {"one", {}}};
  for (int w = 0; w < workers; ++w) {
    weightings[0].shares.push_back(static_cast<double>(1 + random() % 5));
    weightings[1].shares.push_back(w == 0 ? 1 : static_cast<double>(random() % 3));
    weightings[2].shares.push_back(w + 1 == workers ? 1 : 0);
  }
  graph.give_weightings(std::move(weightings));
}

/// Cuts a plan by the weightings of `weigh`, and leaves values and ops to single coordinates.
inline void weigh_choices(std::mt19937& random, Plan& plan) {
  for (std::vector<Choices>* const all : {&plan.values, &plan.ops}) {
    for (Choices& choices : *all) {
      for (size_t s = 0; s < choices.size(); ++s) {
        if (random() % 5 == 0) {
          choices[s] = only_at(static_cast<int>(random() % plan.mesh[s]));
        } else if (choices[s] >= 0) {
          choices[s] = weighted(choices[s], static_cast<int>(random() % 4));
        }
      }
    }
  }
}

}  // namespace smex::test
