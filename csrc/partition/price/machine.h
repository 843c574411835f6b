#pragma once

#include <memory>
#include <vector>

#include "ir/graph.h"
#include "partition/plan/grid.h"
#include "partition/plan/plan.h"
#include "partition/price/device.h"

namespace smex {

/// What a worker receives over: seconds for a message, bytes a second.
struct Link {
  double latency = 0;
  double bandwidth = 1;
  /// The share of a transfer's time in which the worker can compute as if there were none: 1 where
  /// a device of its own moves the bytes, 0 where the worker does.
  double overlap = 0;
};

/// By worker, for workers that are not all alike.
struct Unlike {
  std::vector<Device> devices;
  std::vector<std::vector<Link>> links;  ///< [receiver][sender]
  /// Those of one node share its port for what they receive of others; empty: nobody shares.
  std::vector<int> nodes;
};

/// The few numbers that the objective "time" knows of a machine, as the steps of a mesh see it.
struct Machine {
  Device device;            ///< of all workers, where they are alike
  std::vector<Link> links;  ///< by step of the mesh: between the parts that the step makes
  std::shared_ptr<const Unlike> unlike = nullptr;

  /// Whether any calls were measured, whose kinds have to be told.
  bool knows_calls() const;
  const Device& of(int worker) const { return unlike ? unlike->devices.at(worker) : device; }
  /// What `to` receives of `from` comes over the link of the first step in which the two differ, or
  /// over their own.
  const Link& link(const Mesh& mesh, int to, int from) const;
  /// Seconds of an op: of like workers those of the largest tile, of others those of who takes the
  /// longest. Of the first steps of a mesh the others divide a part's work evenly, or by the shares
  /// of a weighting.
  double compute(const Graph& graph, const Op& op, const OpGrid& grid, const Mesh& mesh,
                 int workers, const Weighting* weighting = nullptr) const;
  /// By worker the seconds of all calls of a graph that nobody divides.
  std::vector<double> whole_seconds(const Graph& graph, int workers) const;
  /// Seconds to move what a step adds to what the steps before move, in all workers together.
  double transfer(size_t step, double bytes, int workers) const;
};

}  // namespace smex
