#include "partition/simulate/transfers.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "partition/lower/orders.h"

namespace smex {
namespace {

size_t step_between(const Mesh& mesh, int a, int b) {
  for (size_t step = 0; step + 1 < mesh.size(); ++step) {
    const int at = static_cast<int>(step);
    if (mesh_coordinate(mesh, a, at) != mesh_coordinate(mesh, b, at)) return step;
  }
  return mesh.size() - 1;
}

}  // namespace

std::vector<Transfer> list_transfers(const Program& program, const Mesh& mesh,
                                     const std::vector<Link>& links, const std::vector<int>& ranks,
                                     bool backward) {
  std::vector<Transfer> transfers;
  std::map<std::tuple<int, int, int>, size_t> number;  // by message
  const auto list = backward ? &WorkerProgram::backward : &WorkerProgram::forward;
  for (const auto& [relayout, orders] : list_orders(program, ranks, list)) {
    for (const auto& [pair, order] : orders.by_pair) {
      Transfer transfer{{relayout, pair.first, pair.second}, {}, {}};
      const auto receiver =
          static_cast<int>(std::find(ranks.begin(), ranks.end(), pair.second) - ranks.begin());
      std::set<std::pair<int, Slot>> sources;
      for (const Parcel& parcel : order) {
        const Link& link = links[step_between(mesh, receiver, parcel.worker)];
        const double seconds =
            static_cast<double>(parcel.box.numel() * orders.itemsize) / link.bandwidth;
        transfer.seconds += seconds;
        transfer.charged += (1 - link.overlap) * seconds;
        transfer.latency = std::max(transfer.latency, link.latency);
        sources.emplace(parcel.worker, parcel.slot);
      }
      transfer.sources.assign(sources.begin(), sources.end());
      number[{relayout, pair.first, pair.second}] = transfers.size();
      transfers.push_back(std::move(transfer));
    }
  }
  for (int w = 0; w < program.num_workers; ++w) {
    const std::vector<Instr>& instrs = program.workers[w].list(backward);
    for (int position = 0; position < static_cast<int>(instrs.size()); ++position) {
      const auto* fetch = std::get_if<FetchInstr>(&instrs[position]);
      if (!fetch) continue;
      std::set<size_t> read;
      for (const CopyPart& part : fetch->parts) {
        const auto found = number.find({fetch->relayout, ranks[part.worker], ranks[w]});
        if (found != number.end()) read.insert(found->second);
      }
      for (const size_t one : read) transfers[one].readers.emplace_back(w, position);
    }
  }
  return transfers;
}

}  // namespace smex
