#include "kernels/cpu/isa.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

namespace smex::kernels {
namespace {

Isa requested_isa() {
  const char* const text = std::getenv("SMEX_CPU_CAPABILITY");
  const std::string_view name = text ? text : "";
  if (name == "default") return Isa::kDefault;
  if (name == "avx2") return Isa::kAvx2;
  if (name.empty() || name == "avx512") return Isa::kAvx512;
  throw std::runtime_error("SMEX_CPU_CAPABILITY: expected default, avx2 or avx512, found \"" +
                           std::string(name) + "\"");
}

}  // namespace

Isa supported_isa() {
#ifdef SMEX_X86
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return Isa::kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c"))
    return Isa::kAvx2;
#endif
  return Isa::kDefault;
}

Isa best_isa() {
  static const Isa best = std::min(supported_isa(), requested_isa());
  return best;
}

}  // namespace smex::kernels
