#pragma once

#include <cstdint>

namespace smex::kernels {

/// The instruction sets that CPU kernels are compiled for, each wider than the one before.
enum class Isa : uint8_t { kDefault, kAvx2, kAvx512 };

/// The widest that this processor runs; `SMEX_CPU_CAPABILITY=default|avx2|avx512` asks for less.
Isa best_isa();

/// The widest that this processor runs, whatever the environment says.
Isa supported_isa();

/// The function of `best_isa()`.
template <typename Function>
Function pick(Function for_default, Function for_avx2, Function for_avx512) {
  const Isa isa = best_isa();
  return isa == Isa::kAvx512 ? for_avx512 : isa == Isa::kAvx2 ? for_avx2 : for_default;
}

}  // namespace smex::kernels

/// Declares a kernel once for every instruction set: `SMEX_FOR_EACH_ISA(void f(int x);)`.
#ifdef SMEX_X86
#define SMEX_FOR_EACH_ISA(...) \
  namespace isa_default {      \
  __VA_ARGS__                  \
  }                            \
  namespace isa_avx2 {         \
  __VA_ARGS__                  \
  }                            \
  namespace isa_avx512 {       \
  __VA_ARGS__                  \
  }
/// The version of a kernel for this processor: `SMEX_PICK(f<float>)(arguments)`.
#define SMEX_PICK(...) \
  ::smex::kernels::pick(&isa_default::__VA_ARGS__, &isa_avx2::__VA_ARGS__, &isa_avx512::__VA_ARGS__)
#else
#define SMEX_FOR_EACH_ISA(...) \
  namespace isa_default {      \
  __VA_ARGS__                  \
  }
#define SMEX_PICK(...) (&isa_default::__VA_ARGS__)
#endif
