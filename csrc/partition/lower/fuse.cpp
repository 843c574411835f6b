#include "partition/lower/fuse.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "partition/lower/sums_by_peer.h"

namespace smex {

namespace {

class Selection {
 public:
  Selection(const Graph& graph, const DimClasses& classes, const Plan& plan)
      : graph_(graph), classes_(classes), plan_(plan) {
    for (const GraphOutput& output : graph.outputs()) graph_outputs_.insert(output.value);
  }

  std::vector<Call> run() const {
    std::vector<const Fusion*> chosen(graph_.ops().size(), nullptr);
    std::map<const Fusion*, Choices> choices;
    // A fusion may lie in a larger one, which goes first.
    std::vector<const Fusion*> candidates;
    for (const Fusion& fusion : graph_.fusions()) candidates.push_back(&fusion);
    std::stable_sort(candidates.begin(), candidates.end(), [](const Fusion* a, const Fusion* b) {
      return a->members.size() > b->members.size();
    });
    for (const Fusion* fusion : candidates) {
      const auto& members = fusion->members;
      if (std::any_of(members.begin(), members.end(), [&](OpId id) { return chosen[id]; }))
        continue;
      if (!nobody_looks_inside(*fusion) || any_pending(*fusion) || is_by_peer(*fusion)) continue;
      const std::optional<Choices> found = fused_choices(*fusion);
      if (!found) continue;
      choices[fusion] = *found;
      for (OpId member : members) chosen[member] = fusion;
    }
    std::vector<Call> calls;
    for (const Op& op : graph_.ops()) {
      const Fusion* fusion = chosen[op.id];
      if (!fusion) {
        calls.push_back({&op, plan_.ops[op.id], op.backward});
      } else if (op.id == fusion->members.front()) {
        calls.push_back({&fusion->fused, choices[fusion], fusion->fused.backward});
      }
    }
    return calls;
  }

 private:
  /// Whether what the members make, other than the fusion's outputs, stays among them.
  bool nobody_looks_inside(const Fusion& fusion) const {
    const std::set<OpId> members(fusion.members.begin(), fusion.members.end());
    const std::set<ValueId> made(fusion.fused.outputs.begin(), fusion.fused.outputs.end());
    for (OpId member : fusion.members) {
      for (ValueId output : graph_.op(member).outputs) {
        if (output == kNoValue || made.count(output)) continue;
        if (graph_outputs_.count(output)) return false;
        for (OpId user : graph_.value(output).users) {
          if (!members.count(user)) return false;
        }
      }
    }
    return true;
  }

  /// Whether a member computes with addends; the fused call may not be linear.
  bool any_pending(const Fusion& fusion) const {
    return std::any_of(fusion.members.begin(), fusion.members.end(), [&](OpId member) {
      const Choices& choices = plan_.ops[member];
      return std::find(choices.begin(), choices.end(), kPending) != choices.end();
    });
  }

  /// Whether members are added up by peer, which one call cannot.
  bool is_by_peer(const Fusion& fusion) const {
    const auto& members = fusion.members;
    return plan_.by_peer && std::any_of(members.begin(), members.end(), [&](OpId member) {
             return is_sum_of_messages(graph_.op(member));
           });
  }

  /// The choices under which the fused op makes exactly its members' output tiles, if there are
  /// any.
  std::optional<Choices> fused_choices(const Fusion& fusion) const {
    if (!fusion.fused.spec) {  // runs only where nothing is split
      return plan_.mesh.empty() ? std::optional(Choices{}) : std::nullopt;
    }
    const auto& splits = classes_.splits(fusion.fused);
    bool reduces = false;
    std::vector<std::vector<int>> candidates;  // by step
    for (size_t step = 0; step < plan_.mesh.size(); ++step) {
      candidates.push_back(step_candidates(fusion, splits, step, reduces));
      if (candidates.back().empty()) return std::nullopt;
    }
    int64_t bytes = 0;
    for (OpId member : fusion.members) bytes += op_bytes(graph_, classes_, plan_, member);
    if (!reduces) {  // one candidate a step: an output's dimension tells which index is cut
      Choices choices;
      for (const auto& step : candidates) choices.push_back(step.front());
      if (op_bytes(graph_, classes_, plan_, fusion.fused, choices) > bytes) return std::nullopt;
      return choices;
    }
    return same_bytes(fusion.fused, candidates, bytes, {});
  }

  /// The indices of the fused op that cut every output as its member does in this step. Of a split
  /// reduction any index will do that reduces alike: the partial results have the same sum.
  std::vector<int> step_candidates(const Fusion& fusion, const std::vector<tdl::Split>& splits,
                                   size_t step, bool& reduces) const {
    std::optional<std::vector<int>> agreed;
    for (size_t o = 0; o < fusion.fused.outputs.size(); ++o) {
      const ValueId output = fusion.fused.outputs[o];
      if (output == kNoValue) continue;
      const Op& member = graph_.op(graph_.value(output).producer);
      std::vector<int> found = translate(member, output, fusion.fused, splits, o, step);
      reduces = reduces || found.size() > 1 || is_reduction(splits, found);
      if (agreed) {
        std::erase_if(found, [&](int index) {
          return std::find(agreed->begin(), agreed->end(), index) == agreed->end();
        });
      }
      agreed = std::move(found);
    }
    return agreed.value_or(std::vector<int>{});
  }

  static bool is_reduction(const std::vector<tdl::Split>& splits, const std::vector<int>& indices) {
    return std::any_of(splits.begin(), splits.end(), [&](const tdl::Split& split) {
      return split.any_reduces() && !indices.empty() && split.index == cut_of(indices.front());
    });
  }

  /// The fused op's indices that cut `output` as its member does in this step.
  std::vector<int> translate(const Op& member, ValueId output, const Op& fused,
                             const std::vector<tdl::Split>& splits, size_t position,
                             size_t step) const {
    const int choice = plan_.ops[member.id][step];
    if (choice == kReplicate || is_only(choice)) return {choice};
    const int member_output = graph_.value(output).output_index;
    const auto& axes = member.spec->outputs[member_output].axes;
    const auto axis = std::find(axes.begin(), axes.end(), cut_of(choice));
    const bool reduction = axis == axes.end();
    const auto& fused_axes = fused.spec->outputs.at(position).axes;
    if (fused_axes.size() != axes.size()) return {};
    const int wanted = reduction ? -1 : fused_axes[axis - axes.begin()];
    std::vector<int> found;
    for (const tdl::Split& split : splits) {
      if (split.reduces[position].has_value() == reduction &&
          (reduction || split.index == wanted)) {
        found.push_back(weighted(split.index, weighting_of(choice)));
      }
    }
    return found;
  }

  /// The first choices of the candidates under which the fused op moves just `bytes`.
  std::optional<Choices> same_bytes(const Op& fused,
                                    const std::vector<std::vector<int>>& candidates, int64_t bytes,
                                    const Choices& chosen) const {
    if (chosen.size() == candidates.size()) {
      if (op_bytes(graph_, classes_, plan_, fused, chosen) != bytes) return std::nullopt;
      return chosen;
    }
    for (int index : candidates[chosen.size()]) {
      Choices more = chosen;
      more.push_back(index);
      if (auto found = same_bytes(fused, candidates, bytes, more)) return found;
    }
    return std::nullopt;
  }

  const Graph& graph_;
  const DimClasses& classes_;
  const Plan& plan_;
  std::set<ValueId> graph_outputs_;
};

}  // namespace

std::vector<Call> select_calls(const Graph& graph, const DimClasses& classes, const Plan& plan) {
  return Selection(graph, classes, plan).run();
}

}  // namespace smex
