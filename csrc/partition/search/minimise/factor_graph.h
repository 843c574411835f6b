#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace smex {

/// A cost table over a few variables; the last variable runs fastest.
struct Factor {
  std::vector<int> variables;
  std::vector<double> table;
};

/// minimise Σ factors over one choice per variable.
struct FactorGraph {
  std::vector<int> domain_sizes;  ///< per variable
  std::vector<Factor> factors;
};

struct Assignment {
  std::vector<int> choices;
  double value = 0;
  double lower_bound = 0;  ///< equals value when the elimination was exact
  bool exact = true;
  int largest_table = 0;  ///< variables in the largest table, the induced width
};

/// What an assignment costs more than any that is possible.
inline constexpr double kForbidden = 1e30;

/// Σ factors of an assignment.
double value_of(const FactorGraph& graph, const std::vector<int>& choices);

/// All assignments of the least value. Most variables have the same choice in each; of the others
/// a factor graph tells which go together: those assignments whose value is 0, not `kForbidden` or
/// more. Where so many depend on each other that their tables would be large, some are left out.
struct Optima {
  std::vector<int> open;                  ///< variables that have several choices, ascending
  std::vector<std::vector<int>> choices;  ///< these choices, by open variable, ascending
  FactorGraph graph;                      ///< of the open variables
};

/// Bucket elimination in min-weight order (Tofu's DP is this on a chain). A bucket whose joint
/// table would exceed `max_table` entries is divided (mini-buckets): its minimum becomes a lower
/// bound, the decoded assignment is improved by coordinate descent, and the result carries the gap.
/// `optima`, where given, gets all that cost as little, up to a relative `tolerance` for rounding;
/// nothing is open where the elimination was not exact.
Assignment minimise(const FactorGraph& graph, int64_t max_table = int64_t{1} << 22,
                    Optima* optima = nullptr, double tolerance = 0);

/// The same without mini-buckets; nothing where the tables have more than `max_work` entries in
/// all.
std::optional<Assignment> minimise_exactly(const FactorGraph& graph, double max_work,
                                           Optima* optima = nullptr, double tolerance = 0);

/// Minimises the same factor graph many times, with other costs of single variables beside it: what
/// to eliminate when, and from which factors, is found once. The graph must outlive it.
class Minimiser {
 public:
  explicit Minimiser(const FactorGraph& graph, int64_t max_table = int64_t{1} << 22);
  ~Minimiser();

  /// The minimum where each choice of a variable costs `more`: by variable, empty for nothing. It
  /// is counted in the value.
  Assignment with(const std::vector<std::vector<double>>& more);

 private:
  struct Ordered;
  std::unique_ptr<Ordered> ordered_;
};

/// Decides variable by variable in `order`, each by its cheapest choice when the later ones do what
/// is best for each factor alone. Variables with a choice in `fixed` (others are -1) keep it.
Assignment decide_in_order(const FactorGraph& graph, const std::vector<int>& order,
                           const std::vector<int>& fixed);

}  // namespace smex
