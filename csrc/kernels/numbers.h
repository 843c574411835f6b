// Features of every type as numbers of the type they are accumulated in.
#pragma once

#include <cstring>

#include "host_device.h"
#include "kernels/cpu/half.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#elif defined(__F16C__)
#include <immintrin.h>
#endif

namespace smex::kernels {

SMEX_HOST_DEVICE float widen(float x) { return x; }
SMEX_HOST_DEVICE double widen(double x) { return x; }

SMEX_HOST_DEVICE float widen(BFloat16 x) {
  const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float result;
  memcpy(&result, &bits, sizeof(result));
  return result;
}

SMEX_HOST_DEVICE float widen(Half x) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(x.bits));
#else
  // The exponent is moved by a multiplication, which makes subnormals right too.
  const uint32_t rest = x.bits & 0x7fffu;
  uint32_t bits = rest << 13;
  float result;
  memcpy(&result, &bits, sizeof(result));
  result *= 0x1p112f;
  memcpy(&bits, &result, sizeof(bits));
  if (rest >= 0x7c00u) bits = 0x7f800000u | (rest << 13 & 0x007fffffu);
  bits |= static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  memcpy(&result, &bits, sizeof(result));
  return result;
#endif
}

SMEX_HOST_DEVICE void narrow(float x, float& to) { to = x; }
SMEX_HOST_DEVICE void narrow(double x, double& to) { to = x; }

SMEX_HOST_DEVICE void narrow(float x, BFloat16& to) {
#if defined(__CUDA_ARCH__)
  to.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
#else
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  to.bits = static_cast<uint16_t>(x != x ? (bits >> 16 | 0x40u) : rounded);
#endif
}

SMEX_HOST_DEVICE void narrow(float x, Half& to) {
#if defined(__CUDA_ARCH__)
  to.bits = __half_as_ushort(__float2half_rn(x));
#elif defined(__F16C__)
  to.bits = static_cast<uint16_t>(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT));
#else
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  const uint32_t sign = bits >> 16 & 0x8000u;
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) {
    bits = 0x7e00u;  // NaN
  } else if (bits >= 0x477ff000u) {
    bits = 0x7c00u;                 // rounds to infinity
  } else if (bits < 0x38800000u) {  // subnormal: the addition rounds at the right bit
    float magnitude;
    memcpy(&magnitude, &bits, sizeof(magnitude));
    magnitude += 0.5f;
    memcpy(&bits, &magnitude, sizeof(bits));
    bits -= 0x3f000000u;
  } else {
    bits = (bits - 0x38000000u + 0xfffu + (bits >> 13 & 1u)) >> 13;
  }
  to.bits = static_cast<uint16_t>(sign | bits);
#endif
}

}  // namespace smex::kernels
