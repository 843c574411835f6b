// Graphs, numbers and instruction sets that the tests of message kernels share.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "edges/rows.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/isa.h"
#include "kernels/message/reference.h"

namespace smex::kernels::cpu_tests {

// ---- instruction sets ----

template <typename Function>
struct Version {
  const char* isa;
  Function call;
};

/// The versions of a kernel that this processor runs.
template <typename Function, typename... Wider>
std::vector<Version<Function>> supported(Function for_default, Wider... wider) {
  constexpr const char* kNames[] = {"avx2", "avx512"};
  std::vector<Version<Function>> versions = {{"default", for_default}};
  int level = 0;
  const auto add = [&](Function version) {
    if (static_cast<int>(supported_isa()) > level) versions.push_back({kNames[level], version});
    ++level;
  };
  (add(wider), ...);
  return versions;
}

/// `SMEX_SUPPORTED(f<float>)`: all versions of f<float>.
#ifdef SMEX_X86
#define SMEX_SUPPORTED(...)                                                                \
  ::smex::kernels::cpu_tests::supported(&isa_default::__VA_ARGS__, &isa_avx2::__VA_ARGS__, \
                                        &isa_avx512::__VA_ARGS__)
#else
#define SMEX_SUPPORTED(...) ::smex::kernels::cpu_tests::supported(&isa_default::__VA_ARGS__)
#endif

// ---- numbers ----

/// By the definition of the formats: sign, exponent, fraction.
inline double decode(int bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
  const int fraction = bits & ((1 << fraction_bits) - 1), exponent = bits >> fraction_bits & top;
  const double sign = bits >> (exponent_bits + fraction_bits) & 1 ? -1 : 1;
  if (exponent == top) return std::copysign(fraction ? NAN : INFINITY, sign);
  const int implied = exponent ? 1 << fraction_bits : 0;
  return sign * std::ldexp(implied + fraction, (exponent ? exponent : 1) - bias - fraction_bits);
}

inline double number(float x) { return x; }
inline double number(double x) { return x; }
template <int kExponentBits, int kFractionBits>
double decoded(uint16_t bits) {
  static const std::vector<double> table = [] {
    std::vector<double> numbers;
    for (int b = 0; b < 0x10000; ++b) numbers.push_back(decode(b, kExponentBits, kFractionBits));
    return numbers;
  }();
  return table[bits];
}

inline double number(BFloat16 x) { return decoded<8, 7>(x.bits); }
inline double number(Half x) { return decoded<5, 10>(x.bits); }

/// The number of T that is x; one that is no number where T has none.
template <typename T>
T exactly(double x) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const double candidate = number(T{static_cast<uint16_t>(bits)});
      if (candidate == x || (std::isnan(candidate) && std::isnan(x)))
        return {static_cast<uint16_t>(bits)};
    }
    return {0x7fff};
  } else {
    return static_cast<T>(x);
  }
}

template <typename T>
constexpr double kEpsilon = std::is_same_v<T, double>  ? 0x1p-52
                            : std::is_same_v<T, float> ? 0x1p-23
                            : std::is_same_v<T, Half>  ? 0x1p-10
                                                       : 0x1p-7;

/// Equal but for `ulps` roundings of T; NaN equals NaN.
template <typename T>
::testing::AssertionResult near(double found, double expected, double ulps) {
  if (std::isnan(expected) && std::isnan(found)) return ::testing::AssertionSuccess();
  if (found == expected || std::abs(found - expected) <= ulps * kEpsilon<T> * std::abs(expected))
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "found " << found << ", expected " << expected;
}

/// Quarters between -2 and 2: many are equal, and sums and products of a few are exact in every
/// type that sums are kept in.
template <typename T>
std::vector<T> quarters(int64_t count, uint64_t seed) {
  static const std::vector<T> known = [] {
    std::vector<T> result;
    for (int i = -8; i <= 8; ++i) result.push_back(exactly<T>(i / 4.0));
    return result;
  }();
  std::mt19937_64 draw(seed);
  std::vector<T> values(count);
  for (T& value : values) value = known[draw() % known.size()];
  return values;
}

/// Where vector loads are not aligned: the values begin one element into the memory.
template <typename T>
struct Misaligned {
  std::vector<T> memory;

  explicit Misaligned(const std::vector<T>& values) : memory(values.size() + 1) {
    std::copy(values.begin(), values.end(), memory.begin() + 1);
  }
  const T* data() const { return memory.data() + 1; }
};

/// Memory of a result with a number before and after it that nobody may change.
template <typename T>
struct Guarded {
  static constexpr int kGuard = 16;
  T sentinel = exactly<T>(3.0);
  std::vector<T> memory;

  explicit Guarded(int64_t size) : memory(size + 2 * kGuard + 1, sentinel) {}
  T* data() { return memory.data() + kGuard + 1; }
  int64_t size() const { return static_cast<int64_t>(memory.size()) - 2 * kGuard - 1; }
  bool is_intact() const {
    for (int i = 0; i < kGuard; ++i)
      if (number(memory[i]) != number(sentinel) ||
          number(memory[memory.size() - 1 - i]) != number(sentinel))
        return false;
    return true;
  }
  std::vector<double> numbers() {
    std::vector<double> result;
    for (int64_t i = 0; i < size(); ++i) result.push_back(number(data()[i]));
    return result;
  }
};

// ---- graphs ----

template <typename I>
struct SampleGraph {
  std::string name;
  int64_t num_columns = 1;
  std::vector<I> indptr, indices, eids;

  /// `degrees[r]` edges for each row r, other ends and edge ids at random.
  SampleGraph(std::string name, const std::vector<int64_t>& degrees, int64_t num_columns = 11)
      : name(std::move(name)), num_columns(num_columns), indptr(1, 0) {
    std::mt19937_64 draw(degrees.size());
    for (const int64_t degree : degrees) indptr.push_back(static_cast<I>(indptr.back() + degree));
    for (I k = 0; k < indptr.back(); ++k) indices.push_back(static_cast<I>(draw() % num_columns));
    eids.resize(indices.size());
    std::iota(eids.begin(), eids.end(), I(0));
    std::shuffle(eids.begin(), eids.end(), draw);
  }

  int64_t num_rows() const { return static_cast<int64_t>(indptr.size()) - 1; }
  int64_t num_edges() const { return static_cast<int64_t>(indices.size()); }
  int64_t num_nodes(Target target) const {
    return target == Target::kSource        ? num_columns
           : target == Target::kDestination ? num_rows()
           : target == Target::kEdge        ? num_edges()
                                            : 1;
  }

  EdgeRows<I> rows(bool with_eids) const {
    return {num_rows(), num_edges(), indptr.data(), indices.data(),
            with_eids ? eids.data() : nullptr};
  }
  int64_t eid(int64_t k, bool with_eids) const { return with_eids ? int64_t{eids[k]} : k; }
};

/// Rows of 0 to 40 edges, empty ones at both ends and in between.
template <typename I>
SampleGraph<I> small_graph() {
  return {"small", {0, 3, 0, 0, 40, 1, 2, 7, 0}};
}

/// Shapes of graphs that are awkward to divide.
template <typename I>
std::vector<SampleGraph<I>> sample_graphs() {
  std::vector<int64_t> ones(50, 1), many(61);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<int64_t>(i * 7 % 5);
  return {{"no rows", {}},
          {"one empty row", {0}},
          {"no edges", {0, 0, 0, 0, 0}},
          {"one edge", {1}},
          {"one edge at the end", {0, 0, 0, 1}},
          {"one row", {120}},
          {"hub at the beginning", {120, 1, 0, 2}},
          {"hub at the end", {0, 2, 1, 120}},
          {"hubs", {2, 0, 60, 0, 0, 60, 1}},
          {"empty rows", {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}},
          {"ones", ones},
          {"many", many},
          small_graph<I>()};
}

/// Into how many pieces the tests divide: none, few, more than there are rows or edges.
inline const std::vector<int64_t> kPieceCounts = {1, 2, 3, 7, 64, 300};

/// Around the lengths of vectors, and where runs of several of them end. How wide ids are does not
/// change how features are done: a few sizes are enough for the other type.
template <typename I>
std::vector<int64_t> sizes() {
  if (sizeof(I) == 8) return {1, 5, 16, 33};
  return {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 129, 255, 257, 300};
}

// ---- types ----

template <typename Feature, typename Id>
struct Types {
  using T = Feature;
  using I = Id;
};

using AllTypes =
    ::testing::Types<Types<float, int32_t>, Types<float, int64_t>, Types<double, int32_t>,
                     Types<double, int64_t>, Types<BFloat16, int32_t>, Types<BFloat16, int64_t>,
                     Types<Half, int32_t>, Types<Half, int64_t>>;

struct TypeNames {
  template <typename Pair>
  static std::string GetName(int) {
    using T = typename Pair::T;
    const std::string feature = std::is_same_v<T, float>    ? "float"
                                : std::is_same_v<T, double> ? "double"
                                : std::is_same_v<T, Half>   ? "half"
                                                            : "bfloat16";
    return feature + (sizeof(typename Pair::I) == 4 ? "_int32" : "_int64");
  }
};

/// What a leaf of a message reads at an edge, from rows of the shape `shape`.
template <typename T>
reference::Array row_of(const T* rows, int64_t row, const FeatureShape& shape) {
  reference::Array result{shape, {}};
  const int64_t size = reference::size_of(shape);
  for (int64_t i = 0; i < size; ++i) result.data.push_back(number(rows[row * size + i]));
  return result;
}

}  // namespace smex::kernels::cpu_tests
