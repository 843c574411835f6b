#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "partition/lower/program.h"
#include "partition/plan/layout.h"

namespace smex {

/// An output of a program that a call returns.
struct Returned {
  size_t output = 0;  ///< among Program::outputs
  std::string name;   ///< for messages
  std::string dtype;
  int itemsize = 1;
  Shape shape;
  bool is_gradient = false;
};

/// Adds fetches at the ends of the lists that give a worker of every process the whole of what a
/// call returns there. Worker `w` is one of process `ranks[w]`.
void gather_outputs(const std::vector<Returned>& returned, const std::vector<int>& ranks,
                    Program& program);

/// What a call of a graph returns: results, changed inputs and the inputs' gradients.
std::vector<Returned> returned_of(const Graph& graph);

/// A tensor that is to lie otherwise.
struct Move {
  std::string name;  ///< for messages
  std::string dtype;
  int itemsize = 1;
  Layout from;
  std::vector<Tile> to;
};

/// A program that computes nothing: its inputs are tensors in one layout, its outputs the same
/// tensors in others. Throws InternalError where a layout lacks an element.
Program relayout_program(const std::vector<Move>& moves);

}  // namespace smex
