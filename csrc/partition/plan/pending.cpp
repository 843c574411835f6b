#include "partition/plan/pending.h"

#include <algorithm>
#include <map>

#include "tdl/spec.h"

namespace smex {

namespace {

class PendingValues {
 public:
  explicit PendingValues(const Graph& graph) : graph_(graph) {
    for (const Value& value : graph.values()) {
      const bool is_float = value.dtype.find("float") != std::string::npos;
      candidates_.push_back(is_float && value.producer >= 0 && !value.users.empty());
    }
    for (const GraphOutput& output : graph.outputs()) {
      if (output.value != kNoValue) candidates_[output.value] = false;
    }
  }

  std::vector<bool> take() {
    do {
      while (keep_if([this](const Value& value) { return is_made(value) && is_used(value); })) {
      }
      find_gains();
    } while (keep_if([this](const Value& value) { return gains_[value.id]; }));
    return std::move(candidates_);
  }

 private:
  struct Known {
    std::vector<uint64_t> linear_sets;
    std::vector<bool> is_sum;  ///< by output: a split makes addends of it
  };

  const Known& known(const Op& op) {
    const auto [it, fresh] = known_.try_emplace(op.spec.get());
    if (!fresh || !op.spec || op.random) return it->second;
    Known& known = it->second;
    known.linear_sets = tdl::linear_sets(*op.spec);
    known.is_sum.assign(op.outputs.size(), false);
    for (const tdl::Split& split : tdl::derive_splits(*op.spec)) {
      for (size_t o = 0; o < op.outputs.size(); ++o) {
        if (split.reduces[o] == tdl::ReduceKind::kSum) known.is_sum[o] = true;
      }
    }
    return known;
  }

  /// Whether `holds` says true of a set in which the op is linear, of candidates only.
  template <typename Holds>
  bool any_set(const Op& op, const Holds& holds) {
    for (const uint64_t set : known(op).linear_sets) {
      bool possible = true;
      int size = 0;
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        if (!(set >> i & 1)) continue;
        possible = possible && candidates_[op.inputs[i]];
        ++size;
      }
      if (possible && holds(set, size)) return true;
    }
    return false;
  }

  /// Whether a set in which the op is linear has the value in it, and `holds` of the set's size.
  template <typename Holds>
  bool any_set_of(const Op& op, ValueId id, const Holds& holds) {
    const auto position = std::find(op.inputs.begin(), op.inputs.end(), id) - op.inputs.begin();
    return any_set(op,
                   [&](uint64_t set, int size) { return (set >> position & 1) && holds(size); });
  }

  bool is_made(const Value& value) {
    const Op& op = graph_.op(value.producer);
    const auto& sums = known(op).is_sum;
    if (!sums.empty() && sums[value.output_index]) return true;
    return any_set(op, [](uint64_t, int) { return true; });
  }

  bool is_used(const Value& value) {
    return std::all_of(value.users.begin(), value.users.end(), [&](OpId user) {
      return any_set_of(graph_.op(user), value.id, [](int) { return true; });
    });
  }

  /// From the last op to the first: what is added to another, is made smaller, or gains later.
  void find_gains() {
    gains_.assign(graph_.values().size(), false);
    for (auto op = graph_.ops().rbegin(); op != graph_.ops().rend(); ++op) {
      for (ValueId input : op->inputs) {
        if (!candidates_[input] || gains_[input]) continue;
        gains_[input] = any_set_of(*op, input, [&](int size) {
          return size > 1 || std::any_of(op->outputs.begin(), op->outputs.end(), [&](ValueId made) {
                   return made != kNoValue && (gains_[made] || graph_.value(made).bytes() <
                                                                   graph_.value(input).bytes());
                 });
        });
      }
    }
  }

  /// Gives up the candidates of which `holds` says false; true if there were any.
  template <typename Holds>
  bool keep_if(const Holds& holds) {
    bool changed = false;
    for (const Value& value : graph_.values()) {
      if (!candidates_[value.id] || holds(value)) continue;
      candidates_[value.id] = false;
      changed = true;
    }
    return changed;
  }

  const Graph& graph_;
  std::vector<bool> candidates_, gains_;
  std::map<const tdl::Spec*, Known> known_;
};

}  // namespace

std::vector<bool> may_stay_pending(const Graph& graph) { return PendingValues(graph).take(); }

}  // namespace smex
