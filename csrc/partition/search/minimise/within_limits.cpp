#include "partition/search/minimise/within_limits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <queue>

namespace smex {

double Limit::sum(const std::vector<int>& choices) const {
  double sum = 0;
  for (const auto& [variable, weight] : weights) sum += weight[choices[variable]];
  return sum;
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTolerance = 1e-9;  // relative
constexpr double kRounding = 1e-13;  // of a sum, relative

class BranchAndBound {
 public:
  BranchAndBound(const FactorGraph& graph, const WorstLimit& worst, int64_t max_table,
                 int max_solves)
      : graph_(graph), worst_(worst), minimiser_(graph, max_table), max_solves_(max_solves) {
    for (const Factor& factor : graph.factors) {
      double most = 0;
      for (double entry : factor.table) {
        if (entry < kForbidden) most = std::max(most, entry);
      }
      most_ += most;
    }
  }

  WithinLimits run() {
    const auto later = [](const NodePtr& a, const NodePtr& b) {
      return std::tie(a->bound, a->number) > std::tie(b->bound, b->number);
    };
    std::priority_queue<NodePtr, std::vector<NodePtr>, decltype(later)> open(later);
    auto root = std::make_shared<Node>();
    root->allowed.resize(graph_.domain_sizes.size());
    for (size_t v = 0; v < root->allowed.size(); ++v) {
      root->allowed[v].assign(graph_.domain_sizes[v], true);
    }
    double proven = kInfinity;  // of what is left undone
    bound_of(*root);
    open.push(root);
    while (!open.empty() && !done(open.top()->bound)) {
      const NodePtr node = open.top();
      open.pop();
      const int variable = node->branch;
      if (variable < 0 || solves_ >= max_solves_) {
        proven = std::min(proven, node->bound);
        continue;
      }
      for (int choice = 0; choice < graph_.domain_sizes[variable]; ++choice) {
        if (!node->allowed[variable][choice]) continue;
        auto child = std::make_shared<Node>();
        child->allowed = node->allowed;
        child->allowed[variable].assign(graph_.domain_sizes[variable], false);
        child->allowed[variable][choice] = true;
        child->prices = node->prices;
        child->bound = node->bound;
        child->number = ++nodes_;
        bound_of(*child);
        if (!done(child->bound)) open.push(child);
      }
    }
    if (!open.empty()) proven = std::min(proven, open.top()->bound);
    if (!fits_) press(*root);
    WithinLimits result{std::move(best_), fits_};
    result.best.value = fits_ ? value_ : cost(result.best.choices);
    result.best.lower_bound = fits_ ? std::min(proven, value_) : proven;
    const bool done_with_all = proven == kInfinity || done(proven);
    result.best.exact = done_with_all && all_exact_;
    if (result.best.exact && fits_) result.best.lower_bound = value_;
    result.best.largest_table = width_;
    return result;
  }

 private:
  struct Node {
    std::vector<std::vector<bool>> allowed;  ///< by variable and choice
    std::vector<double> prices;              ///< by limit
    double bound = -kInfinity;
    int branch = -1;  ///< the variable to decide next; -1: nothing is left to decide
    int number = 0;   ///< equal bounds go in order
  };
  using NodePtr = std::shared_ptr<Node>;

  bool done(double bound) const {
    return fits_ && bound >= value_ - kTolerance * std::max(1.0, std::fabs(value_));
  }

  double cost(const std::vector<int>& choices) const { return value_of(graph_, choices); }

  /// Whether even the least weights that a node allows exceed a limit.
  bool hopeless(const Node& node) const {
    return std::any_of(limits_.begin(), limits_.end(), [&](const Limit& limit) {
      double least = 0;
      for (const auto& [variable, weights] : limit.weights) {
        double smallest = kInfinity;
        for (size_t choice = 0; choice < weights.size(); ++choice) {
          if (node.allowed[variable][choice]) smallest = std::min(smallest, weights[choice]);
        }
        least += smallest;
      }
      return least > limit.bound * (1 + kTolerance);
    });
  }

  /// The minimum under the prices, without limits.
  Assignment priced(const Node& node) {
    ++solves_;
    std::vector<std::vector<double>> more(graph_.domain_sizes.size());
    const auto table = [&](int v) -> std::vector<double>& {
      more[v].resize(graph_.domain_sizes[v], 0);
      return more[v];
    };
    for (size_t c = 0; c < node.prices.size(); ++c) {
      if (node.prices[c] == 0) continue;
      for (const auto& [v, weights] : limits_[c].weights) {
        std::vector<double>& sums = table(v);
        for (size_t n = 0; n < sums.size(); ++n) sums[n] += node.prices[c] * weights[n];
      }
    }
    for (size_t v = 0; v < more.size(); ++v) {
      for (size_t n = 0; n < node.allowed[v].size(); ++n) {
        if (!node.allowed[v][n]) table(static_cast<int>(v))[n] += kForbidden;
      }
    }
    Assignment found = minimiser_.with(more);
    all_exact_ = all_exact_ && found.exact;
    width_ = std::max(width_, found.largest_table);
    return found;
  }

  /// Keeps a solution that is better than the best so far.
  void consider(const Assignment& found, const std::optional<Limit>& exceeded) {
    const double excess = exceeded ? exceeded->sum(found.choices) - exceeded->bound : 0;
    const double value = cost(found.choices);
    if (!exceeded && (!fits_ || value < value_)) {
      fits_ = true;
      value_ = value;
      best_ = found;
    } else if (exceeded && !fits_ && excess < excess_) {
      excess_ = excess;
      best_ = found;
    }
  }

  /// Raises the node's bound by the prices of one limit after the other, until each is best beside
  /// the others, and finds what to branch on.
  void bound_of(Node& node) {
    const int end = solves_ + (node.number == 0 ? 40 : 6);
    std::vector<int> choices = evaluate(node);
    std::vector<bool> settled;  // by limit: its price is the best beside the others
    while (!done(node.bound)) {
      settled.resize(limits_.size(), false);
      const int limit = steepest(node, choices, settled);
      if (limit < 0 || solves_ >= std::min(end, max_solves_)) break;
      const double before = node.prices[limit];
      choices = climb(node, limit, std::move(choices), end);
      if (std::fabs(node.prices[limit] - before) > kTolerance * before) settled.clear();
      settled.resize(limits_.size(), false);
      settled[limit] = true;
    }
    node.branch = node.bound == kInfinity ? -1 : branch_on(node, choices);
  }

  /// The minimum under the node's prices: raises its bound, and keeps what keeps to the limits.
  std::vector<int> evaluate(Node& node) {
    node.prices.resize(limits_.size(), 0);
    if (hopeless(node)) node.bound = kInfinity;
    const Assignment found = priced(node);
    double dual = found.lower_bound;
    for (size_t c = 0; c < limits_.size(); ++c) dual -= node.prices[c] * limits_[c].bound;
    node.bound = std::max(node.bound, dual - kRounding * std::fabs(found.lower_bound));
    const auto exceeded = worst_(found.choices);
    consider(found, exceeded);
    if (exceeded) remember(*exceeded);
    node.prices.resize(limits_.size(), 0);
    return found.choices;
  }

  /// The limit whose price is most wrong for the choices, of those that are not settled: it is
  /// exceeded, or has a price though there is room. -1: none.
  int steepest(const Node& node, const std::vector<int>& choices,
               const std::vector<bool>& settled) const {
    int steepest = -1;
    double most = kTolerance;
    for (size_t c = 0; c < limits_.size(); ++c) {
      // In units of the bound, so that all limits count alike.
      const double excess = limits_[c].sum(choices) / limits_[c].bound - 1;
      const double wrong = excess < 0 && node.prices[c] == 0 ? 0 : std::fabs(excess);
      if (settled[c] || wrong <= most) continue;
      most = wrong;
      steepest = static_cast<int>(c);
    }
    return steepest;
  }

  /// Finds the best price of a limit beside the other prices. Along it the dual is the lower
  /// envelope of a line for each assignment: two that enclose the maximum are replaced by the one
  /// that is least where they meet, until none is less.
  std::vector<int> climb(Node& node, size_t limit, std::vector<int> choices, int end) {
    const double dear = most_ / limits_[limit].bound;
    const auto evaluate_at = [&](double price) {
      node.prices[limit] = price;
      choices = evaluate(node);
      return line(node, limit, choices);
    };
    Line cheap = line(node, limit, choices), costly = cheap;  // with too low and too high a price
    if (cheap.slope > 0) {
      const double known = node.prices[limit];
      for (const double price : {4 * known, dear, 100 * dear, 10'000 * dear}) {
        if (price > known && costly.slope > 0) costly = evaluate_at(price);
      }
      if (node.bound > most_) node.bound = kInfinity;  // more than any assignment costs
      if (costly.slope > 0) return choices;
    } else if (node.prices[limit] > 0) {
      cheap = evaluate_at(0);
      if (cheap.slope <= 0) return choices;
    }
    while (solves_ < std::min(end, max_solves_) && !done(node.bound)) {
      const double meeting = (costly.offset - cheap.offset) / (cheap.slope - costly.slope);
      const double height = cheap.offset + meeting * cheap.slope;
      const Line found = evaluate_at(std::max(meeting, 0.0));
      const double lower = found.offset + node.prices[limit] * found.slope;
      if (lower >= height - kTolerance * std::fabs(height)) break;
      (found.slope > 0 ? cheap : costly) = found;
    }
    return choices;
  }

  /// What an assignment costs, by the price of one limit: offset + price * slope.
  struct Line {
    double offset, slope;
  };

  Line line(const Node& node, size_t limit, const std::vector<int>& choices) const {
    Line line{cost(choices), 0};
    for (size_t c = 0; c < node.prices.size(); ++c) {
      const double excess = limits_[c].sum(choices) - limits_[c].bound;
      if (c == limit) {
        line.slope = excess;
      } else {
        line.offset += node.prices[c] * excess;
      }
    }
    return line;
  }

  /// Looks for what exceeds the limits least, by prices beside which costs hardly count.
  void press(Node node) {
    constexpr int kRounds = 8;
    constexpr double kDear = 1e4;  // times the cost of an assignment
    std::fill(node.prices.begin(), node.prices.end(), 0);
    for (int round = 0; round < kRounds; ++round) {
      const Assignment found = priced(node);
      const auto exceeded = worst_(found.choices);
      consider(found, exceeded);
      if (!exceeded) return;
      const size_t worst = remember(*exceeded);
      node.prices.resize(limits_.size(), 0);
      node.prices[worst] += kDear * std::max(cost(found.choices), 1.0) / exceeded->bound;
    }
  }

  /// The limit's position among those that are known.
  size_t remember(const Limit& limit) {
    const auto known = std::find_if(limits_.begin(), limits_.end(), [&](const Limit& other) {
      return other.bound == limit.bound && other.weights == limit.weights;
    });
    if (known != limits_.end()) return known - limits_.begin();
    limits_.push_back(limit);
    return limits_.size() - 1;
  }

  /// The undecided variable that weighs most on the limits with a price: where its choice matters
  /// most.
  int branch_on(const Node& node, const std::vector<int>& choices) const {
    int best = -1;
    double most = -1;
    for (size_t v = 0; v < node.allowed.size(); ++v) {
      if (std::count(node.allowed[v].begin(), node.allowed[v].end(), true) < 2) continue;
      double spread = 0;
      for (const Limit& limit : limits_) {
        const auto weights = limit.weights.find(static_cast<int>(v));
        if (weights == limit.weights.end()) continue;
        double least = kInfinity, greatest = 0;
        for (size_t n = 0; n < weights->second.size(); ++n) {
          if (!node.allowed[v][n]) continue;
          least = std::min(least, weights->second[n]);
          greatest = std::max(greatest, weights->second[n]);
        }
        const bool binding = limit.sum(choices) > limit.bound * 0.5;
        spread += (greatest - least) / limit.bound * (binding ? 1 : 0.01);
      }
      if (spread > most) {
        most = spread;
        best = static_cast<int>(v);
      }
    }
    return best;
  }

  const FactorGraph& graph_;
  const WorstLimit& worst_;
  Minimiser minimiser_;
  const int max_solves_;
  std::vector<Limit> limits_;
  Assignment best_;
  bool fits_ = false;
  double most_ = 1;            ///< no assignment that is allowed costs more
  double value_ = kInfinity;   ///< of best_, when it fits
  double excess_ = kInfinity;  ///< of best_, when it does not
  bool all_exact_ = true;
  int solves_ = 0, nodes_ = 0, width_ = 0;
};

}  // namespace

WithinLimits minimise_within(const FactorGraph& graph, const WorstLimit& worst, int64_t max_table,
                             int max_solves) {
  return BranchAndBound(graph, worst, max_table, max_solves).run();
}

}  // namespace smex
