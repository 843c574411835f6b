// Compiled once for each instruction set.
#include "kernels/cpu/vectors.h"

#include "kernels/cpu/exp.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/tanh_erf.h"

namespace smex::kernels::SMEX_ISA {
namespace {

template <typename Function>
void with_lanes(int lanes, const Function& f) {
  with_constant<1, 4, 8, 16>(lanes, f);
}

}  // namespace

template <typename T>
void load_all(const T* from, accumulate_t<T>* to, int64_t count, int lanes) {
  with_lanes(lanes, [&](auto w) {
    constexpr int W = w.value;
    for (int64_t i = 0; i < count; i += W) store<W>(to + i, load<accumulate_t<T>, W>(from + i));
  });
}

template <typename T>
void store_all(const accumulate_t<T>* from, T* to, int64_t count, int lanes) {
  with_lanes(lanes, [&](auto w) {
    constexpr int W = w.value;
    for (int64_t i = 0; i < count; i += W) store<W>(to + i, load<accumulate_t<T>, W>(from + i));
  });
}

template <typename C>
void exp_all(const C* from, C* to, int64_t count, int lanes) {
  with_lanes(lanes, [&](auto w) {
    constexpr int W = w.value;
    for (int64_t i = 0; i < count; i += W) store<W>(to + i, exp_of<W>(load<C, W>(from + i)));
  });
}

template <typename C>
void tanh_all(const C* from, C* to, int64_t count, int lanes) {
  with_lanes(lanes, [&](auto w) {
    constexpr int W = w.value;
    for (int64_t i = 0; i < count; i += W) store<W>(to + i, tanh_of<W>(load<C, W>(from + i)));
  });
}

template <typename C>
void erf_all(const C* from, C* to, int64_t count, int lanes) {
  with_lanes(lanes, [&](auto w) {
    constexpr int W = w.value;
    for (int64_t i = 0; i < count; i += W) store<W>(to + i, erf_of<W>(load<C, W>(from + i)));
  });
}

template <typename C>
C sum_all(const C* from, int lanes) {
  C result = 0;
  with_lanes(lanes, [&](auto w) {
    constexpr int W = w.value;
    result = sum_lanes<C, W>(load<C, W>(from));
  });
  return result;
}

int lanes_of_float() { return kLanes<float>; }

template void load_all<BFloat16>(const BFloat16*, float*, int64_t, int);
template void load_all<Half>(const Half*, float*, int64_t, int);
template void store_all<BFloat16>(const float*, BFloat16*, int64_t, int);
template void store_all<Half>(const float*, Half*, int64_t, int);
template void exp_all<float>(const float*, float*, int64_t, int);
template void exp_all<double>(const double*, double*, int64_t, int);
template void tanh_all<float>(const float*, float*, int64_t, int);
template void tanh_all<double>(const double*, double*, int64_t, int);
template void erf_all<float>(const float*, float*, int64_t, int);
template void erf_all<double>(const double*, double*, int64_t, int);
template float sum_all<float>(const float*, int);
template double sum_all<double>(const double*, int);

}  // namespace smex::kernels::SMEX_ISA
