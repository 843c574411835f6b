// What the files that register these operators share.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <string_view>
#include <vector>

#include "kernels/message/dispatch.h"
#include "kernels/pointwise/program.h"

namespace smex::kernels {

constexpr const char* kPointwise = "smex::pointwise";

/// The program of a text, parsed once.
std::shared_ptr<const PointwiseProgram> program_of(std::string_view text, size_t num_operands);

/// The shape of all values, to which all operands broadcast. Checks the operands.
at::SymDimVector shape_of(at::TensorList operands);

/// The floating point type that all operands have but those that are bool. Throws where there is
/// none.
at::ScalarType type_of(at::TensorList operands);

/// Checks the operands, and that results have their common shape and type, or are bool.
void check_outs(const PointwiseProgram& program, at::TensorList operands, at::TensorList outs);

/// Results, not initialised, for operands that have sizes; they lie as torch's own element-wise
/// operators would put them. Checks the operands.
std::vector<at::Tensor> new_outs(const PointwiseProgram& program, at::TensorList operands);

/// The results and the operands, in this order, with dimensions joined and ordered by how they lie
/// in memory.
at::TensorIterator iterator_of(at::TensorList operands, at::TensorList outs);

/// By ATen's operators, for any device and type.
void pointwise_into(at::TensorList operands, std::string_view text, at::TensorList outs);

/// The operators by a kernel: `Kernel::takes(program, iterator)` says which calls it takes, and
/// `Kernel::run<T>(program, iterator)` makes them. `Kernel::run_by_rows(program, operands, outs)`
/// makes those of a program by rows, or says that it does not.
template <typename Kernel>
struct PointwiseBy {
  static void into(at::TensorList operands, std::string_view text, at::TensorList outs) {
    const auto program = program_of(text, operands.size());
    check_outs(*program, operands, outs);
    run(operands, text, outs, *program);
  }

  static std::vector<at::Tensor> call(at::TensorList operands, std::string_view text) {
    const auto program = program_of(text, operands.size());
    std::vector<at::Tensor> outs = new_outs(*program, operands);
    run(operands, text, outs, *program);
    return outs;
  }

 private:
  static void run(at::TensorList operands, std::string_view text, at::TensorList outs,
                  const PointwiseProgram& program) {
    if (program.by_rows) {
      if (!Kernel::run_by_rows(program, operands, outs)) pointwise_into(operands, text, outs);
      return;
    }
    at::TensorIterator iterator = iterator_of(operands, outs);
    if (!Kernel::takes(program, iterator)) return pointwise_into(operands, text, outs);
    if (iterator.numel() == 0) return;
    dispatch_features(kPointwise, type_of(operands), [&](auto feature) {
      Kernel::template run<typename decltype(feature)::type>(program, iterator);
    });
  }
};

}  // namespace smex::kernels
