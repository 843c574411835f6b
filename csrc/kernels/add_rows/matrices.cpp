#include "kernels/add_rows/operator.h"

namespace smex::kernels {

std::optional<std::pair<at::Tensor, at::Tensor>> matrices(const at::Tensor& to,
                                                          const at::Tensor& rows) {
  if (to.dim() == 2)
    return to.stride(1) == 1 && rows.stride(1) == 1 ? std::make_optional(std::pair(to, rows))
                                                    : std::nullopt;
  if (!to.is_contiguous() || !rows.is_contiguous() || to.size(0) == 0) return std::nullopt;
  const int64_t width = to.numel() / to.size(0);
  return std::pair(to.view({to.size(0), width}), rows.view({rows.size(0), width}));
}

}  // namespace smex::kernels
