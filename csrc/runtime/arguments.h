#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <vector>

#include "ir/graph.h"
#include "partition/lower/program.h"

namespace smex::runtime {

/// An operand read from the worker's slot when the instruction runs.
struct TensorArgument {
  int position = 0;
  Slot slot = kNoSlot;
};

/// A list operand; kNoSlot stands for an absent element of an optional list.
struct TensorListArgument {
  int position = 0;
  std::vector<Slot> slots;
  bool optional = false;
};

/// A boxed argument list: everything but the tensors and seeds is converted once.
struct Arguments {
  std::vector<c10::IValue> values;  ///< one per schema argument; None where a slot or seed goes
  std::vector<TensorArgument> tensors;
  std::vector<TensorListArgument> lists;
  std::vector<int> seeds;  ///< positions that receive the session's seed
};

/// A Python number where the schema has a Tensor: promotes as torch's wrapped numbers do.
at::Tensor wrapped_number(const at::Scalar& number);

/// Converts `args` as the schema's argument types ask: ints to doubles, strings to devices, and so
/// on. Missing trailing arguments take the schema's defaults. Device arguments become `device` (an
/// absent one stays absent on the CPU). With `seeded`, arguments named `seed` are left to the
/// session. Throws InternalError that names the argument, its type and what was found.
Arguments prepare_arguments(const c10::FunctionSchema& schema, const std::vector<Attr>& args,
                            c10::Device device, bool seeded);

}  // namespace smex::runtime
