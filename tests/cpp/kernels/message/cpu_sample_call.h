// A message on a sample graph: its operands, and what it is at every edge.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/message/cpu_samples.h"
#include "kernels/message/program.h"

namespace smex::kernels::cpu_tests {

template <typename T, typename I>
struct SampleCall {
  const SampleGraph<I>& graph;
  std::string text;
  std::vector<FeatureShape> shapes;
  bool with_eids;
  Message message;
  MessageProgram program;
  std::vector<Misaligned<T>> operands;

  SampleCall(const SampleGraph<I>& graph, const std::string& text,
             const std::vector<FeatureShape>& shapes, bool with_eids = true,
             const std::optional<FeatureShape>& reduce_to = std::nullopt)
      : graph(graph),
        text(text),
        shapes(shapes),
        with_eids(with_eids),
        message(parse_message(text)),
        program(compile(message, shapes, reduce_to)) {
    for (size_t i = 0; i < shapes.size(); ++i) {
      Target target = Target::kSource;
      for (const Message& read : operands_of(message))
        if (read->operand == static_cast<int>(i)) target = read->target;
      const int64_t count = graph.num_nodes(target) * reference::size_of(shapes[i]);
      operands.emplace_back(quarters<T>(count, i + 1));
    }
  }

  std::vector<const T*> pointers() const {
    std::vector<const T*> result;
    for (const auto& x : operands) result.push_back(x.data());
    return result;
  }

  /// The message at position k, which belongs to row `row`.
  reference::Array at(int64_t row, int64_t k) const {
    return reference::evaluate(message, [&](const MessageNode& leaf) {
      const int64_t id = leaf.target == Target::kSource        ? graph.indices[k]
                         : leaf.target == Target::kDestination ? row
                         : leaf.target == Target::kEdge        ? graph.eid(k, with_eids)
                                                               : 0;
      return row_of(operands[leaf.operand].data(), id, shapes[leaf.operand]);
    });
  }

  std::string name(const std::string& detail) const {
    std::string sizes;
    for (const FeatureShape& shape : shapes) {
      sizes += sizes.empty() ? "[" : ", [";
      for (const int64_t n : shape) sizes += std::to_string(n) + " ";
      sizes += "]";
    }
    return "graph: " + graph.name + (with_eids ? ", eids" : "") + "; message: " + text + "; " +
           sizes + "; " + detail;
  }
};

/// Calls `f(text, shapes)` for messages of n elements: those with loops of their own and others.
template <typename Function>
void for_each_message(int64_t n, const Function& f) {
  using Shapes = std::vector<FeatureShape>;
  f("u0", Shapes{{n}});
  f("e0", Shapes{{n}});
  f("u0 * e1", Shapes{{n}, {n}});
  f("e0 * u1", Shapes{{1}, {n}});
  f("u0 + v1", Shapes{{n}, {n}});
  f("dot(u0, v1)", Shapes{{n}, {n}});
  f("u0 * v1", Shapes{{n}, {n}});
  f("u0 * u1 * v2", Shapes{{n}, {1}, {1}});
  for (const int64_t inner : {2, 3, 4, 8, 16, 32})
    if (n % inner == 0) f("u0 * e1", Shapes{{n / inner, inner}, {n / inner, 1}});
  if (n % 2 == 0) f("u0 * e1", Shapes{{2, n / 2}, {n / 2}});
}

}  // namespace smex::kernels::cpu_tests
