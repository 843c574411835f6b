#include <algorithm>
#include <cmath>

#include "graph/stream/stream.h"

namespace smex::graph {
namespace {

// So many neighbours later one's part is read: a miss in the caches takes about as long.
constexpr int64_t kAhead = 32;

/// Parts as one node sees them.
class Choice {
 public:
  explicit Choice(const StreamRule& rule) : rule_(rule), near_(rule.num_parts, 0) {}

  /// The part with the best score: of those with room, of all where none has any.
  int32_t best(const int64_t* loads, int64_t capacity) const {
    int32_t best = -1;
    double best_score = 0;
    for (const bool needs_room : {true, false}) {
      for (int32_t p = 0; p < rule_.num_parts; ++p) {
        if (needs_room && loads[p] >= capacity) continue;
        const double score = needs_room ? score_of(p, loads[p], capacity) : 0;
        if (best < 0 || score > best_score || (score == best_score && loads[p] < loads[best])) {
          best = p;
          best_score = score;
        }
      }
      if (best >= 0) break;
    }
    return best;
  }

  std::vector<int64_t>& near() { return near_; }

 private:
  double score_of(int32_t part, int64_t load, int64_t capacity) const {
    const auto near = static_cast<double>(near_[part]), full = static_cast<double>(load);
    if (rule_.is_ldg) return near * (1 - full / static_cast<double>(capacity));
    return near - rule_.alpha * 1.5 * std::sqrt(full);
  }

  const StreamRule& rule_;
  std::vector<int64_t> near_;  // neighbours in each part
};

}  // namespace

template <typename Index>
int64_t assign_stream(const int64_t* indptr, const Index* neighbors, int64_t first,
                      int64_t num_nodes, const StreamRule& rule, int32_t* parts, int64_t* loads) {
  Choice choice(rule);
  int64_t moved = 0;
  const Index* const last = neighbors + (indptr[num_nodes] - indptr[0]) - 1;
  for (int64_t i = 0; i < num_nodes; ++i) {
    const Index* const begin = neighbors + (indptr[i] - indptr[0]);
    const Index* const end = neighbors + (indptr[i + 1] - indptr[0]);
    for (const Index* n = begin; n < end; ++n) {
      __builtin_prefetch(parts + n[std::min(kAhead, last - n)]);
      if (parts[*n] >= 0) ++choice.near()[parts[*n]];
    }
    const int64_t node = first + i, kind = rule.kinds ? rule.kinds[node] : 0;
    int64_t* const own_loads = loads + kind * rule.num_parts;
    const int32_t part = choice.best(own_loads, rule.capacities[kind]);
    // Zeroed by neighbour where that is shorter than by part, and before the part changes.
    if (end - begin < rule.num_parts) {
      for (const Index* n = begin; n < end; ++n) {
        if (parts[*n] >= 0) choice.near()[parts[*n]] = 0;
      }
    } else {
      choice.near().assign(rule.num_parts, 0);
    }
    moved += parts[node] != part;
    parts[node] = part;
    own_loads[part] += rule.weighs_edges ? 1 + (end - begin) : 1;
  }
  return moved;
}

template int64_t assign_stream<int32_t>(const int64_t*, const int32_t*, int64_t, int64_t,
                                        const StreamRule&, int32_t*, int64_t*);
template int64_t assign_stream<int64_t>(const int64_t*, const int64_t*, int64_t, int64_t,
                                        const StreamRule&, int32_t*, int64_t*);

}  // namespace smex::graph
