// The types that kernels of graphs are compiled for: those that dispatch.h picks from.
#pragma once

#include <cstdint>

#include "kernels/cpu/half.h"

/// `macro(T, I)` for every type of features and of ids.
#define SMEX_FOR_EACH_TYPE(macro)                                                           \
  macro(float, int32_t) macro(float, int64_t) macro(double, int32_t) macro(double, int64_t) \
      macro(BFloat16, int32_t) macro(BFloat16, int64_t) macro(Half, int32_t) macro(Half, int64_t)
