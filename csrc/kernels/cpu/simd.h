// Vectors of the instruction set that the including file is compiled for (SMEX_ISA).
//
// GCC's vector types give arithmetic, comparison and selection; what they lack is here:
// unaligned loads and stores of every element type, and horizontal sums. Everything lies in the
// namespace of the instruction set, so that versions never mix when they are linked.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "host_device.h"
#include "kernels/numbers.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

#ifndef SMEX_ISA
#error "compile this file once for each instruction set, see cmake/SmexSimd.cmake"
#endif

namespace smex::kernels::SMEX_ISA {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

/// Lanes of a full vector of C.
template <typename C>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(C));

template <typename C, int W>
struct VectorOf {
  typedef C type __attribute__((vector_size(W * sizeof(C))));
};
template <typename C, int W>
using Vector = typename VectorOf<C, W>::type;

/// The signed integer as wide as C: what comparisons of vectors give.
template <typename C>
struct MaskOf {
  using type = int32_t;
};
template <>
struct MaskOf<double> {
  using type = int64_t;
};
template <typename C, int W>
using Mask = Vector<typename MaskOf<C>::type, W>;

/// W numbers of 16 bits, each in a lane of 32. What GCC 12 makes of the general conversion goes by
/// halves through memory.
template <int W>
SMEX_INLINE Vector<uint32_t, W> load_16_bits(const void* from) {
#if defined(__AVX512F__)
  if constexpr (W == 16)
    return (Vector<uint32_t, W>)_mm512_cvtepu16_epi32(
        _mm256_loadu_si256(static_cast<const __m256i*>(from)));
#endif
#if defined(__AVX2__)
  if constexpr (W == 8)
    return (Vector<uint32_t, W>)_mm256_cvtepu16_epi32(
        _mm_loadu_si128(static_cast<const __m128i*>(from)));
  if constexpr (W == 4) return (Vector<uint32_t, W>)_mm_cvtepu16_epi32(_mm_loadu_si64(from));
#endif
  Vector<uint16_t, W> bits;
  std::memcpy(&bits, from, sizeof(bits));
  return __builtin_convertvector(bits, Vector<uint32_t, W>);
}

template <typename V, int W>
SMEX_INLINE V widen_bfloat16(const BFloat16* from) {
  const auto wide = load_16_bits<W>(from) << 16;
  V result;
  std::memcpy(&result, &wide, sizeof(result));
  return result;
}

/// W elements at `from` as numbers of C.
template <typename C, int W>
SMEX_INLINE Vector<C, W> load(const C* from) {
  Vector<C, W> result;
  std::memcpy(&result, from, sizeof(result));
  return result;
}
template <typename C, int W>
SMEX_INLINE Vector<C, W> load(const BFloat16* from) {
  return widen_bfloat16<Vector<C, W>, W>(from);
}
template <typename C, int W>
SMEX_INLINE Vector<C, W> load(const Half* from) {
  Vector<C, W> result;
#if defined(__AVX512F__)
  if constexpr (W == 16) {
    const auto wide = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    std::memcpy(&result, &wide, sizeof(result));
    return result;
  }
#endif
#if defined(__F16C__)
  if constexpr (W == 8) {
    const auto wide = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    std::memcpy(&result, &wide, sizeof(result));
    return result;
  }
#endif
  for (int i = 0; i < W; ++i) result[i] = widen(from[i]);
  return result;
}

/// Rounds to the nearest, ties to even.
template <int W>
SMEX_INLINE void store(double* to, Vector<double, W> value) {
  std::memcpy(to, &value, sizeof(value));
}
template <int W>
SMEX_INLINE void store(float* to, Vector<float, W> value) {
  std::memcpy(to, &value, sizeof(value));
}
template <int W>
SMEX_INLINE void store(BFloat16* to, Vector<float, W> value) {
  Vector<uint32_t, W> bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const Vector<uint32_t, W> rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const auto is_nan = value != value;
  const Vector<uint32_t, W> kept = is_nan ? (bits >> 16 | 0x40u) : rounded;
#if defined(__AVX512F__)
  if constexpr (W == 16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16((__m512i)kept));
    return;
  }
#endif
  const auto narrow = __builtin_convertvector(kept, Vector<uint16_t, W>);
  std::memcpy(to, &narrow, sizeof(narrow));
}
template <int W>
SMEX_INLINE void store(Half* to, Vector<float, W> value) {
#if defined(__AVX512F__)
  if constexpr (W == 16) {
    __m512 wide;
    std::memcpy(&wide, &value, sizeof(wide));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm512_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT));
    return;
  }
#endif
#if defined(__F16C__)
  if constexpr (W == 8) {
    __m256 wide;
    std::memcpy(&wide, &value, sizeof(wide));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT));
    return;
  }
#endif
  for (int i = 0; i < W; ++i) narrow(value[i], to[i]);
}

template <typename T>
SMEX_INLINE accumulate_t<T> load_one(const T* from) {
  return load<accumulate_t<T>, 1>(from)[0];
}
template <typename T>
SMEX_INLINE void store_one(T* to, accumulate_t<T> value) {
  store<1>(to, Vector<accumulate_t<T>, 1>{value});
}

template <typename C, int W>
SMEX_INLINE Vector<C, W> splat(C value) {
  return value - Vector<C, W>{};  // 0 + -0 would be 0
}

/// The lanes of `few` below those of a wider vector; what is above them is not defined.
template <typename C, int W, int kFew>
SMEX_INLINE Vector<C, W> widened(Vector<C, kFew> few) {
  // Through memory the wide load would have to wait for the narrow store.
#if defined(__AVX512F__)
  if constexpr (sizeof(few) == 32 && sizeof(C) * W == 64)
    return (Vector<C, W>)_mm512_castps256_ps512((__m256)few);
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(few) == 16 && sizeof(C) * W == 32)
    return (Vector<C, W>)_mm256_castps128_ps256((__m128)few);
#endif
  Vector<C, W> wide = {};
  std::memcpy(&wide, &few, sizeof(few));
  return wide;
}

/// Lane i is `from[i / kInner]`.
template <int W, int kInner, typename T>
SMEX_INLINE Vector<accumulate_t<T>, W> load_repeated(const T* from) {
  using C = accumulate_t<T>;
  if constexpr (kInner >= W) {
    return splat<C, W>(load_one(from));
  } else if constexpr (kInner == W / 2) {
    Mask<C, W> is_second;
    for (int i = 0; i < W; ++i) is_second[i] = i < kInner ? 0 : -1;
    return is_second ? splat<C, W>(load_one(from + 1)) : splat<C, W>(load_one(from));
  } else {
    Mask<C, W> group;
    for (int i = 0; i < W; ++i) group[i] = i / kInner;
    return __builtin_shuffle(widened<C, W, W / kInner>(load<C, W / kInner>(from)), group);
  }
}

/// Calls `f(W, i)` for vectors of W lanes that cover the elements below `n`; with `kElements`, n is
/// that many, and a power of two.
template <typename C, int kElements = 0, typename Function>
SMEX_INLINE void for_lanes(int64_t n, const Function& f) {
  constexpr int kWidest = kLanes<C>;
  if constexpr (kElements > 0) {
    constexpr int W = kElements < kWidest ? kElements : kWidest;
#pragma GCC unroll 16
    for (int i = 0; i < kElements; i += W) f(std::integral_constant<int, W>(), i);
  } else {
    int64_t i = 0;
    for (; i + kWidest <= n; i += kWidest) f(std::integral_constant<int, kWidest>(), i);
    if constexpr (kWidest > 4) {
      for (; i + 4 <= n; i += 4) f(std::integral_constant<int, 4>(), i);
    }
    for (; i < n; ++i) f(std::integral_constant<int, 1>(), i);
  }
}

/// The `n` numbers at `from` in the type that their sums have, put into `wide` if they are not.
template <int kElements = 0, typename T>
SMEX_INLINE const accumulate_t<T>* in_sum_type(const T* from, int64_t n, accumulate_t<T>* wide) {
  using C = accumulate_t<T>;
  if constexpr (std::is_same_v<T, C>) {
    return from;
  } else {
    for_lanes<C, kElements>(
        n, [&](auto w, int64_t i) { store<w.value>(wide + i, load<C, w.value>(from + i)); });
    return wide;
  }
}

/// Calls `f` with `n` as a constant if it is one of `kFirst, kOthers...`, else with the last of
/// them.
template <int kFirst, int... kOthers, typename Function>
void with_constant(int64_t n, const Function& f) {
  if constexpr (sizeof...(kOthers) == 0) {
    f(std::integral_constant<int, kFirst>());
  } else {
    n == kFirst ? f(std::integral_constant<int, kFirst>()) : with_constant<kOthers...>(n, f);
  }
}

/// Calls `f(kElements)` with `n` where loops are unrolled for so many elements of an edge, else 0.
template <typename Function>
void with_elements(int64_t n, const Function& f) {
  with_constant<1, 4, 8, 0>(n, f);
}

/// The lower and the upper half of the lanes, combined.
template <typename C, int W, typename Combine>
SMEX_INLINE Vector<C, W / 2> combine_halves(Vector<C, W> value, const Combine& combine) {
  Vector<C, W / 2> low, high;
  std::memcpy(&low, &value, sizeof(low));
  std::memcpy(&high, reinterpret_cast<const char*>(&value) + sizeof(low), sizeof(high));
  return combine(low, high);
}

/// All lanes combined, in pairs.
template <typename C, int W, typename Combine>
SMEX_INLINE C combine_lanes(Vector<C, W> value, const Combine& combine) {
  if constexpr (W == 1) {
    return value[0];
  } else {
    return combine_lanes<C, W / 2>(combine_halves<C, W>(value, combine), combine);
  }
}

template <typename C, int W>
SMEX_INLINE Vector<C, W / 2> add_halves(Vector<C, W> value) {
  return combine_halves<C, W>(value, [](auto a, auto b) { return a + b; });
}

/// The sum of all lanes, in pairs.
template <typename C, int W>
SMEX_INLINE C sum_lanes(Vector<C, W> value) {
  return combine_lanes<C, W>(value, [](auto a, auto b) { return a + b; });
}

/// Lanes `kStep` apart exchanged. The places are a constant: computed in a loop they are put
/// together lane by lane each time.
template <typename C, int W, int kStep, int... kLane>
SMEX_INLINE Vector<C, W> exchange_lanes(Vector<C, W> value, std::integer_sequence<int, kLane...>) {
  constexpr Mask<C, W> kOther = {(kLane ^ kStep)...};
  return __builtin_shuffle(value, kOther);
}

/// Lanes that lie a multiple of `apart` from each other combined, in each of them; `apart` is a
/// power of two.
template <typename C, int W, int kStep = W / 2, typename Combine>
SMEX_INLINE Vector<C, W> meet_lanes(Vector<C, W> value, int64_t apart, const Combine& combine) {
  if constexpr (kStep == 0) {
    return value;
  } else {
    if (kStep < apart) return value;
    constexpr std::make_integer_sequence<int, W> kLanesOfAll;
    value = combine(value, exchange_lanes<C, W, kStep>(value, kLanesOfAll));
    return meet_lanes<C, W, kStep / 2>(value, apart, combine);
  }
}

/// The first `count` lanes of `value`, and `rest` in those behind.
template <typename C, int W>
SMEX_INLINE Vector<C, W> first_lanes(Vector<C, W> value, int64_t count, C rest) {
  using Lane = typename MaskOf<C>::type;
  Mask<C, W> lane;
  for (int i = 0; i < W; ++i) lane[i] = i;
  return lane < static_cast<Lane>(count < W ? count : W) ? value : splat<C, W>(rest);
}

// Rows at random places wait for memory. They are asked for twice: far ahead into the second-level
// cache, which can wait for many lines at a time, and nearer by into the first.
constexpr int64_t kEdgesFar = 32;
constexpr int64_t kEdgesNear = 8;

/// The positions to prefetch at position `k`, when `last` is the last one.
struct Ahead {
  int64_t far, near;

  SMEX_INLINE Ahead(int64_t k, int64_t last)
      : far(k + kEdgesFar < last ? k + kEdgesFar : last),
        near(k + kEdgesNear < last ? k + kEdgesNear : last) {}
};

constexpr int kCacheLine = 64;

/// Asks for the cache lines of `kBytes` bytes at `far` and at `near`.
template <int kBytes>
SMEX_INLINE void prefetch(const void* far, const void* near) {
#pragma GCC unroll 16
  for (int offset = 0; offset < kBytes; offset += kCacheLine) {
    __builtin_prefetch(static_cast<const char*>(far) + offset, 0, 2);
    __builtin_prefetch(static_cast<const char*>(near) + offset, 0, 3);
  }
}

/// Asks for the cache line at `far`, of what is read once and too little to wait for.
SMEX_INLINE void prefetch_far(const void* far) { __builtin_prefetch(far, 0, 2); }

/// As above for a size known at run time, no more than `kMaxLines` lines.
template <int kMaxLines = 16>
SMEX_INLINE void prefetch_rows(const void* far, const void* near, int64_t bytes) {
  const int64_t most = bytes < kMaxLines * kCacheLine ? bytes : kMaxLines * kCacheLine;
  for (int64_t offset = 0; offset < most; offset += kCacheLine) {
    __builtin_prefetch(static_cast<const char*>(far) + offset, 0, 2);
    __builtin_prefetch(static_cast<const char*>(near) + offset, 0, 3);
  }
}

template <int kMaxLines = 16>
SMEX_INLINE void prefetch_rows_far(const void* far, int64_t bytes) {
  const int64_t most = bytes < kMaxLines * kCacheLine ? bytes : kMaxLines * kCacheLine;
  for (int64_t offset = 0; offset < most; offset += kCacheLine)
    prefetch_far(static_cast<const char*>(far) + offset);
}

}  // namespace smex::kernels::SMEX_ISA
