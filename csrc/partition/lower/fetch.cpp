#include "partition/lower/fetch.h"

#include <set>

namespace smex {

Slot add_slot(WorkerProgram& program, const std::string& name, int itemsize) {
  program.remote_reads.push_back(0);
  program.slot_names.push_back(name);
  program.slot_itemsizes.push_back(itemsize);
  return program.num_slots++;
}

void add_parts(FetchInstr& fetch, int worker, const Region& frame, const std::vector<Copy>& copies,
               const Layout& have, const std::vector<Slot>& slots, Program& program) {
  std::set<int> peers;
  for (const Copy& copy : copies) {
    if (copy.dest != worker) continue;
    fetch.parts.push_back({copy.source, slots[copy.source],
                           copy.region.relative_to(have.tiles[copy.source].region),
                           copy.region.relative_to(frame)});
    if (copy.source != worker) peers.insert(copy.source);
  }
  for (const int peer : peers) ++program.workers[peer].remote_reads[slots[peer]];
}

}  // namespace smex
