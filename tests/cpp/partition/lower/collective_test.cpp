#include "partition/lower/collective.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <tuple>

#include "partition/lower/exchange.h"
#include "partition/lower/gather.h"

namespace smex {
namespace {

using Groups = std::vector<std::vector<int>>;
constexpr int64_t kPacket = 64;

/// An element of a worker's slot, on its way to a process.
using Element = std::tuple<int, Slot, std::vector<int64_t>, int>;

void for_each_index(const Region& box, const std::function<void(const std::vector<int64_t>&)>& f) {
  if (box.empty()) return;
  std::vector<int64_t> index;
  for (const Interval& dim : box.dims) index.push_back(dim.lo);
  while (true) {
    f(index);
    int d = static_cast<int>(box.rank()) - 1;
    while (d >= 0 && ++index[d] == box.dims[d].hi) {
      index[d] = box.dims[d].lo;
      --d;
    }
    if (d < 0) return;
  }
}

/// What the fetches of a list read of other processes, and how often.
std::map<Element, int> fetched(const Program& program, const std::vector<int>& ranks) {
  std::map<Element, int> elements;
  for (int w = 0; w < program.num_workers; ++w) {
    for (const Instr& instr : program.workers[w].forward) {
      const auto* fetch = std::get_if<FetchInstr>(&instr);
      if (!fetch) continue;
      for (const CopyPart& part : fetch->parts) {
        if (ranks[part.worker] == ranks[w]) continue;
        for_each_index(part.source, [&](const auto& index) {
          elements[{part.worker, part.slot, index, ranks[w]}] = 1;
        });
      }
    }
  }
  return elements;
}

/// What packets to other processes hold.
std::map<Element, int> carried(const std::vector<Exchange>& exchanges) {
  std::map<Element, int> elements;
  for (const Exchange& exchange : exchanges) {
    for (const Packet& packet : exchange.packets) {
      if (packet.from == packet.to) continue;
      for (const Parcel& parcel : packet.parcels) {
        for_each_index(parcel.box, [&](const auto& index) {
          ++elements[{parcel.worker, parcel.slot, index, packet.to}];
        });
      }
    }
  }
  return elements;
}

/// In each round packets of equal size go from each process of a group to each, those of all
/// gathers and reductions to all the same; sums have as many bytes as what is added up.
void expect_even(const std::vector<Exchange>& exchanges, const Collective& collective) {
  for (const Exchange& exchange : exchanges) {
    ASSERT_EQ(exchange.collective, collective.kind);
    const bool for_all = collective.kind == CollectiveKind::kAllGather ||
                         collective.kind == CollectiveKind::kAllReduce;
    for (const auto& group : collective.groups) {
      std::map<std::pair<int, int>, const Packet*> found;
      for (const Packet& packet : exchange.packets) {
        if (packet.from == group[0] || packet.to == group[0] || group.size() == 2) {
          EXPECT_LE(packet.bytes, kPacket);
        }
        found[{packet.from, packet.to}] = &packet;
      }
      const Packet* const first = found[{group[0], group[1]}];
      for (const int from : group) {
        for (const int to : group) {
          if (from == to && !adds(collective.kind)) continue;
          const Packet* const packet = found[{from, to}];
          ASSERT_EQ(packet == nullptr, first == nullptr);
          if (!packet) continue;
          EXPECT_EQ(packet->bytes, first->bytes);
          if (!for_all) continue;
          const Packet* const other = found[{from, from == group[0] ? group[1] : group[0]}];
          for (size_t n = 0; n < packet->parcels.size(); ++n) {
            EXPECT_EQ(packet->parcels[n].box, other->parcels[n].box);
          }
        }
      }
    }
    EXPECT_EQ(exchange.sums.empty(), !adds(collective.kind));
    for (const Packet& sum : exchange.sums) EXPECT_EQ(sum.bytes, exchange.packets[0].bytes);
  }
}

class Samples : public testing::TestWithParam<CollectiveKind> {};

TEST_P(Samples, AreFoundAndMoveWhatTheFetchesRead) {
  const CollectiveKind kind = GetParam();
  const std::vector<std::pair<Groups, std::vector<int>>> cases = {
      {{{0, 1}}, {0, 1}},
      {{{0, 1, 2}}, {0, 1, 2}},
      {{{0, 1}, {2, 3}}, {0, 1, 2, 3}},
      {{{0, 2}, {1, 3}}, {0, 1, 2, 3}},
      {{{1, 3}}, {0, 1, 2, 3}},
      {{{0, 1, 2}}, {0, 0, 1, 1, 2, 2}},
  };
  for (const auto& [groups, ranks] : cases) {
    for (const int64_t bytes : {4, 60, 64, 68, 400}) {
      const Program program = sample_collective(kind, groups, ranks, bytes);
      const auto found = find_collectives(program, ranks, /*reorder=*/true);
      ASSERT_EQ(found.size(), 1U);
      // What two exchange is an all_gather too.
      const bool is_pair = groups[0].size() == 2 && kind == CollectiveKind::kAllToAll;
      EXPECT_EQ(found[0].kind, is_pair ? CollectiveKind::kAllGather : kind);
      EXPECT_EQ(found[0].groups, groups);
      EXPECT_EQ(found[0].bytes, bytes);
      const auto exchanges = list_exchanges(program, ranks, kPacket, found).forward;
      expect_even(exchanges, found[0]);
      EXPECT_EQ(carried(exchanges), fetched(program, ranks));
      EXPECT_EQ(exchanged_bytes(exchanges), moved_bytes(program, true, true));
    }
  }
}

TEST_P(Samples, AreAddedUpInTheOrderOfWorkersWhereThatMatters) {
  const std::vector<int> ranks = {0, 1, 2};
  const Program program = sample_collective(GetParam(), {{0, 1, 2}}, ranks, 100);
  const auto found = find_collectives(program, ranks, /*reorder=*/false);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(adds(found[0].kind));
  expect_even(list_exchanges(program, ranks, kPacket, found).forward, found[0]);
}

std::string name_of_case(const testing::TestParamInfo<CollectiveKind>& info) {
  return name_of(info.param);
}

INSTANTIATE_TEST_SUITE_P(All, Samples,
                         testing::Values(CollectiveKind::kAllGather, CollectiveKind::kAllReduce,
                                         CollectiveKind::kAllToAll, CollectiveKind::kReduceScatter),
                         name_of_case);

Region rows(int64_t lo, int64_t hi) { return Region{{{lo, hi}, {0, 2}}}; }

/// A tensor of rows that lie with workers as `held` and are to lie as `wanted`; empty: nowhere.
Program relayout_of(const std::vector<Interval>& held, const std::vector<Interval>& wanted) {
  Move move{"x", "float32", 4, {{}, 1}, {}};
  for (const Interval& each : held) {
    move.from.tiles.push_back({each.size() > 0, rows(each.lo, each.hi)});
  }
  for (const Interval& each : wanted) move.to.push_back({each.size() > 0, rows(each.lo, each.hi)});
  return relayout_program({move});
}

TEST(FindCollectives, OfTilesThatAllWant) {
  const Program program = relayout_of({{0, 2}, {2, 4}, {4, 6}}, {{0, 6}, {0, 6}, {0, 6}});
  const auto found = find_collectives(program, {0, 1, 2}, false);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, CollectiveKind::kAllGather);
  EXPECT_EQ(found[0].bytes, 16);
  EXPECT_TRUE(find_collectives(program, {0, 0, 0}, false).empty());
}

TEST(FindCollectives, NotOfWhatIsUneven) {
  EXPECT_TRUE(find_collectives(relayout_of({{0, 2}, {2, 5}}, {{0, 5}, {0, 5}}), {0, 1}, true)
                  .empty());  // tiles of two and three rows
  EXPECT_TRUE(find_collectives(relayout_of({{0, 2}, {2, 4}}, {{0, 4}, {2, 4}}), {0, 1}, true)
                  .empty());  // one wants nothing
  EXPECT_TRUE(find_collectives(relayout_of({{0, 2}, {2, 4}, {4, 6}}, {{0, 4}, {0, 6}, {0, 6}}),
                               {0, 1, 2}, true)
                  .empty());
  EXPECT_TRUE(
      find_collectives(relayout_of({{0, 2}, {2, 4}, {0, 3}, {3, 4}}, {{0, 4}, {0, 4}, {0, 4}, {}}),
                       {0, 1, 2, 3}, true)
          .empty());
}

TEST(FindCollectives, NotOfSumsOfPartsInOneProcess) {
  const std::vector<int> ranks = {0, 0, 1, 1};
  Program program =
      sample_collective(CollectiveKind::kReduceScatter, {{0, 1, 2, 3}}, {0, 1, 2, 3}, 16);
  for (const Collective& found : find_collectives(program, ranks, /*reorder=*/true)) {
    EXPECT_FALSE(adds(found.kind));
  }
}

TEST(FindCollectives, NotOfOtherReductionsOrWholeNumbers) {
  const std::vector<int> ranks = {0, 1, 2};
  const auto changed = [&](const auto& change) {
    Program program = sample_collective(CollectiveKind::kReduceScatter, {{0, 1, 2}}, ranks, 16);
    for (WorkerProgram& worker : program.workers) {
      change(std::get<FetchInstr>(worker.forward[0]));
    }
    return adds(find_collectives(program, ranks, true).at(0).kind);
  };
  EXPECT_TRUE(changed([](FetchInstr&) {}));
  EXPECT_FALSE(changed([](FetchInstr& fetch) { fetch.reduce = tdl::ReduceKind::kMax; }));
  EXPECT_FALSE(changed([](FetchInstr& fetch) { fetch.dtype = "int64"; }));
  EXPECT_FALSE(changed([](FetchInstr& fetch) { fetch.parts.push_back(fetch.parts[0]); }));
}

}  // namespace
}  // namespace smex
