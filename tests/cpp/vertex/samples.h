// Input graphs for tests: child lists of samples, put into one batch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "vertex/input_graphs.h"

namespace smex::vertex {

using Children = std::vector<std::vector<int64_t>>;  // of each vertex of a sample

struct Batch {
  std::vector<int64_t> sample_offsets = {0}, child_offsets = {0}, children, types;

  explicit Batch(const std::vector<Children>& samples, std::vector<int64_t> vertex_types = {})
      : types(std::move(vertex_types)) {
    for (const Children& sample : samples) {
      const int64_t first = sample_offsets.back();
      for (const auto& list : sample) {
        for (const int64_t child : list) children.push_back(first + child);
        child_offsets.push_back(static_cast<int64_t>(children.size()));
      }
      sample_offsets.push_back(first + static_cast<int64_t>(sample.size()));
    }
  }

  InputGraphs graphs() const { return {sample_offsets, child_offsets, children, types}; }
};

/// Vertex 0 is the first of the chain; each of the others has the one before as its child.
inline Children chain(int64_t length) {
  Children sample(length);
  for (int64_t v = 1; v < length; ++v) sample[v] = {v - 1};
  return sample;
}

/// Vertex v has the children 2v + 1 and 2v + 2.
inline Children complete_tree(int64_t leaves) {
  Children sample(2 * leaves - 1);
  for (int64_t v = 0; v < leaves - 1; ++v) sample[v] = {2 * v + 1, 2 * v + 2};
  return sample;
}

/// Each vertex has up to `most` children, at random among those before it in a random order; some
/// are shared by parents, and some gathered twice by one.
inline Children random_dag(int64_t vertices, int64_t most, std::mt19937& random) {
  std::vector<int64_t> order(vertices);
  for (int64_t v = 0; v < vertices; ++v) order[v] = v;
  std::shuffle(order.begin(), order.end(), random);
  Children sample(vertices);
  for (int64_t v = 1; v < vertices; ++v) {
    const auto count = static_cast<int64_t>(random() % (most + 1));
    for (int64_t i = 0; i < count; ++i) sample[order[v]].push_back(order[random() % v]);
  }
  return sample;
}

}  // namespace smex::vertex
