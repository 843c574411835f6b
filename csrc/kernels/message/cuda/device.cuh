// The words that kernels on messages are written in: launches, teams of threads, wide loads.
//
// Kernels also compile as plain C++, with tests/cpp/kernels/message/cuda_emulator.h included first,
// which runs them thread by thread: their logic is tested without a GPU.
#pragma once

#include <cstdint>
#include <cstring>

#include "host_device.h"
#include "kernels/numbers.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define SMEX_DEVICE __device__ __forceinline__
#else
#define SMEX_DEVICE inline
#endif

struct CUstream_st;

namespace smex::kernels {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
/// Largest grid that is launched; kernels stride over the rest.
constexpr int64_t kMaxBlocks = 1 << 30;

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline unsigned blocks_for(int64_t units, int64_t units_per_block) {
  const int64_t blocks = ceil_div(units, units_per_block);
  return static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

/// Runs `kernel` with `blocks` blocks of `threads` threads; the caller checks for launch errors.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), unsigned blocks, int threads, CUstream_st* stream,
            const Arguments&... arguments) {
  if (blocks == 0) return;
#if defined(__CUDACC__)
  kernel<<<blocks, threads, 0, stream>>>(arguments...);
#else
  static_cast<void>(stream);
  cuda_emulator::run(blocks, threads, [&] { kernel(arguments...); });
#endif
}

/// The least power of two that is not below `n`, but at most a warp.
SMEX_HOST_DEVICE int lanes_for(int64_t n) {
  int lanes = 1;
  while (lanes < kWarp && lanes < n) lanes *= 2;
  return lanes;
}

/// Neighbouring threads of a warp that work on one thing: a power of two of them.
struct Team {
  int lanes, lane;
  unsigned mask;

  SMEX_DEVICE explicit Team(int lanes)
      : lanes(lanes),
        lane(static_cast<int>(threadIdx.x) & (lanes - 1)),
        mask(lanes == kWarp ? ~0u
                            : ((1u << lanes) - 1) << (threadIdx.x & (kWarp - 1) & ~(lanes - 1u))) {}

  /// Number of this team among all teams of the grid, and how many there are.
  SMEX_DEVICE int64_t index() const {
    return (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / static_cast<unsigned>(lanes);
  }
  SMEX_DEVICE int64_t count() const {
    return int64_t{gridDim.x} * blockDim.x / static_cast<unsigned>(lanes);
  }

  /// What the lane `distance` away has (exclusive or).
  template <typename C>
  SMEX_DEVICE C across(C value, int distance) const {
    return __shfl_xor_sync(mask, value, distance, lanes);
  }
  template <typename C>
  SMEX_DEVICE C from_lane(C value, int lane) const {
    return __shfl_sync(mask, value, lane, lanes);
  }

  /// The sum over the team, bit by bit the same in every lane.
  template <typename C>
  SMEX_DEVICE C sum(C value) const {
    for (int distance = lanes / 2; distance > 0; distance /= 2) value += across(value, distance);
    return value;
  }
};

template <int kBytes>
struct WordOf;
template <>
struct WordOf<16> {
  using type = uint4;
};
template <>
struct WordOf<8> {
  using type = uint2;
};
template <>
struct WordOf<4> {
  using type = unsigned int;
};
template <>
struct WordOf<2> {
  using type = unsigned short;
};

template <int V, typename T, typename Word>
SMEX_DEVICE void widen_word(const Word& word, accumulate_t<T> (&to)[V]) {
  T values[V];
  memcpy(values, &word, sizeof(word));
#pragma unroll
  for (int i = 0; i < V; ++i) to[i] = widen(values[i]);
}

/// V elements at an address that is a multiple of their size, in one load of at most 16 bytes.
template <int V, typename T>
SMEX_DEVICE void load_vector(const T* from, accumulate_t<T> (&to)[V]) {
  using Word = typename WordOf<V * sizeof(T)>::type;
  widen_word<V, T>(__ldg(reinterpret_cast<const Word*>(from)), to);
}

/// As `load_vector`, of memory that the kernel may write to: past the cache of what never changes.
template <int V, typename T>
SMEX_DEVICE void load_mutable_vector(const T* from, accumulate_t<T> (&to)[V]) {
  using Word = typename WordOf<V * sizeof(T)>::type;
  widen_word<V, T>(*reinterpret_cast<const Word*>(from), to);
}

/// As `load_vector`, for any number of bytes, in 16 bytes each where there are so many.
template <int V, typename T>
SMEX_DEVICE void store_vector(T* to, const accumulate_t<T> (&from)[V]) {
  constexpr int kBytes = V * static_cast<int>(sizeof(T));
  using Word = typename WordOf<(kBytes < 16 ? kBytes : 16)>::type;
  constexpr int kWords = kBytes / static_cast<int>(sizeof(Word));
  T values[V];
#pragma unroll
  for (int i = 0; i < V; ++i) narrow(from[i], values[i]);
  Word words[kWords];
  memcpy(words, values, kBytes);
#pragma unroll
  for (int i = 0; i < kWords; ++i) reinterpret_cast<Word*>(to)[i] = words[i];
}

template <typename T>
SMEX_DEVICE void store_number(T* to, accumulate_t<T> value) {
  narrow(value, *to);
}

/// Ends the kernel with an error, which the next synchronisation reports.
SMEX_DEVICE void trap([[maybe_unused]] const char* what) {
#if defined(__CUDACC__)
  __trap();
#else
  cuda_emulator::Block::current()->fail(what);
#endif
}

inline bool is_aligned(const void* data, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0;
}

/// Calls `f(std::integral_constant<int, V>())` with the widest vector of T that divides rows of
/// all given sizes; `fits(bytes)` says whether addresses allow it.
template <typename T, typename Fits, typename Function>
void with_vector(int64_t row_size, const Fits& fits, const Function& f) {
  constexpr int kSize = static_cast<int>(sizeof(T));
  if (row_size % (16 / kSize) == 0 && fits(16)) return f(std::integral_constant<int, 16 / kSize>());
  if constexpr (kSize < 8) {
    if (row_size % (8 / kSize) == 0 && fits(8)) return f(std::integral_constant<int, 8 / kSize>());
  }
  f(std::integral_constant<int, 1>());
}

}  // namespace smex::kernels
