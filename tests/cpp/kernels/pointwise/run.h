#pragma once

#include <string>
#include <vector>

#include "kernels/pointwise/program.h"

namespace smex::kernels {

/// The results of a program on dense operands of one size.
inline std::vector<std::vector<double>> run_pointwise_text(
    const std::string& text, const std::vector<const std::vector<double>*>& operands) {
  const PointwiseProgram program = parse_pointwise(text, static_cast<int>(operands.size()));
  const size_t size = operands[0]->size();
  std::vector<std::vector<double>> outs(program.outs.size(), std::vector<double>(size));
  std::vector<char*> data;
  for (auto& out : outs) data.push_back(reinterpret_cast<char*>(out.data()));
  for (const auto* operand : operands)
    data.push_back(reinterpret_cast<char*>(const_cast<double*>(operand->data())));
  const std::vector<int64_t> strides(2 * data.size(), sizeof(double));
  SMEX_PICK(run_pointwise<double>)
  (program, std::vector<bool>(data.size()), data.data(), strides.data(), static_cast<int64_t>(size),
   1);
  return outs;
}

}  // namespace smex::kernels
