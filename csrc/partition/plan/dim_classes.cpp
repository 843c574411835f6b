#include "partition/plan/dim_classes.h"

#include <algorithm>
#include <numeric>

#include "ir/error.h"

namespace smex {

using tdl::ExprKind;
using tdl::ExprPtr;

namespace {

/// Calls `visit(input, dim, index)` for every dimension of a read that is one index alone.
template <typename Visit>
void visit_lone_indices(const ExprPtr& expr, const Visit& visit) {
  if (expr->kind == ExprKind::kRead) {
    for (size_t d = 0; d < expr->args.size(); ++d) {
      if (expr->args[d]->kind == ExprKind::kIndex) visit(expr->input, d, expr->args[d]->index);
    }
  }
  for (const ExprPtr& arg : expr->args) visit_lone_indices(arg, visit);
}

}  // namespace

DimClasses::DimClasses(const Graph& graph) {
  int nodes = 0;
  for (const Value& value : graph.values()) {
    offset_.push_back(nodes);
    nodes += static_cast<int>(value.shape.size());
  }
  parent_.resize(nodes);
  std::iota(parent_.begin(), parent_.end(), 0);
  op_nodes_.resize(graph.ops().size());
  for (const Op& op : graph.ops()) {
    if (!op.spec) continue;
    std::vector<int>& linked = op_nodes_[op.id];
    linked.assign(op.spec->indices.size(), -1);
    auto link = [&](ValueId value, size_t dim, int index) {
      if (graph.value(value).shape.at(dim) != op.spec->indices[index].extent) return;
      const int node = offset_[value] + static_cast<int>(dim);
      if (linked[index] < 0) {
        linked[index] = node;
      } else {
        parent_[find(node)] = find(linked[index]);
      }
    };
    for (size_t o = 0; o < op.spec->outputs.size() && o < op.outputs.size(); ++o) {
      const tdl::Statement& statement = op.spec->outputs[o];
      if (!statement.body) continue;
      if (op.outputs[o] != kNoValue) {
        for (size_t d = 0; d < statement.axes.size(); ++d) {
          link(op.outputs[o], d, statement.axes[d]);
        }
      }
      visit_lone_indices(statement.body, [&](int input, size_t dim, int index) {
        link(op.inputs[input], dim, index);
      });
    }
  }
  // A gradient lies where its parameter lies, and a buffer's new value where the buffer does.
  for (const GraphOutput& output : graph.outputs()) {
    if (output.value == kNoValue || output.target == kNoValue) continue;
    const size_t rank = graph.value(output.value).shape.size();
    if (graph.value(output.target).shape.size() != rank) continue;
    for (size_t d = 0; d < rank; ++d) {
      parent_[find(offset_[output.value] + static_cast<int>(d))] =
          find(offset_[output.target] + static_cast<int>(d));
    }
  }
  weightings_ = graph.weightings();
  std::vector<Grain> own(nodes, Grain{1, nullptr, weightings_.get()});
  for (const GivenParts& given : graph.given_parts()) {
    own[find(offset_[given.value] + static_cast<int>(given.dim))].bounds = given.ends;
  }
  const auto derive = [&](const Op& op) {
    const auto [known, fresh] = splits_.try_emplace(op.spec.get());
    if (fresh && op.spec) known->second = tdl::derive_splits(*op.spec);
  };
  for (const Op& op : graph.ops()) derive(op);
  for (const Fusion& fusion : graph.fusions()) derive(fusion.fused);
  for (const Op& op : graph.ops()) {
    for (const tdl::Split& split : splits(op)) {
      const int node = op_nodes_[op.id][split.index];
      if (node >= 0) {
        Grain& grain = own[find(node)];
        grain = grain.along(split.granule);
      }
    }
  }
  for (int node = 0; node < nodes; ++node) grains_.push_back(own[find(node)]);
}

int DimClasses::find(int node) const {
  while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
  return node;
}

Grain DimClasses::grain(ValueId value, size_t dim) const { return grains_[offset_[value] + dim]; }

std::vector<Grain> DimClasses::grains(ValueId value) const {
  const bool is_last = static_cast<size_t>(value) + 1 == offset_.size();
  const auto end = is_last ? grains_.end() : grains_.begin() + offset_[value + 1];
  return {grains_.begin() + offset_[value], end};
}

const std::vector<tdl::Split>& DimClasses::splits(const Op& op) const {
  const auto known = splits_.find(op.spec.get());
  if (known == splits_.end()) {
    throw InternalError("dimensions: " + op.target + " has a Spec that no call of the graph has");
  }
  return known->second;
}

Grain DimClasses::grain(const Op& op, int index) const {
  if (op.id >= 0) {
    const int node = op_nodes_[op.id][index];
    return node < 0 ? Grain{1, nullptr, weightings_.get()} : grains_[node];
  }
  // A fused call is no op of the graph, but its outputs are values of it.
  for (size_t o = 0; o < op.outputs.size(); ++o) {
    if (op.outputs[o] == kNoValue) continue;
    const auto& axes = op.spec->outputs.at(o).axes;
    const auto axis = std::find(axes.begin(), axes.end(), index);
    if (axis != axes.end()) return grain(op.outputs[o], axis - axes.begin());
  }
  return {1, nullptr, weightings_.get()};
}

}  // namespace smex
