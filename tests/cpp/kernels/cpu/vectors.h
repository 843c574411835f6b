// The functions on vectors of csrc/kernels/cpu, made callable for every instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/half.h"
#include "kernels/cpu/isa.h"

namespace smex::kernels {

// Each takes vectors of `lanes` (1, 4, 8 or 16) elements until `count`, a multiple of it, is done.
SMEX_FOR_EACH_ISA(template <typename T>
                  void load_all(const T* from, accumulate_t<T>* to, int64_t count, int lanes);
                  template <typename T>
                  void store_all(const accumulate_t<T>* from, T* to, int64_t count, int lanes);
                  template <typename C>
                  void exp_all(const C* from, C* to, int64_t count, int lanes);
                  template <typename C>
                  void tanh_all(const C* from, C* to, int64_t count, int lanes);
                  template <typename C>
                  void erf_all(const C* from, C* to, int64_t count, int lanes);
                  template <typename C> C sum_all(const C* from, int lanes); int lanes_of_float();)

}  // namespace smex::kernels
