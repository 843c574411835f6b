#pragma once

#include <vector>

#include "tdl/spec.h"

namespace smex::tdl {

/// A small dense tensor, row-major.
struct Tensor {
  std::vector<double> data;
  Shape shape;
};

/// Evaluates a spec element by element: one tensor per output, empty for an output without body.
/// Its cost is that of the nested loops; it exists to test specs. An empty reduction gives the
/// identity of its kind (±infinity for max and min). "where", "and" and "or" evaluate only the
/// branch taken. Throws UserError for an opaque, an unknown function, an input of another shape
/// than the spec's, and a read out of range without `pad`.
std::vector<Tensor> evaluate(const Spec& spec, const std::vector<Tensor>& inputs);

}  // namespace smex::tdl
