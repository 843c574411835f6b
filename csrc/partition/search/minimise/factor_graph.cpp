#include "partition/search/minimise/factor_graph.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <queue>
#include <unordered_map>

#include "partition/plan/interner.h"

namespace smex {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A factor in the course of an elimination. Tables that are equal have equal numbers.
struct Term {
  std::vector<int> variables;
  const std::vector<double>* table = nullptr;  ///< of what costs nothing there is none
  int number = 0;
  bool used = false;  ///< by the elimination of one of its variables
};

/// Tables and their numbers.
class Tables {
 public:
  /// A table that outlives this.
  int of_problem(const std::vector<double>& table) {
    size_t hash = table.size();
    for (double entry : table) {
      hash ^= std::hash<double>()(entry) + 0x9E3779B97F4A7C15ULL + (hash << 6) + (hash >> 2);
    }
    const auto [first, last] = by_content_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
      if (*tables_[it->second] == table) return it->second;
    }
    const int number = static_cast<int>(tables_.size());
    by_content_.emplace(hash, number);
    tables_.push_back(&table);
    return number;
  }

  /// The table that a computation makes, which `key` says all of: done once for equal keys, as in
  /// layers that repeat.
  template <typename Compute>
  int made(std::vector<int64_t> key, const Compute& compute) {
    const auto [it, fresh] = by_key_.try_emplace(keys_.number(std::move(key)), 0);
    if (fresh) {
      it->second = static_cast<int>(tables_.size());
      tables_.push_back(&made_.emplace_back(compute()));
    }
    return it->second;
  }

  const std::vector<double>* operator[](int number) const { return tables_[number]; }

 private:
  std::vector<const std::vector<double>*> tables_;
  std::deque<std::vector<double>> made_;
  std::unordered_multimap<size_t, int> by_content_;
  Interner keys_;
  std::unordered_map<int, int> by_key_;
};

/// What is eliminated in which order, and from which factors, depends on their variables alone: it
/// is found once, and the tables are computed for each costs that are asked for.
class Elimination {
 public:
  Elimination(const FactorGraph& graph, int64_t max_table) : graph_(graph), max_table_(max_table) {
    const size_t count = graph.domain_sizes.size();
    buckets_.resize(count);
    neighbours_.resize(count);
    used_.resize(count);
    for (const Factor& factor : graph.factors) {
      if (factor.variables.empty()) {
        fixed_ += factor.table[0];
      } else {
        add({factor.variables, &factor.table});
      }
    }
    problem_terms_ = terms_.size();
    extra_.reserve(count);
    for (size_t v = 0; v < count; ++v) extra_.push_back({{static_cast<int>(v)}});
  }

  /// Finds the order; false where the tables would have more entries than allowed.
  bool order_variables(double max_work) {
    const int count = static_cast<int>(graph_.domain_sizes.size());
    // The least weight first; entries that have become wrong are passed over.
    using Entry = std::pair<double, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    std::vector<double> weights(count);
    for (int v = 0; v < count; ++v) queue.push({weights[v] = weight(v), v});
    double work = 0;
    while (!queue.empty()) {
      const auto [entries, variable] = queue.top();
      queue.pop();
      if (entries != weights[variable]) continue;
      work += entries;
      if (work > max_work) return false;
      weights[variable] = -1;
      order_.push_back(variable);
      for (int other : eliminate(variable)) {
        const double changed = weight(other);
        if (changed == weights[other]) continue;
        queue.push({weights[other] = changed, other});
      }
    }
    return true;
  }

  /// The minimum where choices cost `more` by variable; nothing for some or all of them.
  Assignment solve(const std::vector<std::vector<double>>& more, Optima* optima, double tolerance) {
    Tables tables;
    for (size_t t = 0; t < problem_terms_; ++t) {
      terms_[t].number = tables.of_problem(*terms_[t].table);
    }
    for (size_t v = 0; v < extra_.size(); ++v) {
      const bool any = v < more.size() && !more[v].empty();
      extra_[v].table = any ? &more[v] : nullptr;
      if (any) extra_[v].number = tables.of_problem(more[v]);
    }
    double constant = fixed_;
    for (const Made& made : made_) {
      const int number = minimum_over(made, tables);
      if (made.term) {
        made.term->number = number;
        made.term->table = tables[number];
      } else {
        constant += tables[number]->front();
      }
    }
    return decode(constant, optima, tolerance);
  }

 private:
  using Scope = std::vector<int>;  ///< ascending

  /// What is left of some terms when a variable is eliminated from them.
  struct Made {
    std::vector<const Term*> terms;
    std::vector<int> extents;  ///< of the variables that are left, and of the one that is not
    std::vector<std::vector<int>> positions;  ///< among these, of each term's variables
    int form = 0;                             ///< equal numbers for equal extents and positions
    Term* term = nullptr;                     ///< nothing where no variable is left
  };

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

  Term* add(Term term) {
    const Scope scope = sorted(term.variables);
    Term* added = &terms_.emplace_back(std::move(term));
    for (int variable : scope) {
      buckets_[variable].push_back(added);
      const Scope& known = neighbours_[variable];
      if (std::includes(known.begin(), known.end(), scope.begin(), scope.end())) continue;
      neighbours_[variable] = joined(known, scope);
    }
    return added;
  }

  static void remove(Scope& scope, int variable) {
    const auto place = std::lower_bound(scope.begin(), scope.end(), variable);
    if (place != scope.end() && *place == variable) scope.erase(place);
  }

  /// Entries of the table that eliminating `variable` makes, counted up to a number that no table
  /// has: a tensor that all layers read has thousands of neighbours.
  double weight(int variable) const {
    constexpr double kEnough = 1e15;
    double entries = neighbours_[variable].empty() ? graph_.domain_sizes[variable] : 1;
    for (int other : neighbours_[variable]) {
      entries *= graph_.domain_sizes[other];
      if (entries > kEnough) break;
    }
    return entries;
  }

  /// Removes the variable; returns its former neighbours. `used_` keeps its factors for decoding.
  Scope eliminate(int variable) {
    auto& used = used_[variable];
    for (Term* term : buckets_[variable]) {
      if (term->used) continue;
      term->used = true;
      used.push_back(term);
    }
    used.push_back(&extra_[variable]);
    buckets_[variable].clear();
    Scope touched = std::move(neighbours_[variable]);
    remove(touched, variable);
    for (int other : touched) remove(neighbours_[other], variable);
    // Mini-buckets: join factors while the joint table fits.
    std::vector<std::vector<const Term*>> groups;
    std::vector<Scope> scopes;
    for (const Term* term : used) {
      Scope scope = sorted(term->variables);
      bool placed = false;
      for (size_t g = 0; g < groups.size() && !placed; ++g) {
        Scope joint = joined(scopes[g], scope);
        if (entries(joint) > static_cast<double>(max_table_)) continue;
        groups[g].push_back(term);
        scopes[g] = std::move(joint);
        placed = true;
      }
      if (placed) continue;
      groups.push_back({term});
      scopes.push_back(std::move(scope));
    }
    if (groups.size() > 1) exact_ = false;
    for (size_t g = 0; g < groups.size(); ++g) {
      width_ = std::max(width_, static_cast<int>(scopes[g].size()));
      std::erase(scopes[g], variable);
      make(variable, std::move(groups[g]), std::move(scopes[g]));
    }
    return touched;
  }

  double entries(const Scope& scope) const {
    double count = 1;
    for (int variable : scope) count *= graph_.domain_sizes[variable];
    return count;
  }

  /// Remembers that a table over `scope` is made of the terms.
  void make(int variable, std::vector<const Term*> terms, Scope scope) {
    Made made;
    made.terms = std::move(terms);
    std::vector<int64_t> form{static_cast<int64_t>(scope.size())};
    scope.push_back(variable);
    for (int other : scope) made.extents.push_back(graph_.domain_sizes[other]);
    form.insert(form.end(), made.extents.begin(), made.extents.end());
    for (const Term* term : made.terms) {
      std::vector<int>& positions = made.positions.emplace_back();
      for (int other : term->variables) {
        const auto place = other == variable
                               ? scope.end() - 1
                               : std::lower_bound(scope.begin(), scope.end() - 1, other);
        positions.push_back(static_cast<int>(place - scope.begin()));
      }
      form.push_back(static_cast<int64_t>(positions.size()));
      form.insert(form.end(), positions.begin(), positions.end());
    }
    made.form = forms_.number(std::move(form));
    scope.pop_back();
    if (!scope.empty()) made.term = add({std::move(scope)});
    made_.push_back(std::move(made));
  }

  /// The number of the table that is left of the terms.
  static int minimum_over(const Made& made, Tables& tables) {
    std::vector<int64_t> key{made.form};
    for (const Term* term : made.terms) key.push_back(term->table ? term->number : -1);
    return tables.made(std::move(key), [&] {
      // Many layers may leave tables over the same variables; those are added up first.
      std::map<Strides, std::vector<double>> aligned;
      for (size_t t = 0; t < made.terms.size(); ++t) {
        const std::vector<double>* table = made.terms[t]->table;
        if (!table) continue;
        Strides strides(made.extents.size(), 0);
        int64_t step = 1;
        for (size_t d = made.positions[t].size(); d-- > 0;) {
          strides[made.positions[t][d]] = step;
          step *= made.extents[made.positions[t][d]];
        }
        std::vector<double>& sum = aligned[std::move(strides)];
        sum.resize(table->size(), 0);
        for (size_t entry = 0; entry < sum.size(); ++entry) sum[entry] += (*table)[entry];
      }
      absorb(aligned, made.extents);
      return minimum(aligned, made.extents);
    });
  }

  using Strides = std::vector<int64_t>;  ///< of a table, by variable; 0: it has not this one

  /// Adds every table to the smallest one that has all of its variables.
  static void absorb(std::map<Strides, std::vector<double>>& tables,
                     const std::vector<int>& extents) {
    for (auto small = tables.begin(); small != tables.end();) {
      auto large = tables.end();
      for (auto it = tables.begin(); it != tables.end(); ++it) {
        const bool covers =
            it != small &&
            std::equal(small->first.begin(), small->first.end(), it->first.begin(),
                       [](int64_t has, int64_t had) { return has == 0 || had != 0; });
        if (!covers || (large != tables.end() && it->second.size() >= large->second.size()))
          continue;
        large = it;
      }
      if (large == tables.end()) {
        ++small;
        continue;
      }
      std::vector<size_t> order;  // of the large one's variables, the slowest first
      for (size_t d = 0; d < extents.size(); ++d) {
        if (large->first[d] != 0) order.push_back(d);
      }
      std::sort(order.begin(), order.end(),
                [&](size_t a, size_t b) { return large->first[a] > large->first[b]; });
      std::vector<int> digits(order.size(), 0);
      const double* place = small->second.data();
      for (double& entry : large->second) {
        entry += *place;
        for (size_t d = order.size(); d-- > 0;) {
          const int64_t stride = small->first[order[d]];
          const int extent = extents[order[d]];
          if (++digits[d] < extent) {
            place += stride;
            break;
          }
          digits[d] = 0;
          place -= stride * (extent - 1);
        }
      }
      small = tables.erase(small);
    }
  }

  /// Of the tables' sum the minima over the last variable; each table has with it how the place
  /// in it moves with each of the variables.
  static std::vector<double> minimum(const std::map<Strides, std::vector<double>>& tables,
                                     const std::vector<int>& extents) {
    const size_t outer = extents.size() - 1;
    const int choices = extents.back();
    size_t count = 1;
    for (size_t d = 0; d < outer; ++d) count *= extents[d];
    std::vector<double> minima(count);
    std::vector<double> sums(choices);
    std::vector<int> digits(outer, 0);
    std::vector<const double*> places;
    std::vector<const int64_t*> strides;
    for (const auto& [moves, table] : tables) {
      places.push_back(table.data());
      strides.push_back(moves.data());
    }
    for (double& least : minima) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (size_t t = 0; t < places.size(); ++t) {
        const double* place = places[t];
        const int64_t stride = strides[t][outer];
        for (int choice = 0; choice < choices; ++choice) sums[choice] += place[choice * stride];
      }
      least = *std::min_element(sums.begin(), sums.end());
      for (size_t d = outer; d-- > 0;) {
        const bool wraps = digits[d] + 1 == extents[d];
        const int64_t move = wraps ? 1 - extents[d] : 1;
        digits[d] = wraps ? 0 : digits[d] + 1;
        for (size_t t = 0; t < places.size(); ++t) places[t] += move * strides[t][d];
        if (!wraps) break;
      }
    }
    return minima;
  }

  double lookup(const Term& term, const std::vector<int>& choices) const {
    return !term.table ? 0 : (*term.table)[place(term.variables, choices)];
  }

  int64_t place(const std::vector<int>& variables, const std::vector<int>& choices) const {
    int64_t place = 0;
    for (int variable : variables)
      place = place * graph_.domain_sizes[variable] + choices[variable];
    return place;
  }

  Assignment decode(double constant, Optima* optima, double tolerance) const {
    Assignment result;
    result.choices.assign(order_.size(), 0);
    if (optima && exact_) {
      *optima = all_optima(order_, tolerance, result.choices);
    } else {
      for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
        choose(*it, used_[*it], result.choices);
      }
    }
    if (!exact_) descend(result.choices);
    result.value = value_of(graph_, result.choices);
    for (const Term& term : extra_) result.value += lookup(term, result.choices);
    result.exact = exact_;
    result.lower_bound = exact_ ? result.value : constant;
    result.largest_table = width_;
    return result;
  }

  /// Gives `variable` its cheapest choice under `factors`, the first of equals; true if it changed.
  bool choose(int variable, const std::vector<const Term*>& terms,
              std::vector<int>& choices) const {
    const int before = choices[variable];
    double best = kInfinity;
    int best_choice = before;
    for (int choice = 0; choice < graph_.domain_sizes[variable]; ++choice) {
      choices[variable] = choice;
      double sum = 0;
      for (const Term* term : terms) sum += lookup(*term, choices);
      if (sum < best) {
        best = sum;
        best_choice = choice;
      }
    }
    choices[variable] = best_choice;
    return best_choice != before;
  }

  // ---- all that are as cheap ----

  /// An optimum gives every variable one of the cheapest choices under the factors that it was
  /// eliminated from: what it costs is the sum of what each adds to their minimum. `least` becomes
  /// the one that has the first of them.
  Optima all_optima(const std::vector<int>& order, double tolerance,
                    std::vector<int>& least) const {
    constexpr size_t kMostTied = size_t{1} << 14;  // entries of a table
    std::vector<std::vector<int>> allowed(least.size());
    std::vector<Factor> rules;  // of all choices of its last variable, and those allowed of others
    std::vector<double> sums;
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const int variable = *it, size = graph_.domain_sizes[variable];
      const double lowest = sum_up(variable, least, sums);
      const double most = lowest + tolerance * std::fabs(lowest);
      const auto first = std::find(sums.begin(), sums.end(), lowest);
      Factor rule = {open_around(variable, allowed), {}};
      if (rule.variables.empty()) {
        for (int choice = 0; choice < size; ++choice) {
          if (sums[choice] <= most) allowed[variable].push_back(choice);
        }
      } else {
        size_t entries = size;
        for (int other : rule.variables) entries *= allowed[other].size();
        if (entries > kMostTied) {
          for (int other : rule.variables) {
            rules.push_back(only(other, least[other], allowed[other]));
          }
          rule.variables.clear();
        }
        add_rule(variable, tolerance, allowed, least, std::move(rule), rules);
      }
      least[variable] = first == sums.end() ? 0 : static_cast<int>(first - sums.begin());
    }
    return restricted(allowed, std::move(rules));
  }

  /// What each choice of `variable` costs under the factors that it was eliminated from; the least.
  double sum_up(int variable, std::vector<int>& choices, std::vector<double>& sums) const {
    sums.assign(graph_.domain_sizes[variable], 0);
    for (size_t choice = 0; choice < sums.size(); ++choice) {
      choices[variable] = static_cast<int>(choice);
      for (const Term* term : used_[variable]) sums[choice] += lookup(*term, choices);
    }
    return *std::min_element(sums.begin(), sums.end());
  }

  /// Tells which choices of `variable` go with those of the open variables of `rule`.
  void add_rule(int variable, double tolerance, std::vector<std::vector<int>>& allowed,
                const std::vector<int>& least, Factor rule, std::vector<Factor>& rules) const {
    std::vector<bool> seen(graph_.domain_sizes[variable], false);
    std::vector<int> choices = least;
    std::vector<double> sums;
    for_each_choice(rule.variables, allowed, choices, [&] {
      const double lowest = sum_up(variable, choices, sums);
      for (size_t choice = 0; choice < sums.size(); ++choice) {
        const bool ties = sums[choice] <= lowest + tolerance * std::fabs(lowest);
        if (ties) seen[choice] = true;
        rule.table.push_back(ties ? 0 : kForbidden);
      }
    });
    for (size_t choice = 0; choice < seen.size(); ++choice) {
      if (seen[choice]) allowed[variable].push_back(static_cast<int>(choice));
    }
    rule.variables.push_back(variable);
    const bool rules_out = std::count(rule.table.begin(), rule.table.end(), kForbidden) > 0;
    if (rules_out && allowed[variable].size() > 1) rules.push_back(std::move(rule));
  }

  /// The other variables of the factors that `variable` was eliminated from that are open.
  std::vector<int> open_around(int variable, const std::vector<std::vector<int>>& allowed) const {
    std::vector<int> open;
    for (const Term* term : used_[variable]) {
      for (int other : term->variables) {
        if (other == variable || allowed[other].size() < 2) continue;
        if (std::find(open.begin(), open.end(), other) == open.end()) open.push_back(other);
      }
    }
    return open;
  }

  /// Allows `variable` one of several choices.
  Factor only(int variable, int choice, const std::vector<int>& allowed) const {
    Factor rule{{variable}, std::vector<double>(graph_.domain_sizes[variable], kForbidden)};
    if (std::count(allowed.begin(), allowed.end(), choice)) rule.table[choice] = 0;
    return rule;
  }

  /// Calls `visit` with each of the allowed `choices` of variables, the last one fastest.
  template <typename Visit>
  static void for_each_choice(const std::vector<int>& variables,
                              const std::vector<std::vector<int>>& allowed,
                              std::vector<int>& choices, const Visit& visit) {
    std::vector<size_t> digits(variables.size(), 0);
    while (true) {
      for (size_t d = 0; d < digits.size(); ++d) {
        choices[variables[d]] = allowed[variables[d]][digits[d]];
      }
      visit();
      size_t d = digits.size();
      while (d > 0 && ++digits[d - 1] == allowed[variables[d - 1]].size()) digits[--d] = 0;
      if (d == 0) return;
    }
  }

  /// The rules on the variables that are open, by what is allowed of them.
  Optima restricted(const std::vector<std::vector<int>>& allowed, std::vector<Factor> rules) const {
    Optima optima;
    std::vector<int> number(allowed.size(), -1);
    for (size_t v = 0; v < allowed.size(); ++v) {
      if (allowed[v].size() < 2) continue;
      number[v] = static_cast<int>(optima.open.size());
      optima.open.push_back(static_cast<int>(v));
      optima.choices.push_back(allowed[v]);
      optima.graph.domain_sizes.push_back(static_cast<int>(allowed[v].size()));
    }
    for (Factor& rule : rules) {
      const int last = rule.variables.back();
      const size_t size = graph_.domain_sizes[last];
      Factor factor;
      for (int variable : rule.variables) factor.variables.push_back(number[variable]);
      for (size_t row = 0; row < rule.table.size(); row += size) {
        for (int choice : allowed[last]) factor.table.push_back(rule.table[row + choice]);
      }
      optima.graph.factors.push_back(std::move(factor));
    }
    return optima;
  }

  /// Coordinate descent on the original factors until nothing changes.
  void descend(std::vector<int>& choices) const {
    constexpr int kMaxRounds = 50;
    std::vector<std::vector<const Term*>> touching(choices.size());
    for (size_t t = 0; t < problem_terms_; ++t) {
      for (int variable : terms_[t].variables) touching[variable].push_back(&terms_[t]);
    }
    for (size_t v = 0; v < choices.size(); ++v) touching[v].push_back(&extra_[v]);
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

  double cost(const std::vector<const Term*>& terms, const std::vector<int>& choices) const {
    double sum = 0;
    for (const Term* term : terms) sum += lookup(*term, choices);
    return sum;
  }

  const FactorGraph& graph_;
  const int64_t max_table_;
  std::deque<Term> terms_;                      ///< those of the problem first
  size_t problem_terms_ = 0;                    ///< how many those are
  std::vector<Term> extra_;                     ///< by variable: what its choices cost more
  std::vector<std::vector<Term*>> buckets_;     ///< by variable, used ones too
  std::vector<Scope> neighbours_;               ///< by variable, itself too where it has factors
  std::vector<std::vector<const Term*>> used_;  ///< by variable: what it was eliminated from
  std::vector<int> order_;
  std::vector<Made> made_;
  Interner forms_;
  double fixed_ = 0;
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

double value_of(const FactorGraph& graph, const std::vector<int>& choices) {
  double sum = 0;
  for (const Factor& factor : graph.factors) {
    int64_t place = 0;
    for (int variable : factor.variables) {
      place = place * graph.domain_sizes[variable] + choices[variable];
    }
    sum += factor.table[place];
  }
  return sum;
}

Assignment minimise(const FactorGraph& graph, int64_t max_table, Optima* optima, double tolerance) {
  Elimination elimination(graph, max_table);
  elimination.order_variables(kInfinity);
  return elimination.solve({}, optima, tolerance);
}

std::optional<Assignment> minimise_exactly(const FactorGraph& graph, double max_work,
                                           Optima* optima, double tolerance) {
  Elimination elimination(graph, std::numeric_limits<int64_t>::max());
  if (!elimination.order_variables(max_work)) return std::nullopt;
  return elimination.solve({}, optima, tolerance);
}

struct Minimiser::Ordered : Elimination {
  using Elimination::Elimination;
};

Minimiser::Minimiser(const FactorGraph& graph, int64_t max_table)
    : ordered_(std::make_unique<Ordered>(graph, max_table)) {
  ordered_->order_variables(kInfinity);
}

Minimiser::~Minimiser() = default;

Assignment Minimiser::with(const std::vector<std::vector<double>>& more) {
  return ordered_->solve(more, nullptr, 0);
}

}  // namespace smex
