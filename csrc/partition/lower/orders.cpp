#include "partition/lower/orders.h"

#include <algorithm>

#include "ir/error.h"

namespace smex {

void add_box(Order& order, const CopyPart& part) {
  const Region& box = part.source;
  const auto found = std::find_if(order.begin(), order.end(), [&](const Parcel& parcel) {
    return parcel.worker == part.worker && parcel.slot == part.slot && parcel.box == box;
  });
  if (found == order.end() && !box.empty()) order.push_back({part.worker, part.slot, box});
}

std::vector<SentPart> list_sent_parts(const Program& program, const std::vector<int>& ranks,
                                      std::vector<Instr> WorkerProgram::* list) {
  if (ranks.size() != static_cast<size_t>(program.num_workers)) {
    throw InternalError("a program of " + std::to_string(program.num_workers) + " workers has " +
                        std::to_string(ranks.size()) + " ranks");
  }
  std::vector<SentPart> parts;
  for (int w = 0; w < program.num_workers; ++w) {
    int last = -1, position = -1;
    for (const Instr& instr : program.workers[w].*list) {
      ++position;
      const auto* const fetch = std::get_if<FetchInstr>(&instr);
      if (!fetch) continue;
      for (const CopyPart& part : fetch->parts) {
        if (ranks[part.worker] == ranks[w]) continue;
        const auto what = [&] {
          return fetch->kind + " of value " + std::to_string(fetch->value) + " on worker " +
                 std::to_string(w);
        };
        if (fetch->relayout < last) {
          throw InternalError(what() + " is of relayout " + std::to_string(fetch->relayout) +
                              ", after one of relayout " + std::to_string(last));
        }
        last = fetch->relayout;
        if (last < 0) {
          throw InternalError(what() +
                              " reads tiles of other processes, but belongs to no relayout");
        }
        parts.push_back({w, position, fetch, &part});
      }
    }
  }
  return parts;
}

std::map<int, Orders> list_orders(const Program& program, const std::vector<int>& ranks,
                                  std::vector<Instr> WorkerProgram::* list) {
  std::map<int, Orders> relayouts;
  for (const SentPart& remote : list_sent_parts(program, ranks, list)) {
    Orders& relayout = relayouts[remote.fetch->relayout];
    if (!relayout.first) relayout.first = remote.fetch;
    relayout.itemsize = program.workers[remote.worker].slot_itemsizes.at(remote.fetch->dest);
    add_box(relayout.by_pair[{ranks[remote.part->worker], ranks[remote.worker]}], *remote.part);
  }
  for (int w = 0; w < program.num_workers; ++w) {
    for (const Instr& instr : program.workers[w].*list) {
      const auto* const fetch = std::get_if<FetchInstr>(&instr);
      if (!fetch) continue;
      const auto relayout = relayouts.find(fetch->relayout);
      if (relayout != relayouts.end()) relayout->second.fetches.push_back({w, fetch});
    }
  }
  return relayouts;
}

}  // namespace smex
