#pragma once

#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "edges/rows.h"
#include "graph/compress/compress.h"

namespace smex::graph {

/// A list of edges in vectors.
template <typename Index>
struct Edges {
  int64_t num_rows = 0;
  int64_t num_columns = 0;
  std::vector<Index> rows;
  std::vector<Index> columns;

  EdgeList<Index> list() const {
    return {rows.data(), columns.data(), nullptr, static_cast<int64_t>(rows.size()),
            num_rows,    num_columns};
  }
};

/// Uniform edges, a part of them into the hub row 1 where there is one.
template <typename Index>
Edges<Index> random_edges(int64_t num_rows, int64_t num_columns, int64_t num_edges, double hub = 0,
                          uint64_t seed = 0) {
  std::mt19937_64 draw(seed);
  Edges<Index> edges{num_rows, num_columns, {}, {}};
  std::uniform_real_distribution<double> unit;
  for (int64_t i = 0; i < num_edges; ++i) {
    const bool to_hub = num_rows > 1 && unit(draw) < hub;
    edges.rows.push_back(static_cast<Index>(to_hub ? 1 : draw() % num_rows));
    edges.columns.push_back(static_cast<Index>(draw() % num_columns));
  }
  return edges;
}

/// Compressed edges in vectors.
template <typename Index>
struct Compressed {
  std::vector<Index> indptr, indices, eids;

  EdgeRows<Index> rows() const {
    return {static_cast<int64_t>(indptr.size()) - 1, static_cast<int64_t>(indices.size()),
            indptr.data(), indices.data(), eids.data()};
  }
  bool operator==(const Compressed&) const = default;
};

/// `count` threads of the standard library.
inline Workers threads(int64_t count) {
  return {.count = count, .run = [](int64_t count, const Workers::Task& task) {
            std::vector<std::thread> started;
            for (int64_t i = 0; i < count; ++i) started.emplace_back([&task, i] { task(i); });
            for (std::thread& thread : started) thread.join();
          }};
}

template <typename Index>
Compressed<Index> compress(const EdgeList<Index>& edges, const Workers& workers = {}) {
  Compressed<Index> result;
  result.indptr.resize(edges.num_rows + 1);
  result.indices.resize(edges.num_edges);
  result.eids.resize(edges.num_edges);
  const int64_t invalid = compress_cpu(
      edges, {result.indptr.data(), result.indices.data(), result.eids.data()}, workers);
  if (invalid >= 0) throw std::out_of_range("edge " + std::to_string(invalid));
  return result;
}

/// What compression means: a stable sort by row.
template <typename Index>
Compressed<Index> compress_by_definition(const Edges<Index>& edges) {
  Compressed<Index> result;
  std::vector<std::vector<int64_t>> of_row(edges.num_rows);
  for (size_t i = 0; i < edges.rows.size(); ++i) of_row[edges.rows[i]].push_back(i);
  result.indptr.push_back(0);
  for (const auto& ids : of_row) {
    for (const int64_t id : ids) {
      result.indices.push_back(edges.columns[id]);
      result.eids.push_back(static_cast<Index>(id));
    }
    result.indptr.push_back(static_cast<Index>(result.indices.size()));
  }
  return result;
}

}  // namespace smex::graph
