#include "partition/factor_graph.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <queue>

namespace smex {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Elimination {
 public:
  Elimination(const FactorGraph& graph, int64_t max_table, double max_work)
      : graph_(graph), max_table_(max_table), max_work_(max_work) {
    const size_t count = graph.domain_sizes.size();
    buckets_.resize(count);
    neighbours_.resize(count);
    used_.resize(count);
    for (const Factor& factor : graph.factors) add(&factor);
  }

  /// Nothing where it is more work than allowed.
  std::optional<Assignment> run() {
    const int count = static_cast<int>(graph_.domain_sizes.size());
    // The least weight first; entries that have become wrong are passed over.
    using Entry = std::pair<double, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    std::vector<double> weights(count);
    for (int v = 0; v < count; ++v) queue.push({weights[v] = weight(v), v});
    std::vector<int> order;
    while (!queue.empty()) {
      const auto [entries, variable] = queue.top();
      queue.pop();
      if (entries != weights[variable]) continue;
      work_ += entries;
      if (work_ > max_work_) return std::nullopt;
      weights[variable] = -1;
      order.push_back(variable);
      for (int other : eliminate(variable)) {
        const double changed = weight(other);
        if (changed == weights[other]) continue;
        queue.push({weights[other] = changed, other});
      }
    }
    return decode(order);
  }

 private:
  using Scope = std::vector<int>;  ///< ascending

  static Scope joined(const Scope& a, const Scope& b) {
    Scope both;
    both.reserve(a.size() + b.size());
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    return both;
  }

  static Scope sorted(Scope scope) {
    std::sort(scope.begin(), scope.end());
    return scope;
  }

  void add(const Factor* factor) {
    if (factor->variables.empty()) {
      constant_ += factor->table[0];
      return;
    }
    const Scope scope = sorted(factor->variables);
    for (int variable : scope) {
      buckets_[variable].push_back(factor);
      neighbours_[variable] = joined(neighbours_[variable], scope);
    }
  }

  /// Entries of the table that eliminating `variable` makes.
  double weight(int variable) const {
    double entries = neighbours_[variable].empty() ? graph_.domain_sizes[variable] : 1;
    for (int other : neighbours_[variable]) entries *= graph_.domain_sizes[other];
    return entries;
  }

  /// Removes the variable; returns its former neighbours. `used_` keeps its factors for decoding.
  Scope eliminate(int variable) {
    auto& used = used_[variable] = std::move(buckets_[variable]);
    for (const Factor* factor : used) {
      for (int other : factor->variables) {
        if (other != variable) std::erase(buckets_[other], factor);
      }
    }
    Scope touched = std::move(neighbours_[variable]);
    std::erase(touched, variable);
    for (int other : touched) std::erase(neighbours_[other], variable);
    // Mini-buckets: join factors while the joint table fits.
    std::vector<std::vector<const Factor*>> groups;
    std::vector<Scope> scopes;
    for (const Factor* factor : used) {
      Scope scope = sorted(factor->variables);
      bool placed = false;
      for (size_t g = 0; g < groups.size() && !placed; ++g) {
        Scope joint = joined(scopes[g], scope);
        if (entries(joint) > static_cast<double>(max_table_)) continue;
        groups[g].push_back(factor);
        scopes[g] = std::move(joint);
        placed = true;
      }
      if (placed) continue;
      groups.push_back({factor});
      scopes.push_back(std::move(scope));
    }
    if (groups.size() > 1) exact_ = false;
    for (size_t g = 0; g < groups.size(); ++g) {
      width_ = std::max(width_, static_cast<int>(scopes[g].size()));
      std::erase(scopes[g], variable);
      made_.push_back(minimum_over(variable, groups[g], std::move(scopes[g])));
      add(&made_.back());
    }
    return touched;
  }

  double entries(const Scope& scope) const {
    double count = 1;
    for (int variable : scope) count *= graph_.domain_sizes[variable];
    return count;
  }

  Factor minimum_over(int variable, const std::vector<const Factor*>& factors, Scope scope) const {
    const int size = graph_.domain_sizes[variable];
    int64_t total = 1;
    for (int other : scope) total *= graph_.domain_sizes[other];
    // strides[f][i]: how factor f's position moves with scope[i]; the last entry is the variable's.
    std::vector<std::vector<int64_t>> strides;
    for (const Factor* factor : factors) {
      std::vector<int64_t> stride(scope.size() + 1, 0);
      int64_t step = 1;
      for (int d = static_cast<int>(factor->variables.size()) - 1; d >= 0; --d) {
        const int other = factor->variables[d];
        const size_t position =
            other == variable ? scope.size()
                              : std::lower_bound(scope.begin(), scope.end(), other) - scope.begin();
        stride[position] = step;
        step *= graph_.domain_sizes[other];
      }
      strides.push_back(std::move(stride));
    }
    Factor result{std::move(scope), std::vector<double>(total, kInfinity)};
    std::vector<int> digits(result.variables.size(), 0);
    std::vector<int64_t> base(factors.size(), 0);
    for (int64_t entry = 0; entry < total; ++entry) {
      double best = kInfinity;
      for (int choice = 0; choice < size; ++choice) {
        double sum = 0;
        for (size_t f = 0; f < factors.size(); ++f) {
          sum += factors[f]->table[base[f] + choice * strides[f].back()];
        }
        best = std::min(best, sum);
      }
      result.table[entry] = best;
      for (int d = static_cast<int>(digits.size()) - 1; d >= 0; --d) {
        const int extent = graph_.domain_sizes[result.variables[d]];
        const bool wraps = digits[d] + 1 == extent;
        const int64_t move = wraps ? 1 - extent : 1;
        digits[d] = wraps ? 0 : digits[d] + 1;
        for (size_t f = 0; f < factors.size(); ++f) base[f] += move * strides[f][d];
        if (!wraps) break;
      }
    }
    return result;
  }

  double lookup(const Factor& factor, const std::vector<int>& choices) const {
    int64_t position = 0;
    for (int variable : factor.variables) {
      position = position * graph_.domain_sizes[variable] + choices[variable];
    }
    return factor.table[position];
  }

  double total(const std::vector<int>& choices) const {
    double sum = 0;
    for (const Factor& factor : graph_.factors) sum += lookup(factor, choices);
    return sum;
  }

  Assignment decode(const std::vector<int>& order) const {
    Assignment result;
    result.choices.assign(order.size(), 0);
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      choose(*it, used_[*it], result.choices);
    }
    if (!exact_) descend(result.choices);
    result.value = total(result.choices);
    result.exact = exact_;
    result.lower_bound = exact_ ? result.value : constant_;
    result.largest_table = width_;
    return result;
  }

  /// Gives `variable` its cheapest choice under `factors`, the first of equals; true if it changed.
  bool choose(int variable, const std::vector<const Factor*>& factors,
              std::vector<int>& choices) const {
    const int before = choices[variable];
    double best = kInfinity;
    int best_choice = before;
    for (int choice = 0; choice < graph_.domain_sizes[variable]; ++choice) {
      choices[variable] = choice;
      double sum = 0;
      for (const Factor* factor : factors) sum += lookup(*factor, choices);
      if (sum < best) {
        best = sum;
        best_choice = choice;
      }
    }
    choices[variable] = best_choice;
    return best_choice != before;
  }

  /// Coordinate descent on the original factors until nothing changes.
  void descend(std::vector<int>& choices) const {
    constexpr int kMaxRounds = 50;
    std::vector<std::vector<const Factor*>> touching(choices.size());
    for (const Factor& factor : graph_.factors) {
      for (int variable : factor.variables) touching[variable].push_back(&factor);
    }
    bool changed = true;
    for (int round = 0; round < kMaxRounds && changed; ++round) {
      changed = false;
      for (size_t v = 0; v < choices.size(); ++v) {
        const double before = cost(touching[v], choices);
        std::vector<int> trial = choices;
        if (choose(static_cast<int>(v), touching[v], trial) && cost(touching[v], trial) < before) {
          choices = trial;
          changed = true;
        }
      }
    }
  }

  double cost(const std::vector<const Factor*>& factors, const std::vector<int>& choices) const {
    double sum = 0;
    for (const Factor* factor : factors) sum += lookup(*factor, choices);
    return sum;
  }

  const FactorGraph& graph_;
  const int64_t max_table_;
  const double max_work_;
  std::deque<Factor> made_;
  std::vector<std::vector<const Factor*>> buckets_;  ///< by variable
  std::vector<Scope> neighbours_;                 ///< by variable, itself too where it has factors
  std::vector<std::vector<const Factor*>> used_;  ///< by variable: what it was eliminated from
  double work_ = 0;
  double constant_ = 0;
  bool exact_ = true;
  int width_ = 0;
};

/// The least entry of the factor among those that agree with the choices; -1 is undecided.
double least_entry(const FactorGraph& graph, const Factor& factor, const std::vector<int>& choices,
                   size_t depth = 0, int64_t position = 0) {
  if (depth == factor.variables.size()) return factor.table[position];
  const int variable = factor.variables[depth];
  const int size = graph.domain_sizes[variable];
  if (choices[variable] >= 0) {
    return least_entry(graph, factor, choices, depth + 1, position * size + choices[variable]);
  }
  double least = kInfinity;
  for (int choice = 0; choice < size; ++choice) {
    least =
        std::min(least, least_entry(graph, factor, choices, depth + 1, position * size + choice));
  }
  return least;
}

}  // namespace

Assignment decide_in_order(const FactorGraph& graph, const std::vector<int>& order,
                           const std::vector<int>& fixed) {
  Assignment result;
  result.exact = false;
  result.choices = fixed;
  std::vector<std::vector<const Factor*>> touching(graph.domain_sizes.size());
  for (const Factor& factor : graph.factors) {
    for (int variable : factor.variables) touching[variable].push_back(&factor);
  }
  for (int variable : order) {
    if (fixed[variable] >= 0) continue;
    double best = kInfinity;
    int best_choice = 0;
    for (int choice = 0; choice < graph.domain_sizes[variable]; ++choice) {
      result.choices[variable] = choice;
      double sum = 0;
      for (const Factor* factor : touching[variable]) {
        sum += least_entry(graph, *factor, result.choices);
      }
      if (sum < best) {
        best = sum;
        best_choice = choice;
      }
    }
    result.choices[variable] = best_choice;
  }
  for (const Factor& factor : graph.factors) {
    result.value += least_entry(graph, factor, result.choices);
  }
  return result;
}

Assignment minimise(const FactorGraph& graph, int64_t max_table) {
  return *Elimination(graph, max_table, kInfinity).run();
}

std::optional<Assignment> minimise_exactly(const FactorGraph& graph, double max_work) {
  return Elimination(graph, std::numeric_limits<int64_t>::max(), max_work).run();
}

}  // namespace smex
