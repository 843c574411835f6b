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

/// Checks the operands, and that results have their common shape and type.
void check_outs(const PointwiseProgram& program, at::TensorList operands, at::TensorList outs);

/// The results and the operands, in this order, with dimensions joined and ordered by how they lie
/// in memory. Makes `num_outs` results, not initialised, where none are given; they lie as torch's
/// own element-wise operators would put them.
at::TensorIterator iterator_of(at::TensorList operands, at::TensorList outs, size_t num_outs);

/// By ATen's operators, for any device and type.
void pointwise_into(at::TensorList operands, std::string_view text, at::TensorList outs);

/// The operators by a kernel: `Kernel::takes(program, iterator)` says which calls it takes, and
/// `Kernel::run<T>(program, iterator)` makes them.
template <typename Kernel>
struct PointwiseBy {
  static void into(at::TensorList operands, std::string_view text, at::TensorList outs) {
    const auto program = program_of(text, operands.size());
    check_outs(*program, operands, outs);
    run(operands, text, outs, *program, iterator_of(operands, outs, outs.size()));
  }

  static std::vector<at::Tensor> call(at::TensorList operands, std::string_view text) {
    const auto program = program_of(text, operands.size());
    at::TensorIterator iterator = iterator_of(operands, {}, program->outs.size());
    std::vector<at::Tensor> outs;
    for (size_t i = 0; i < program->outs.size(); ++i)
      outs.push_back(iterator.output(static_cast<int64_t>(i)));
    run(operands, text, outs, *program, std::move(iterator));
    return outs;
  }

 private:
  static void run(at::TensorList operands, std::string_view text, at::TensorList outs,
                  const PointwiseProgram& program, at::TensorIterator iterator) {
    if (!Kernel::takes(program, iterator)) return pointwise_into(operands, text, outs);
    if (iterator.numel() == 0) return;
    dispatch_features(kPointwise, iterator.dtype(), [&](auto feature) {
      Kernel::template run<typename decltype(feature)::type>(program, iterator);
    });
  }
};

}  // namespace smex::kernels
