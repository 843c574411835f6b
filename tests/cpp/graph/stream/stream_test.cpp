#include "graph/stream/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <thread>

namespace smex::graph {
namespace {

Workers several_workers() {
  return {.count = 4, .run = [](int64_t count, const Workers::Task& task) {
            std::vector<std::thread> threads;
            for (int64_t i = 0; i < count; ++i) threads.emplace_back([&task, i] { task(i); });
            for (std::thread& thread : threads) thread.join();
          }};
}

struct Edge {
  int64_t row, column, id;
  bool operator==(const Edge&) const = default;
};

/// Sorts edges by the new number of their row through buckets, block by block.
std::vector<Edge> sorted_by_buckets(const std::vector<int32_t>& rows,
                                    const std::vector<int32_t>& columns,
                                    const std::vector<int64_t>& new_rows,
                                    const std::vector<int64_t>& new_columns,
                                    const std::vector<int64_t>& bounds, int64_t block,
                                    const Workers& workers) {
  const auto num_edges = static_cast<int64_t>(rows.size());
  const auto num_rows = static_cast<int64_t>(new_rows.size());
  const auto num_buckets = static_cast<int64_t>(bounds.size()) - 1;
  std::vector<int64_t> indptr(num_rows + 1, 0);
  for (const int32_t row : rows) ++indptr[new_rows[row] + 1];
  std::partial_sum(indptr.begin(), indptr.end(), indptr.begin());
  std::vector<std::vector<EdgeRecord>> buckets(num_buckets);
  for (int64_t first = 0; first < num_edges; first += block) {
    const int64_t size = std::min(block, num_edges - first);
    std::vector<EdgeRecord> records(size);
    std::vector<int64_t> order(size), counts(num_buckets);
    const EdgeBlock<int32_t> edges{rows.data() + first,
                                   columns.data() + first,
                                   size,
                                   num_rows,
                                   static_cast<int64_t>(new_columns.size()),
                                   new_rows.data(),
                                   new_columns.data(),
                                   first};
    EXPECT_EQ(bucket_edges(edges, bounds, records.data(), order.data(), counts.data(), workers),
              -1);
    auto next = records.begin();
    for (int64_t b = 0; b < num_buckets; ++b) {
      buckets[b].insert(buckets[b].end(), next, next + counts[b]);
      next += counts[b];
    }
    for (int64_t i = 0; i < size; ++i) EXPECT_EQ(records[i].id, first + order[i]);
  }
  std::vector<Edge> result;
  for (int64_t b = 0; b < num_buckets; ++b) {
    const auto count = static_cast<int64_t>(buckets[b].size());
    std::vector<int64_t> to(count), ids(count), order(count);
    EXPECT_EQ(order_bucket(buckets[b].data(), count, indptr.data() + bounds[b],
                           bounds[b + 1] - bounds[b], to.data(), ids.data(), order.data()),
              -1);
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(buckets[b][order[i]].id, ids[i]);
      result.push_back({new_rows[rows[ids[i]]], to[i], ids[i]});
    }
  }
  return result;
}

TEST(Stream, BucketsSortEdgesAsOneSortDoes) {
  for (const uint32_t seed : {1U, 2U, 3U}) {
    std::mt19937_64 draw(seed);
    const int64_t num_rows = 50, num_columns = 70;
    // One row has most of the edges, some have none.
    const auto num_edges = static_cast<int64_t>(draw() % 200000);
    std::vector<int32_t> rows, columns;
    for (int64_t i = 0; i < num_edges; ++i) {
      rows.push_back(draw() % 3 == 0 ? static_cast<int32_t>(draw() % num_rows) : 7);
      columns.push_back(static_cast<int32_t>(draw() % num_columns));
    }
    std::vector<int64_t> new_rows(num_rows), new_columns(num_columns);
    std::iota(new_rows.begin(), new_rows.end(), 0);
    std::iota(new_columns.begin(), new_columns.end(), 0);
    std::shuffle(new_rows.begin(), new_rows.end(), draw);
    std::shuffle(new_columns.begin(), new_columns.end(), draw);
    std::vector<Edge> expected;
    for (int64_t i = 0; i < num_edges; ++i) {
      expected.push_back({new_rows[rows[i]], new_columns[columns[i]], i});
    }
    std::stable_sort(expected.begin(), expected.end(),
                     [](const Edge& a, const Edge& b) { return a.row < b.row; });
    for (const auto& bounds : std::vector<std::vector<int64_t>>{
             {0, 50}, {0, 1, 1, 20, 50}, {0, 0, 10, 20, 30, 40, 50, 50}}) {
      for (const int64_t block : {int64_t{1} << 20, int64_t{70000}}) {
        EXPECT_EQ(sorted_by_buckets(rows, columns, new_rows, new_columns, bounds, block, {}),
                  expected)
            << "seed " << seed;
        EXPECT_EQ(sorted_by_buckets(rows, columns, new_rows, new_columns, bounds, block,
                                    several_workers()),
                  expected)
            << "seed " << seed;
      }
    }
  }
}

TEST(Stream, EdgesOfOtherGraphsAreRefused) {
  const std::vector<int64_t> rows{0, 3, 1}, columns{0, 0, -1}, bounds{0, 3};
  std::vector<EdgeRecord> records(3);
  std::vector<int64_t> order(3), counts(1);
  EdgeBlock<int64_t> edges{rows.data(), columns.data(), 3, 3, 3};
  EXPECT_EQ(bucket_edges(edges, bounds, records.data(), order.data(), counts.data(), {}), 1);
  edges.num_rows = 4;
  EXPECT_EQ(bucket_edges(edges, {0, 4}, records.data(), order.data(), counts.data(), {}), 2);

  const std::vector<EdgeRecord> twice{{0, 0}, {0, 1}};
  const std::vector<int64_t> indptr{0, 1, 2};
  EXPECT_EQ(order_bucket(twice.data(), 2, indptr.data(), 2, order.data(), order.data(), nullptr),
            1);
  std::vector<int64_t> seen(3, 0);
  const std::vector<int32_t> ids{2, 2, 0, 3};
  EXPECT_EQ(add_counts(ids.data(), 3, 3, seen.data()), -1);
  EXPECT_EQ(seen, (std::vector<int64_t>{1, 0, 2}));
  EXPECT_EQ(add_counts(ids.data(), 4, 3, seen.data()), 3);
}

TEST(Stream, TwoRingsAreTwoParts) {
  // Nodes of two rings take turns; each node's neighbours are those two away.
  const int64_t num_nodes = 40;
  std::vector<int64_t> indptr{0};
  std::vector<int32_t> neighbors;
  for (int64_t v = 0; v < num_nodes; ++v) {
    neighbors.push_back(static_cast<int32_t>((v + 2) % num_nodes));
    neighbors.push_back(static_cast<int32_t>((v + num_nodes - 2) % num_nodes));
    indptr.push_back(static_cast<int64_t>(neighbors.size()));
  }
  const std::vector<int64_t> capacities{20};
  for (const bool is_ldg : {true, false}) {
    const StreamRule rule{is_ldg, /*alpha=*/0.1, false, 2, nullptr, capacities.data()};
    std::vector<int32_t> parts(num_nodes, -1);
    std::vector<int64_t> loads(2, 0);
    // In two pieces, as they are read.
    EXPECT_EQ(
        assign_stream(indptr.data(), neighbors.data(), 0, 15, rule, parts.data(), loads.data()),
        15);
    assign_stream(indptr.data() + 15, neighbors.data() + indptr[15], 15, 25, rule, parts.data(),
                  loads.data());
    EXPECT_EQ(loads, (std::vector<int64_t>{20, 20}));
    for (int64_t v = 0; v < num_nodes; ++v) EXPECT_EQ(parts[v], parts[v % 2]) << v;
    // A second pass finds the same.
    std::fill(loads.begin(), loads.end(), 0);
    EXPECT_EQ(assign_stream(indptr.data(), neighbors.data(), 0, num_nodes, rule, parts.data(),
                            loads.data()),
              0);
  }
}

TEST(Stream, KindsKeepToTheirCapacity) {
  // All nodes are neighbours of node 0, which would have them all beside it.
  const int64_t num_nodes = 30;
  std::vector<int64_t> indptr{0, 0};
  std::vector<int64_t> neighbors(num_nodes - 1, 0);
  for (int64_t v = 1; v < num_nodes; ++v) indptr.push_back(v);
  std::vector<int32_t> kinds(num_nodes, 0), parts(num_nodes, -1);
  for (int64_t v = 0; v < num_nodes; v += 3) kinds[v] = 1;
  const std::vector<int64_t> capacities{10, 5};
  const StreamRule rule{true, 0, false, 2, kinds.data(), capacities.data()};
  std::vector<int64_t> loads(4, 0);
  assign_stream(indptr.data(), neighbors.data(), 0, num_nodes, rule, parts.data(), loads.data());
  EXPECT_EQ(loads, (std::vector<int64_t>{10, 10, 5, 5}));
  // Capacities that do not hold all nodes are exceeded evenly.
  std::fill(loads.begin(), loads.end(), 0);
  const std::vector<int64_t> small{3, 3};
  const StreamRule tight{true, 0, false, 2, kinds.data(), small.data()};
  assign_stream(indptr.data(), neighbors.data(), 0, num_nodes, tight, parts.data(), loads.data());
  EXPECT_EQ(loads, (std::vector<int64_t>{10, 10, 5, 5}));
}

struct Parsed {
  std::vector<int64_t> numbers;
  ParsedText found;
};

Parsed parsed(const std::string& text, char delimiter = ',') {
  Parsed result;
  result.numbers.resize(text.size() + 2);
  result.found = parse_numbers(text.data(), static_cast<int64_t>(text.size()), delimiter, 2,
                               result.numbers.data());
  result.numbers.resize(2 * result.found.num_lines);
  return result;
}

TEST(Stream, TextIsParsed) {
  const std::vector<int64_t> expected{1, 20, 300, 4};
  for (const char* text : {"1 20\n300 4\n", "1,20\n300,4", "# a comment\n1\t20\r\n\n300\t4\r\n",
                           "% another\n  1 , 20  \n300, 4\n\n"}) {
    EXPECT_EQ(parsed(text).numbers, expected) << text;
    EXPECT_EQ(parsed(text).found.bad_place, -1) << text;
  }
  EXPECT_EQ(parsed("1;20\n300;4\n", ';').numbers, expected);
  EXPECT_EQ(parsed("").found.num_lines, 0);
  for (const char* line :
       {"1", "1,2,3", "1,x", "1.5,2", "12", "1,,2", "99999999999999999999,1", "src,dst"}) {
    const Parsed found = parsed("7,7\n" + std::string(line) + "\n8,8\n");
    EXPECT_EQ(found.found.bad_place, 4) << line;
    EXPECT_EQ(found.found.num_lines, 1) << line;
  }
}

}  // namespace
}  // namespace smex::graph
