#include "partition/lower/collective.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/error.h"
#include "partition/lower/fetch.h"
#include "partition/lower/orders.h"

namespace smex {
namespace {

using Groups = std::vector<std::vector<int>>;

const std::map<CollectiveKind, std::string> kNames = {
    {CollectiveKind::kAllGather, "all_gather"},
    {CollectiveKind::kAllReduce, "all_reduce"},
    {CollectiveKind::kAllToAll, "all_to_all"},
    {CollectiveKind::kReduceScatter, "reduce_scatter"},
};

std::vector<Shape> shapes_of(const Order& order) {
  std::vector<Shape> shapes;
  for (const Parcel& parcel : order) shapes.push_back(parcel.box.shape());
  return shapes;
}

bool are_same(const Order& a, const Order& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Parcel& x, const Parcel& y) {
    return x.worker == y.worker && x.slot == y.slot && x.box == y.box;
  });
}

/// The processes that send each other something, as groups that send each other nothing.
Groups groups_of(const Orders& orders) {
  std::map<int, int> group;  // by process the least of those that it is known to be with
  for (const auto& [pair, order] : orders.by_pair) {
    if (order.empty()) continue;
    const int a = group.try_emplace(pair.first, pair.first).first->second;
    const int b = group.try_emplace(pair.second, pair.second).first->second;
    for (auto& [process, least] : group) {
      if (least == std::max(a, b)) least = std::min(a, b);
    }
  }
  std::map<int, std::vector<int>> members;
  for (const auto& [process, least] : group) members[least].push_back(process);
  Groups groups;
  for (auto& [least, processes] : members) groups.push_back(std::move(processes));
  return groups;
}

const Order* order_between(const Orders& orders, int from, int to) {
  const auto found = orders.by_pair.find({from, to});
  return found == orders.by_pair.end() || found->second.empty() ? nullptr : &found->second;
}

/// Boxes of equal shapes go from each process of the group to each.
bool is_even(const Orders& orders, const std::vector<int>& group) {
  const Order* const first = order_between(orders, group[0], group[1]);
  for (const int from : group) {
    for (const int to : group) {
      if (from == to) continue;
      const Order* const order = order_between(orders, from, to);
      if (!order || !first || shapes_of(*order) != shapes_of(*first)) return false;
    }
  }
  return true;
}

bool sends_all_the_same(const Orders& orders, const std::vector<int>& group, int from) {
  const Order* first = nullptr;
  for (const int to : group) {
    if (from == to) continue;
    const Order* const order = order_between(orders, from, to);
    if (first && !are_same(*first, *order)) return false;
    first = order;
  }
  return true;
}

bool is_real(const std::string& dtype) {
  static const std::set<std::string> kReal = {"bfloat16", "float16", "float32", "float64"};
  return kReal.count(dtype) > 0;
}

/// Sums of one part of each process, by one worker of each.
class Sums {
 public:
  Sums(const Orders& orders, const std::vector<int>& ranks) : ranks_(ranks) {
    for (const Orders::Fetch& fetch : orders.fetches)
      fetches_[ranks[fetch.worker]].push_back(fetch);
  }

  bool are_even(const std::vector<int>& group) const {
    const FetchInstr* first = nullptr;
    for (const int process : group) {
      const auto found = fetches_.find(process);
      if (found == fetches_.end() || found->second.size() != 1) return false;
      const FetchInstr& fetch = *found->second[0].instr;
      if (!adds_up(fetch, group)) return false;
      if (first && (fetch.shape != first->shape || fetch.dtype != first->dtype)) return false;
      first = &fetch;
    }
    return true;
  }

  /// Whether each part is the same for all.
  bool are_the_same(const std::vector<int>& group) const {
    std::map<int, CopyPart> known;  // by process
    for (const int process : group) {
      for (const CopyPart& part : fetches_.at(process)[0].instr->parts) {
        const CopyPart& other = known.try_emplace(ranks_[part.worker], part).first->second;
        if (other.worker != part.worker || other.slot != part.slot ||
            !(other.source == part.source)) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  bool adds_up(const FetchInstr& fetch, const std::vector<int>& group) const {
    if (!fetch.reducing || fetch.reduce != tdl::ReduceKind::kSum || !is_real(fetch.dtype)) {
      return false;
    }
    const Region whole = Region::whole(fetch.shape);
    std::vector<int> processes;
    for (const CopyPart& part : fetch.parts) {
      if (!(part.dest == whole)) return false;
      processes.push_back(ranks_[part.worker]);
    }
    std::sort(processes.begin(), processes.end());
    return processes == group;
  }

  const std::vector<int>& ranks_;
  std::map<int, std::vector<Orders::Fetch>> fetches_;  ///< by process
};

std::optional<CollectiveKind> kind_of(const Orders& orders, const Groups& groups,
                                      const std::vector<int>& ranks, bool reorder) {
  const auto all = [&](const auto& holds) {
    return std::all_of(groups.begin(), groups.end(), holds);
  };
  const size_t size = groups.empty() ? 0 : groups[0].size();
  if (!all([&](const auto& group) { return group.size() == size && is_even(orders, group); })) {
    return std::nullopt;
  }
  const Sums sums(orders, ranks);
  if (reorder && all([&](const auto& group) { return sums.are_even(group); })) {
    const bool same = all([&](const auto& group) { return sums.are_the_same(group); });
    return same ? CollectiveKind::kAllReduce : CollectiveKind::kReduceScatter;
  }
  const bool gathers = all([&](const auto& group) {
    return std::all_of(group.begin(), group.end(),
                       [&](int from) { return sends_all_the_same(orders, group, from); });
  });
  return gathers ? CollectiveKind::kAllGather : CollectiveKind::kAllToAll;
}

int64_t bytes_of(const Orders& orders) {
  int64_t most = 0;
  for (const auto& [pair, order] : orders.by_pair) {
    int64_t bytes = 0;
    for (const Parcel& parcel : order) bytes += parcel.box.numel() * orders.itemsize;
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace

std::string name_of(CollectiveKind kind) { return kNames.at(kind); }

CollectiveKind parse_collective(const std::string& name) {
  for (const auto& [kind, known] : kNames) {
    if (known == name) return kind;
  }
  throw UserError("no collective is called \"" + name + "\"");
}

bool adds(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter;
}

std::vector<Collective> find_collectives(const Program& program, const std::vector<int>& ranks,
                                         bool reorder) {
  std::vector<Collective> found;
  for (const bool backward : {false, true}) {
    const auto list = backward ? &WorkerProgram::backward : &WorkerProgram::forward;
    for (const auto& [relayout, orders] : list_orders(program, ranks, list)) {
      Groups groups = groups_of(orders);
      const auto kind = kind_of(orders, groups, ranks, reorder);
      if (!kind || groups.empty()) continue;
      found.push_back({backward, relayout, *kind, std::move(groups), bytes_of(orders)});
    }
  }
  return found;
}

Program sample_collective(CollectiveKind kind, const Groups& groups, const std::vector<int>& ranks,
                          int64_t bytes) {
  constexpr int kItemsize = 4;
  const int64_t numel = (bytes + kItemsize - 1) / kItemsize;
  Program program;
  program.num_workers = static_cast<int>(ranks.size());
  program.workers.resize(ranks.size());
  const std::vector<Slot> nowhere(ranks.size(), kNoSlot);
  Binding sent{0, nowhere, std::vector<Region>(ranks.size())}, received = sent;
  const auto worker_of = [&](int process) {
    return static_cast<int>(std::find(ranks.begin(), ranks.end(), process) - ranks.begin());
  };
  const auto box = [&](int64_t first, int64_t count) {
    return Region{{{first * numel, (first + count) * numel}}};
  };
  const bool sends_parts =
      kind == CollectiveKind::kAllToAll || kind == CollectiveKind::kReduceScatter;
  for (const std::vector<int>& group : groups) {
    const auto size = static_cast<int64_t>(group.size());
    for (int64_t place = 0; place < size; ++place) {
      const int worker = worker_of(group[place]);
      WorkerProgram& own = program.workers[worker];
      sent.slots[worker] = add_slot(own, "sent", kItemsize);
      sent.regions[worker] = box(0, sends_parts ? size : 1);
      FetchInstr fetch;
      fetch.value = 0;
      fetch.relayout = 0;
      fetch.kind = name_of(kind);
      fetch.dtype = "float32";
      fetch.reducing = adds(kind);
      fetch.dest = received.slots[worker] = add_slot(own, "received", kItemsize);
      received.regions[worker] = box(0, fetch.reducing ? 1 : size);
      fetch.shape = received.regions[worker].shape();
      for (int64_t from = 0; from < size; ++from) {
        fetch.parts.push_back({worker_of(group[from]), /*slot=*/0, box(sends_parts ? place : 0, 1),
                               box(fetch.reducing ? 0 : from, 1)});
      }
      own.remote_reads[0] = static_cast<int>(size) - 1;
      own.forward.emplace_back(std::move(fetch));
    }
  }
  program.inputs.push_back(std::move(sent));
  program.outputs.push_back(std::move(received));
  return program;
}

}  // namespace smex
