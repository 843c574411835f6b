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

std::map<int, Orders> list_orders(const Program& program, const std::vector<int>& ranks,
                                  std::vector<Instr> WorkerProgram::* list) {
  if (ranks.size() != static_cast<size_t>(program.num_workers)) {
    throw InternalError("a program of " + std::to_string(program.num_workers) + " workers has " +
                        std::to_string(ranks.size()) + " ranks");
  }
  std::map<int, Orders> relayouts;
  std::vector<std::pair<int, Orders::Fetch>> fetches;
  for (int w = 0; w < program.num_workers; ++w) {
    int last = -1;
    for (const Instr& instr : program.workers[w].*list) {
      const auto* const fetch = std::get_if<FetchInstr>(&instr);
      if (!fetch) continue;
      fetches.push_back({fetch->relayout, {w, fetch}});
      for (const CopyPart& part : fetch->parts) {
        if (ranks[part.worker] == ranks[w]) continue;
        if (fetch->relayout < last) {
          throw InternalError(fetch->kind + " of value " + std::to_string(fetch->value) +
                              " on worker " + std::to_string(w) + " is of relayout " +
                              std::to_string(fetch->relayout) + ", after one of relayout " +
                              std::to_string(last));
        }
        last = fetch->relayout;
        if (last < 0) {
          throw InternalError(fetch->kind + " of value " + std::to_string(fetch->value) +
                              " on worker " + std::to_string(w) +
                              " reads tiles of other processes, but belongs to no relayout");
        }
        Orders& relayout = relayouts[last];
        if (!relayout.first) relayout.first = fetch;
        relayout.itemsize = program.workers[w].slot_itemsizes.at(fetch->dest);
        add_box(relayout.by_pair[{ranks[part.worker], ranks[w]}], part);
      }
    }
  }
  for (const auto& [number, fetch] : fetches) {
    const auto relayout = relayouts.find(number);
    if (relayout != relayouts.end()) relayout->second.fetches.push_back(fetch);
  }
  return relayouts;
}

}  // namespace smex
