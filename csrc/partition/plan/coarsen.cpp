#include "partition/plan/coarsen.h"

#include <map>
#include <numeric>
#include <tuple>

namespace smex {

using tdl::ExprKind;
using tdl::ExprPtr;

namespace {

class UnionFind {
 public:
  /// Of `count` values; those of `apart` are united with each other only.
  UnionFind(size_t count, const std::vector<bool>& apart) : parent_(count), apart_(apart) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  int find(int node) {
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }
  bool unite(int a, int b) {
    a = find(a);
    b = find(b);
    if (a == b || (!apart_.empty() && apart_[a] != apart_[b])) return false;
    parent_[std::max(a, b)] = std::min(a, b);
    return true;
  }

 private:
  std::vector<int> parent_;
  const std::vector<bool>& apart_;
};

bool reads_pointwise(const ExprPtr& expr, const tdl::Spec& spec, const std::vector<int>& axes) {
  if (expr->kind == ExprKind::kReduce || expr->kind == ExprKind::kOpaque) return false;
  if (expr->kind == ExprKind::kRead) {
    const size_t rank = expr->args.size();
    if (rank > axes.size()) return false;
    for (size_t d = 0; d < rank; ++d) {
      const tdl::Expr& index = *expr->args[d];
      const bool own =
          index.kind == ExprKind::kIndex && index.index == axes[axes.size() - rank + d];
      const bool broadcast =
          index.kind == ExprKind::kConst && spec.input_shapes[expr->input][d] == 1;
      if (!own && !broadcast) return false;
    }
    return true;
  }
  for (const ExprPtr& arg : expr->args) {
    if (!reads_pointwise(arg, spec, axes)) return false;
  }
  return true;
}

/// What must be equal for two ops to be one class, given the groups of their operands.
/// Item sizes are part of it: groups merge values of different dtypes.
using ClassKey =
    std::tuple<const tdl::Spec*, std::string, std::vector<int>, std::vector<int>, std::vector<int>>;

}  // namespace

bool is_pointwise(const tdl::Spec& spec) {
  for (const tdl::Statement& statement : spec.outputs) {
    if (statement.body && !reads_pointwise(statement.body, spec, statement.axes)) return false;
  }
  return true;
}

bool is_data_movement(const tdl::Spec& spec) {
  return spec.outputs.size() == 1 && spec.outputs[0].body &&
         spec.outputs[0].body->kind == ExprKind::kRead && !spec.outputs[0].body->pad;
}

namespace {

void merge_pointwise(const Graph& graph, UnionFind& groups) {
  std::map<const tdl::Spec*, bool> pointwise;
  for (const Op& op : graph.ops()) {
    if (!op.spec || op.outputs.empty() || op.outputs[0] == kNoValue) continue;
    auto [it, fresh] = pointwise.try_emplace(op.spec.get(), false);
    if (fresh) it->second = is_pointwise(*op.spec);
    if (!it->second) continue;
    const ValueId output = op.outputs[0];
    for (ValueId input : op.inputs) {
      if (graph.value(input).shape == graph.value(output).shape) groups.unite(input, output);
    }
  }
}

void merge_gradients(const Graph& graph, UnionFind& groups) {
  for (const GraphOutput& output : graph.outputs()) {
    if (output.target == kNoValue || output.value == kNoValue) continue;
    if (graph.value(output.value).shape == graph.value(output.target).shape) {
      groups.unite(output.value, output.target);
    }
  }
}

/// Merges operands and outputs of ops that apply one parameter in the same way; true on change.
bool merge_steps(const Graph& graph, UnionFind& groups) {
  std::map<std::tuple<const tdl::Spec*, std::string, size_t, int>, OpId> first;
  bool changed = false;
  for (const Op& op : graph.ops()) {
    if (!op.spec) continue;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const int group = groups.find(op.inputs[i]);
      if (graph.value(group).role != Role::kParameter) continue;
      const auto [it, fresh] = first.try_emplace({op.spec.get(), op.target, i, group}, op.id);
      if (fresh) continue;
      const Op& other = graph.op(it->second);
      for (size_t j = 0; j < op.inputs.size(); ++j) {
        changed |= groups.unite(op.inputs[j], other.inputs[j]);
      }
    }
  }
  return changed;
}

/// Merges outputs of equal ops on merged operands; true on change.
bool merge_congruent(const Graph& graph, UnionFind& groups) {
  std::map<std::tuple<const tdl::Spec*, std::string, std::vector<int>>, OpId> first;
  bool changed = false;
  for (const Op& op : graph.ops()) {
    if (!op.spec || op.inputs.empty()) continue;
    std::vector<int> operands;
    for (ValueId input : op.inputs) operands.push_back(groups.find(input));
    const auto [it, fresh] = first.try_emplace({op.spec.get(), op.target, operands}, op.id);
    if (fresh) continue;
    const Op& other = graph.op(it->second);
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      if (op.outputs[o] == kNoValue || other.outputs[o] == kNoValue) continue;
      changed |= groups.unite(op.outputs[o], other.outputs[o]);
    }
  }
  return changed;
}

}  // namespace

CoarseGraph coarsen(const Graph& graph, const std::vector<bool>& apart, Merge merge) {
  UnionFind groups(graph.values().size(), apart);
  merge_gradients(graph, groups);
  if (merge >= Merge::kPointwise) merge_pointwise(graph, groups);
  for (bool changed = merge >= Merge::kSteps; changed;) {
    changed = merge_steps(graph, groups);
    changed |= merge_congruent(graph, groups);
  }
  CoarseGraph coarse;
  std::map<int, int> number;
  for (const Value& value : graph.values()) {
    const auto [it, fresh] =
        number.try_emplace(groups.find(value.id), static_cast<int>(coarse.groups.size()));
    if (fresh) coarse.groups.emplace_back();
    coarse.group_of.push_back(it->second);
    coarse.groups[it->second].push_back(value.id);
  }
  std::map<ClassKey, int> classes;
  for (const Op& op : graph.ops()) {
    ClassKey key{op.spec.get(), op.target, {}, {}, {}};
    for (ValueId input : op.inputs) {
      std::get<2>(key).push_back(coarse.group_of[input]);
      std::get<4>(key).push_back(graph.value(input).itemsize);
    }
    for (ValueId output : op.outputs) {
      std::get<3>(key).push_back(output == kNoValue ? -1 : coarse.group_of[output]);
      std::get<4>(key).push_back(output == kNoValue ? 0 : graph.value(output).itemsize);
    }
    const auto [it, fresh] = classes.try_emplace(key, static_cast<int>(coarse.classes.size()));
    if (fresh) coarse.classes.emplace_back();
    coarse.class_of.push_back(it->second);
    coarse.classes[it->second].push_back(op.id);
  }
  return coarse;
}

}  // namespace smex
