#pragma once

#include <memory>
#include <vector>

#include "ir/graph.h"

namespace smex {

/// What a call means: its Spec (null: it runs unsplit), and how arguments change in a tile.
struct Meaning {
  std::shared_ptr<const tdl::Spec> spec;
  std::vector<LocalArg> local;
};

/// A graph for calls of many sizes: which of its numbers, in shapes and arguments, and which
/// meanings are others in each call. Calls are numbered: ops first, then fused ones.
class SizedGraph {
 public:
  /// The graph of one call.
  explicit SizedGraph(Graph graph) : graph_(std::move(graph)) {}

  /// Declares that a size is number `number` of each call.
  void place_size(ValueId value, int dim, int number);
  /// Declares that an argument, or its element `element` where that is not negative, is number
  /// `number` of each call.
  void place_argument(int call, int arg, int element, int number);
  /// Declares that meaning `meaning` of each call is that of an op or a fused one.
  void place_meaning(int call, int meaning);

  /// The graph of a call with these numbers, each a bool, an integer or a real, and meanings.
  /// Throws InternalError where there are too few.
  Graph at(const std::vector<Attr>& numbers, const std::vector<Meaning>& meanings) const;

  const Op& call(int number) const;

 private:
  struct Size {
    ValueId value;
    int dim, number;
  };
  struct Argument {
    int call, arg, element, number;
  };
  struct Sense {
    int call, meaning;
  };
  static Op& call_of(Graph& graph, int number);

  Graph graph_;
  std::vector<Size> sizes_;
  std::vector<Argument> arguments_;
  std::vector<Sense> senses_;
};

}  // namespace smex
