// The neighbouring elements that one thread works on, as one value.
#pragma once

#include <cmath>

#include "kernels/message/cuda/device.cuh"
#include "kernels/message/device_program.h"

namespace smex::kernels {

/// V numbers of type C, combined element by element.
template <typename C, int V>
struct Pack {
  C x[V];

  template <typename Function>
  static SMEX_DEVICE Pack of(const Function& f) {
    Pack result;
#pragma unroll
    for (int i = 0; i < V; ++i) result.x[i] = f(i);
    return result;
  }

  friend SMEX_DEVICE Pack operator+(const Pack& a, const Pack& b) {
    return of([&](int i) { return a.x[i] + b.x[i]; });
  }
  friend SMEX_DEVICE Pack operator*(const Pack& a, const Pack& b) {
    return of([&](int i) { return a.x[i] * b.x[i]; });
  }
  friend SMEX_DEVICE Pack operator-(C a, const Pack& b) {
    return of([&](int i) { return a - b.x[i]; });
  }
};

template <typename C, int V>
struct PackFunctions {
  static SMEX_DEVICE Pack<C, V> sigmoid(const Pack<C, V>& x) {
    return Pack<C, V>::of([&](int i) { return C(1) / (C(1) + std::exp(-x.x[i])); });
  }
  static SMEX_DEVICE Pack<C, V> tanh(const Pack<C, V>& x) {
    return Pack<C, V>::of([&](int i) { return std::tanh(x.x[i]); });
  }
};

/// V elements at an address that is a multiple of their size, of memory that nothing writes.
template <int V, typename T>
SMEX_DEVICE Pack<accumulate_t<T>, V> load_pack(const T* from) {
  Pack<accumulate_t<T>, V> result;
  load_vector<V>(from, result.x);
  return result;
}

/// As `load_pack`, of memory that the kernel may write to.
template <int V, typename T>
SMEX_DEVICE Pack<accumulate_t<T>, V> load_mutable_pack(const T* from) {
  Pack<accumulate_t<T>, V> result;
  load_mutable_vector<V>(from, result.x);
  return result;
}

template <int V, typename T>
SMEX_DEVICE void store_pack(T* to, const Pack<accumulate_t<T>, V>& pack) {
  store_vector<V>(to, pack.x);
}

/// Row `row` of rows of packs, and the pack's first column.
struct PackPlace {
  int64_t row, column;

  /// Of the pack number `unit` in rows of `packs` packs of V columns each.
  template <int V>
  static SMEX_HOST_DEVICE PackPlace of(int64_t unit, int64_t packs) {
    const int64_t row = StridedIndex::quotient(unit, packs);
    return {row, (unit - row * packs) * V};
  }
};

/// Whether loads and stores of `bytes` bytes reach the rows of a matrix at their ends.
template <typename T>
bool rows_are_aligned(const T* data, int64_t stride, int64_t bytes) {
  return is_aligned(data, bytes) && stride * static_cast<int64_t>(sizeof(T)) % bytes == 0;
}

}  // namespace smex::kernels
