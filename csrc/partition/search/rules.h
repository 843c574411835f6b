#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "partition/plan/plan.h"

namespace smex {

/// How plans are found. `kTofu` cuts every tensor above `replicate_bytes`, so that memory falls
/// with the workers. The others are for comparison (Tofu §7.3).
enum class Planner {
  kAllRow,        ///< cuts dimension 0 only
  kDataParallel,  ///< replicates parameters and cuts the batch
  kEdges,         ///< is kDataParallel, and cuts messages by edges
  kEqualChop,     ///< is kTofu without pending sums, in one step
  kFeatures,      ///< is kDataParallel, and cuts messages by features (NeutronTP)
  kFsdp,          ///< is kDataParallel, and keeps parameters cut between their uses
  kGrid,    ///< is kDataParallel, and cuts messages by vertices in the first step, then by features
  kHomes,   ///< is kDataParallel without pending sums, and each parameter is one worker's
  kIcml18,  ///< never reduces outputs
  kRandom,  ///< draws the cuts from `seed`
  kSpartan,  ///< decides tensor by tensor, the largest first
  kTofu,
  kVertices,  ///< is kDataParallel, and cuts messages by vertices (ROC)
};

/// What a planner allows.
struct Rules {
  enum class Order { kExact, kLargestFirst, kRandom };
  enum class Messages { kAny, kByEdges, kByFeatures, kByVertices };
  bool rows_only = false;             ///< tensors are cut along dimension 0
  bool replicate_parameters = false;  ///< and what else is given is cut along dimension 0
  bool reductions = true;             ///< workers may make partial results
  bool pending = false;               ///< and leave them so between ops
  bool one_step = false;              ///< of all workers, where no mesh is given
  /// Along the edges of a graph, where they can be cut so: in the first step, and in the others.
  Messages messages = Messages::kAny, later_messages = Messages::kAny;
  Order order = Order::kExact;

  Messages messages_in(size_t step) const { return step == 0 ? messages : later_messages; }
};

const Rules& rules_of(Planner planner);
const std::string& name_of(Planner planner);
/// Throws UserError for a name that no planner has.
Planner planner_of(const std::string& name);
/// All, in the order of their names.
const std::vector<Planner>& all_planners();

/// One worker holds all of a value, or computes all of an op.
Choices only_at_worker(const Mesh& mesh, int worker);

/// Of planners that keep parameters and their gradients apart from where they are used: kFsdp cuts
/// each along the first dimension that is long enough, kHomes leaves each to one worker, the
/// largest first to who has the fewest bytes. What the ops do stays, so that they gather the ones
/// and scatter the others. What is pinned stays, and so does all of other planners.
void place_parameters(Planner planner, const Graph& graph, const std::map<ValueId, Choices>& pinned,
                      Plan& plan);

}  // namespace smex
