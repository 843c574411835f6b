#include "partition/simulate/transfers.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "partition/lower/orders.h"

namespace smex {
namespace {

int first_worker(const std::vector<int>& ranks, int process) {
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), process) - ranks.begin());
}

std::vector<int> ports_of(const Machine& machine, const std::vector<int>& ranks, int to, int from) {
  std::vector<int> ports{to};
  if (!machine.unlike || machine.unlike->nodes.empty()) return ports;
  const std::vector<int>& nodes = machine.unlike->nodes;
  const int there = nodes.at(first_worker(ranks, to)), here = nodes.at(first_worker(ranks, from));
  if (there == here) return ports;
  const int first = static_cast<int>(ranks.size());
  const int count = 1 + *std::max_element(nodes.begin(), nodes.end());
  ports.push_back(first + there);
  ports.push_back(first + count + here);
  return ports;
}

}  // namespace

std::vector<Transfer> list_transfers(const Program& program, const Mesh& mesh,
                                     const Machine& machine, const std::vector<int>& ranks,
                                     bool backward) {
  std::vector<Transfer> transfers;
  std::map<std::tuple<int, int, int>, size_t> number;  // by message
  const auto list = backward ? &WorkerProgram::backward : &WorkerProgram::forward;
  for (const auto& [relayout, orders] : list_orders(program, ranks, list)) {
    for (const auto& [pair, order] : orders.by_pair) {
      Transfer transfer;
      transfer.message = {relayout, pair.first, pair.second};
      transfer.ports = ports_of(machine, ranks, pair.second, pair.first);
      const int receiver = first_worker(ranks, pair.second);
      std::set<std::pair<int, Slot>> sources;
      for (const Parcel& parcel : order) {
        const Link& link = machine.link(mesh, receiver, parcel.worker);
        const auto bytes = static_cast<double>(parcel.box.numel() * orders.itemsize);
        const double seconds = bytes / link.bandwidth;
        transfer.bytes += bytes;
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
