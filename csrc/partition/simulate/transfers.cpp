#include "partition/simulate/transfers.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "partition/lower/orders.h"

namespace smex {
namespace {

using Key = std::tuple<int, int, int>;

Key key_of(const Message& message) { return {message.relayout, message.from, message.to}; }

bool before(const Transfer& transfer, const Key& key) { return key_of(transfer.message) < key; }

template <typename Item>
void keep_one_of_each(std::vector<Item>& items) {
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
}

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
  std::vector<Transfer> transfers;  // ascending by message
  std::map<std::pair<int, int>, std::vector<int>> ports;
  const auto list = backward ? &WorkerProgram::backward : &WorkerProgram::forward;
  for (const auto& [relayout, orders] : list_orders(program, ranks, list)) {
    for (const auto& [pair, order] : orders.by_pair) {
      Transfer transfer;
      transfer.message = {relayout, pair.first, pair.second};
      const auto [known, fresh] = ports.try_emplace(pair);
      if (fresh) known->second = ports_of(machine, ranks, pair.second, pair.first);
      transfer.ports = known->second;
      const int receiver = first_worker(ranks, pair.second);
      for (const Parcel& parcel : order) {
        const Link& link = machine.link(mesh, receiver, parcel.worker);
        const auto bytes = static_cast<double>(parcel.box.numel() * orders.itemsize);
        const double seconds = bytes / link.bandwidth;
        transfer.bytes += bytes;
        transfer.seconds += seconds;
        transfer.charged += (1 - link.overlap) * seconds;
        transfer.latency = std::max(transfer.latency, link.latency);
        transfer.sources.emplace_back(parcel.worker, parcel.slot);
      }
      keep_one_of_each(transfer.sources);
      transfers.push_back(std::move(transfer));
    }
  }
  for (int w = 0; w < program.num_workers; ++w) {
    const std::vector<Instr>& instrs = program.workers[w].list(backward);
    for (int position = 0; position < static_cast<int>(instrs.size()); ++position) {
      const auto* fetch = std::get_if<FetchInstr>(&instrs[position]);
      if (!fetch) continue;
      std::vector<int> senders;
      for (const CopyPart& part : fetch->parts) {
        if (ranks[part.worker] != ranks[w]) senders.push_back(ranks[part.worker]);
      }
      keep_one_of_each(senders);
      for (const int sender : senders) {
        const Key key{fetch->relayout, sender, ranks[w]};
        const auto found = std::lower_bound(transfers.begin(), transfers.end(), key, before);
        if (found != transfers.end() && key_of(found->message) == key) {
          found->readers.emplace_back(w, position);
        }
      }
    }
  }
  return transfers;
}

}  // namespace smex
