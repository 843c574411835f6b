#include "kernels/cpu/vectors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/message/cpu_samples.h"

namespace smex::kernels {
using namespace cpu_tests;

namespace {

constexpr int kLaneCounts[] = {1, 4, 8, 16};
constexpr int kPatterns = 0x10000;

template <typename T>
std::vector<T> all_patterns() {
  std::vector<T> result;
  for (int bits = 0; bits < kPatterns; ++bits) result.push_back({static_cast<uint16_t>(bits)});
  return result;
}

float next(float x) { return std::nextafter(x, INFINITY); }

template <typename T>
class SmallFloat : public ::testing::Test {};
using SmallFloats = ::testing::Types<BFloat16, Half>;
TYPED_TEST_SUITE(SmallFloat, SmallFloats);

TYPED_TEST(SmallFloat, EveryPatternIsReadByItsDefinition) {
  using T = TypeParam;
  const std::vector<T> patterns = all_patterns<T>();
  for (const auto& version : SMEX_SUPPORTED(load_all<T>)) {
    for (const int lanes : kLaneCounts) {
      std::vector<float> found(kPatterns);
      version.call(patterns.data(), found.data(), kPatterns, lanes);
      for (int bits = 0; bits < kPatterns; ++bits) {
        const double expected = number(patterns[bits]);
        ASSERT_TRUE(found[bits] == expected || (std::isnan(found[bits]) && std::isnan(expected)))
            << version.isa << ", " << lanes << " lanes: bits " << bits << " read as "
            << found[bits];
        ASSERT_EQ(std::signbit(found[bits]), bits >= 0x8000) << bits;
      }
    }
  }
}

TYPED_TEST(SmallFloat, EveryPatternSurvivesReadingAndWriting) {
  using T = TypeParam;
  const std::vector<T> patterns = all_patterns<T>();
  std::vector<float> wide;
  for (const T pattern : patterns) wide.push_back(static_cast<float>(number(pattern)));
  for (const auto& version : SMEX_SUPPORTED(store_all<T>)) {
    for (const int lanes : kLaneCounts) {
      std::vector<T> found(kPatterns);
      version.call(wide.data(), found.data(), kPatterns, lanes);
      for (int bits = 0; bits < kPatterns; ++bits) {
        if (std::isnan(wide[bits])) {
          ASSERT_TRUE(std::isnan(number(found[bits]))) << version.isa << ": bits " << bits;
        } else {
          ASSERT_EQ(found[bits].bits, bits) << version.isa << ", " << lanes << " lanes";
        }
      }
    }
  }
}

// Between two neighbours the nearer one is taken, in the middle the even one. What follows the
// largest number is infinity, as if the exponent had another value.
TYPED_TEST(SmallFloat, RoundsToTheNearestAndTiesToEven) {
  using T = TypeParam;
  const bool is_half = std::is_same_v<T, Half>;
  const int infinity = is_half ? 0x7c00 : 0x7f80;
  std::vector<float> values;
  std::vector<int> expected;
  for (int bits = 0; bits < infinity; ++bits) {
    const double low = number(T{static_cast<uint16_t>(bits)});
    const double high = bits + 1 < infinity ? number(T{static_cast<uint16_t>(bits + 1)})
                                            : std::ldexp(1, is_half ? 16 : 128);
    const float middle = static_cast<float>(low / 2 + high / 2);
    for (const int side : {-1, 0, 1}) {
      const float value = side == 0 ? middle : side > 0 ? next(middle) : -next(-middle);
      values.push_back(value);
      expected.push_back(side < 0 ? bits : side > 0 || bits % 2 ? bits + 1 : bits);
      values.push_back(-value);
      expected.push_back(expected.back() | 0x8000);
    }
  }
  while (values.size() % 16) {
    values.push_back(0);
    expected.push_back(0);
  }
  const auto count = static_cast<int64_t>(values.size());
  for (const auto& version : SMEX_SUPPORTED(store_all<T>)) {
    for (const int lanes : kLaneCounts) {
      std::vector<T> found(values.size());
      version.call(values.data(), found.data(), count, lanes);
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(found[i].bits, expected[i])
            << version.isa << ", " << lanes << " lanes: " << values[i];
    }
  }
}

TYPED_TEST(SmallFloat, NanStaysNanWhateverItsBits) {
  using T = TypeParam;
  std::vector<float> values;
  for (uint32_t payload = 1; payload < 0x800000; payload = payload * 2 + 1) {
    for (const uint32_t bits :
         {0x7f800000u | payload, 0xff800000u | payload, 0x7fffffffu ^ payload >> 1}) {
      float value;
      std::memcpy(&value, &bits, sizeof(value));
      if (std::isnan(value)) values.push_back(value);
    }
  }
  values.resize(values.size() / 16 * 16);
  for (const auto& version : SMEX_SUPPORTED(store_all<T>)) {
    for (const int lanes : kLaneCounts) {
      std::vector<T> found(values.size());
      version.call(values.data(), found.data(), static_cast<int64_t>(values.size()), lanes);
      for (const T x : found) ASSERT_TRUE(std::isnan(number(x))) << version.isa << ", " << lanes;
    }
  }
}

// ---- the exponential function ----

/// Distance of `found` from e^x in units of the last place of the float nearest to e^x.
double ulps_of_exp(float found, float x) {
  const double exact = std::exp(static_cast<double>(x));
  const float nearest = static_cast<float>(exact);
  if (std::isinf(nearest) || nearest == 0) return found == nearest ? 0 : 1e9;
  const double spacing = static_cast<double>(std::nextafter(nearest, INFINITY)) - nearest;
  return std::isinf(spacing) ? (std::isinf(found) || std::abs(found - exact) < 1e32 ? 0 : 1e9)
                             : std::abs(found - exact) / spacing;
}

TEST(Exp, FloatIsWithinThreeUlp) {
  std::vector<float> x;
  for (double at = -110; at < 95; at += 0.0017) x.push_back(static_cast<float>(at));
  for (double at = 1e-45; at < 1; at *= 1.9) {
    x.push_back(static_cast<float>(at));
    x.push_back(static_cast<float>(-at));
  }
  for (const float edge : {0.f, -0.f, 88.722839f, 88.72284f, 89.f, -87.33655f, -103.97208f,
                           -103.97209f, -104.f, 1e30f, -1e30f, INFINITY, -INFINITY})
    x.push_back(edge);
  while (x.size() % 16) x.push_back(0);
  for (const auto& version : SMEX_SUPPORTED(exp_all<float>)) {
    for (const int lanes : kLaneCounts) {
      std::vector<float> found(x.size());
      version.call(x.data(), found.data(), static_cast<int64_t>(x.size()), lanes);
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_LE(ulps_of_exp(found[i], x[i]), 3)
            << version.isa << ", " << lanes << " lanes: exp(" << x[i] << ") = " << found[i];
    }
  }
}

TEST(Exp, NanStays) {
  const std::vector<float> x(16, NAN);
  const std::vector<double> y(16, NAN);
  for (const int lanes : kLaneCounts) {
    for (const auto& version : SMEX_SUPPORTED(exp_all<float>)) {
      std::vector<float> found(16);
      version.call(x.data(), found.data(), 16, lanes);
      for (const float value : found) EXPECT_TRUE(std::isnan(value)) << version.isa;
    }
    for (const auto& version : SMEX_SUPPORTED(exp_all<double>)) {
      std::vector<double> found(16);
      version.call(y.data(), found.data(), 16, lanes);
      for (const double value : found) EXPECT_TRUE(std::isnan(value)) << version.isa;
    }
  }
}

TEST(Exp, DoubleIsWithinThreeUlp) {
  std::vector<double> x;
  for (double at = -760; at < 720; at += 0.037) x.push_back(at);
  while (x.size() % 16) x.push_back(0);
  for (const auto& version : SMEX_SUPPORTED(exp_all<double>)) {
    for (const int lanes : kLaneCounts) {
      std::vector<double> found(x.size());
      version.call(x.data(), found.data(), static_cast<int64_t>(x.size()), lanes);
      for (size_t i = 0; i < x.size(); ++i) {
        const double expected = std::exp(x[i]);
        const double spacing = std::nextafter(expected, INFINITY) - expected;
        ASSERT_TRUE(found[i] == expected || std::abs(found[i] - expected) <= 3 * spacing)
            << version.isa << ", " << lanes << " lanes: exp(" << x[i] << ") = " << found[i];
      }
    }
  }
}

// ---- tanh and the error function ----

/// Both are odd, near the identity about 0, and 1 at infinity.
template <typename C, typename Versions>
void check_odd(const Versions& versions, double (*exact)(double), C tolerance) {
  std::vector<C> x;
  for (double at = 1e-30; at < 1e-3; at *= 1.7) x.push_back(static_cast<C>(at));
  for (double at = 1e-3; at < 12; at += 0.00071) x.push_back(static_cast<C>(at));
  for (const double edge : {0.0, 0.3, 0.5, 50.0, 100.0, 1e30, double{INFINITY}})
    x.push_back(static_cast<C>(edge));
  while (x.size() % 16) x.push_back(1);
  std::vector<C> negated(x), found(x.size());
  for (C& value : negated) value = -value;
  for (const auto& version : versions) {
    for (const int lanes : kLaneCounts) {
      version.call(x.data(), found.data(), static_cast<int64_t>(x.size()), lanes);
      for (size_t i = 0; i < x.size(); ++i) {
        const double expected = exact(x[i]);
        ASSERT_LE(std::abs(found[i] - expected), tolerance * expected)
            << version.isa << ", " << lanes << " lanes, at " << x[i];
      }
      std::vector<C> mirrored(x.size());
      version.call(negated.data(), mirrored.data(), static_cast<int64_t>(x.size()), lanes);
      for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(mirrored[i], -found[i]) << x[i];
      const std::vector<C> nans(16, NAN);
      version.call(nans.data(), found.data(), 16, lanes);
      for (int i = 0; i < 16; ++i) ASSERT_TRUE(std::isnan(found[i])) << version.isa;
    }
  }
}

TEST(Tanh, FloatIsWithinThreeUlp) {
  check_odd<float>(SMEX_SUPPORTED(tanh_all<float>), std::tanh, 3 * 1.2e-7f);
}

TEST(Erf, FloatIsWithinFourUlp) {
  check_odd<float>(SMEX_SUPPORTED(erf_all<float>), std::erf, 4 * 1.2e-7f);
}

TEST(TanhAndErf, DoubleIsTheLibrarys) {
  check_odd<double>(SMEX_SUPPORTED(tanh_all<double>), std::tanh, 1e-15);
  check_odd<double>(SMEX_SUPPORTED(erf_all<double>), std::erf, 1e-15);
}

// ---- horizontal sums ----

TEST(SumLanes, AddsEveryLane) {
  std::vector<float> x;
  std::vector<double> y;
  for (int i = 0; i < 16; ++i) {
    x.push_back(static_cast<float>(1 << i));
    y.push_back(1 << i);
  }
  for (const int lanes : kLaneCounts) {
    for (const auto& version : SMEX_SUPPORTED(sum_all<float>))
      EXPECT_EQ(version.call(x.data(), lanes), (1 << lanes) - 1) << version.isa;
    for (const auto& version : SMEX_SUPPORTED(sum_all<double>))
      EXPECT_EQ(version.call(y.data(), lanes), (1 << lanes) - 1) << version.isa;
  }
}

// What a kernel named after an instruction set is compiled for.
TEST(Isa, VectorsAreAsWideAsTheirNameSays) {
  for (const auto& version : SMEX_SUPPORTED(lanes_of_float)) {
    const std::string isa = version.isa;
    EXPECT_EQ(version.call(), isa == "avx512" ? 16 : isa == "avx2" ? 8 : 4);
  }
  EXPECT_LE(best_isa(), supported_isa());
}

}  // namespace
}  // namespace smex::kernels
