#include "partition/search/recursion/domains.h"

#include <algorithm>

namespace smex {

Strategy Strategy::longer(int choice, uint64_t set) const {
  Strategy more = *this;
  more.choices.push_back(choice);
  more.pending.push_back(set);
  return more;
}

Domains::Domains(const MergedGraph& merged, const SearchOptions& options, OpGrids& grids,
                 const Plan& plan, Steps steps)
    : merged_(merged),
      options_(options),
      rules_(rules_of(options.planner)),
      grids_(grids),
      plan_(plan),
      steps_(steps) {
  for (size_t group = 0; group < merged.groups.size(); ++group) groups_.push_back(cuts(group));
}

Domain Domains::cuts(size_t group) const {
  for (ValueId id : merged_.coarse.groups[group]) {
    const auto pin = options_.pinned.find(id);
    if (pin == options_.pinned.end()) continue;
    const auto first = pin->second.begin() + static_cast<std::ptrdiff_t>(steps_.first);
    return {Choices(first, first + static_cast<std::ptrdiff_t>(steps_.count))};
  }
  Domain domain{{}};
  for (size_t chosen = 0; chosen < steps_.count; ++chosen) {
    Domain longer;
    for (const Choices& cut : domain) {
      for (int dim : next_cuts(group, cut)) {
        longer.push_back(cut);
        longer.back().push_back(dim);
      }
    }
    domain = std::move(longer);
  }
  return domain;
}

/// What a group may do in the step after those of `cut`.
std::vector<int> Domains::next_cuts(size_t number, const Choices& cut) const {
  const Group& group = merged_.groups[number];
  const Value& value = merged_.graph.value(merged_.coarse.groups[number].front());
  const size_t rank = value.shape.size();
  const int parts = plan_.mesh[steps_.first + cut.size()];
  const Tile tile =
      value_tile(value.shape, steps_.others(plan_.values[value.id], cut),
                 steps_.others_and(plan_.mesh, cut.size()), 0, merged_.grains[value.id]);
  const bool data_parallel = rules_.replicate_parameters;
  std::vector<int> dims;
  const bool rows_only = rules_.rows_only || (data_parallel && group.boundary);
  for (size_t d = 0; d < (rows_only ? std::min<size_t>(1, rank) : rank); ++d) {
    if (data_parallel && group.parameter) break;
    if (has_parts(group.grains[d], value.shape[d], tile.region.dims[d].size(), parts)) {
      dims.push_back(weighted(static_cast<int>(d), options_.weighting));
    }
  }
  const bool free = value.bytes() <= options_.replicate_bytes || (data_parallel && !group.boundary);
  if (dims.empty() || free) dims.push_back(kReplicate);
  if (!merged_.may_pend.empty() && merged_.may_pend[value.id]) dims.push_back(kPending);
  return dims;
}

std::vector<Strategy> Domains::of_op(const Op& op) const {
  std::vector<Strategy> domain{{}};
  for (size_t chosen = 0; chosen < steps_.count; ++chosen) {
    std::vector<Strategy> longer;
    for (const Strategy& strategy : domain) add_longer(op, strategy, longer);
    domain = std::move(longer);
  }
  return domain;
}

/// Adds the strategies that do the same as this one, and then something in the next step.
void Domains::add_longer(const Op& op, const Strategy& strategy,
                         std::vector<Strategy>& found) const {
  const bool divides = add_splits(op, strategy, found);
  if (!divides || free_to_repeat(op)) found.push_back(strategy.longer(kReplicate));
  if (!rules_.pending || !op.spec || op.random) return;
  for (const uint64_t set : grids_.linear_sets(op)) {
    if (all_may_pend(op, set, strategy.choices.size())) {
      found.push_back(strategy.longer(kPending, set));
    }
  }
}

/// Adds the splits; whether one makes no partial results.
bool Domains::add_splits(const Op& op, const Strategy& strategy,
                         std::vector<Strategy>& found) const {
  if (!op.spec) return false;
  const size_t chosen = strategy.choices.size();
  const int parts = plan_.mesh[steps_.first + chosen];
  const OpGrid grid = grids_.make(op, steps_.others(plan_.ops[op.id], strategy.choices),
                                  steps_.others_and(plan_.mesh, chosen));
  bool divides = false;
  const std::vector<tdl::Split>& splits = grids_.splits(op);
  const size_t step = steps_.first + chosen;
  const bool some = std::any_of(splits.begin(), splits.end(), [&](const tdl::Split& split) {
    return cuts_messages_so(op, split, step);
  });
  for (const tdl::Split& split : splits) {
    if (!rules_.reductions && split.any_reduces()) continue;
    if (some && !cuts_messages_so(op, split, step)) continue;
    const int64_t extent = op.spec->indices[split.index].extent;
    const int64_t size =
        grid.indices.empty() ? extent : grid.indices[split.index].parts.front().size();
    const Grain grain = merged_.classes.grain(op, split.index).along(split.granule);
    if (!has_parts(grain, extent, size, parts)) continue;
    found.push_back(strategy.longer(weighted(split.index, options_.weighting)));
    divides = divides || !split.any_reduces();
  }
  return divides;
}

/// Whether what is `left` of a range is long enough for so many parts. Cut by weights the parts
/// differ, and some may be empty: the range is, where it is long enough for all workers.
bool Domains::has_parts(const Grain& grain, int64_t whole, int64_t left, int parts) const {
  if (options_.weighting == 0) return grain.has_parts(left, parts);
  return grain.has_parts(whole, mesh_size(plan_.mesh));
}

const Weighting* Domains::weighting() const {
  if (options_.weighting == 0) return nullptr;
  return &merged_.graph.weightings()->at(options_.weighting - 1);
}

/// Whether the planner cuts a call that walks a graph's edges so; any other call is cut in any way.
bool Domains::cuts_messages_so(const Op& op, const tdl::Split& split, size_t step) const {
  const Rules::Messages asked = rules_.messages_in(step);
  if (asked == Rules::Messages::kAny) return true;
  const std::vector<tdl::RowPlaces> walks = tdl::row_places(*op.spec);
  if (walks.empty()) return true;
  bool by_row = false, by_place = false;
  for (const tdl::RowPlaces& rows : walks) {
    by_row = by_row || split.index == rows.row;
    by_place = by_place || split.index == rows.place;
  }
  switch (asked) {
    case Rules::Messages::kByEdges:
      return by_place;
    case Rules::Messages::kByVertices:  // of edges that are not summed up each vertex has its own
      return by_row || (by_place && !split.any_reduces());
    default:
      return !by_row && !by_place;
  }
}

/// What is small, only moves data, or computes on parameters that everybody holds whole.
bool Domains::free_to_repeat(const Op& op) const {
  int64_t made = 0;
  for (ValueId output : op.outputs) {
    if (output != kNoValue) made += merged_.graph.value(output).bytes();
  }
  if (made <= options_.replicate_bytes || (op.spec && is_data_movement(*op.spec))) return true;
  const Domain replicas{Choices(steps_.count, kReplicate)};
  return rules_.replicate_parameters &&
         std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId input) {
           return groups_[merged_.coarse.group_of[input]] == replicas;
         });
}

bool Domains::all_may_pend(const Op& op, uint64_t set, size_t chosen) const {
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!(set >> i & 1)) continue;
    const Domain& domain = groups_[merged_.coarse.group_of[op.inputs[i]]];
    if (std::none_of(domain.begin(), domain.end(),
                     [&](const Choices& cut) { return cut[chosen] == kPending; })) {
      return false;
    }
  }
  return true;
}

}  // namespace smex
