#include "partition/simulate/list_order.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "partition/simulate/dependences.h"
#include "partition/simulate/transfers.h"
#include "schedule/list_schedule.h"

namespace smex {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// One list of all workers as tasks on resources: workers, then ports.
class Tasks {
 public:
  Tasks(const Program& program, const InstrSeconds& seconds, const Transfers& transfers,
        bool backward)
      : program_(program),
        transfers_(transfers),
        backward_(backward),
        dependences_(program, seconds, transfers, backward, /*in_order=*/false),
        graph_(num_resources(program, transfers)),
        task_of_(dependences_.size(), -1) {
    const std::vector<int> resource_of = workers();
    std::vector<std::vector<schedule::Task>> before(dependences_.size());
    for (const int node : dependences_.order()) {
      task_of_[node] = add(node, resource_of, before[node]);
      for (const int after : dependences_.followers(node)) before[after].push_back(task_of_[node]);
    }
  }

  /// Lowers each op's begin to that of its first instruction; adds what the schedule takes.
  void schedule(double start, std::vector<double>& begins, ListOrder& found) const {
    const schedule::Schedule made = schedule::by_priority(graph_, schedule::upward_ranks(graph_));
    for (int w = 0; w < program_.num_workers; ++w) {
      const std::vector<Instr>& list = program_.workers[w].list(backward_);
      for (int n = 0; n < static_cast<int>(list.size()); ++n) {
        const auto* compute = std::get_if<ComputeInstr>(&list[n]);
        if (!compute || compute->op < 0) continue;
        const double begin = start + made.begins[task_of_[dependences_.node_of(w, n)]];
        begins[compute->op] = std::min(begins[compute->op], begin);
      }
    }
    found.makespan += made.makespan;
    found.least += schedule::least_makespan(graph_);
    found.resources = std::max(found.resources, static_cast<int>(graph_.num_used_resources()));
  }

 private:
  static schedule::Resource num_resources(const Program& program, const Transfers& transfers) {
    int ports = program.num_workers;
    for (const Transfer& transfer : transfers) {
      for (const int port : transfer.ports) ports = std::max(ports, port + 1);
    }
    return program.num_workers + ports;
  }

  std::vector<int> workers() const {
    std::vector<int> worker_of(dependences_.size(), -1);
    for (int w = 0; w < program_.num_workers; ++w) {
      const size_t length = program_.workers[w].list(backward_).size();
      for (size_t n = 0; n < length; ++n) {
        worker_of[dependences_.node_of(w, static_cast<int>(n))] = w;
      }
    }
    return worker_of;
  }

  schedule::Task add(int node, const std::vector<int>& worker_of,
                     const std::vector<schedule::Task>& before) {
    const double seconds = dependences_.seconds(node);
    std::vector<schedule::Resource> used;
    if (worker_of[node] >= 0) {
      if (seconds > 0) used.push_back(worker_of[node]);
      return graph_.add(seconds, used, before);
    }
    const Transfer& transfer = transfers_[node - dependences_.node_of_transfer(0)];
    for (const int port : transfer.ports) used.push_back(program_.num_workers + port);
    const schedule::Task sent = graph_.add(transfer.seconds, used, before);
    if (transfer.latency == 0) return sent;
    return graph_.add(transfer.latency, {}, std::vector<schedule::Task>{sent});
  }

  const Program& program_;
  const Transfers& transfers_;
  const bool backward_;
  const Dependences dependences_;
  schedule::TaskGraph graph_;
  std::vector<schedule::Task> task_of_;  ///< by node
};

}  // namespace

ListOrder list_order(const Graph& graph, const Program& program, const InstrSeconds& seconds,
                     const Mesh& mesh, const Machine& machine) {
  std::vector<int> ranks(program.num_workers);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<double> begins(graph.ops().size(), kNever);
  ListOrder found;
  for (const bool backward : {false, true}) {
    const Transfers transfers(program, mesh, machine, ranks, backward);
    Tasks(program, seconds, transfers, backward).schedule(found.makespan, begins, found);
  }
  // What is part of another call goes with the first that reads what it makes.
  for (auto op = graph.ops().rbegin(); op != graph.ops().rend(); ++op) {
    for (const ValueId output : op->outputs) {
      if (output == kNoValue || begins[op->id] < kNever) continue;
      for (const OpId user : graph.value(output).users) {
        begins[op->id] = std::min(begins[op->id], begins[user]);
      }
    }
  }
  std::vector<OpId> order(graph.ops().size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](OpId a, OpId b) { return begins[a] < begins[b]; });
  found.positions.resize(order.size());
  for (size_t n = 0; n < order.size(); ++n) found.positions[order[n]] = static_cast<int>(n);
  return found;
}

}  // namespace smex
