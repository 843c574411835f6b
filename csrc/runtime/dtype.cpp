#include "runtime/dtype.h"

#include <ATen/core/TensorBody.h>

#include <map>

#include "ir/error.h"

namespace smex::runtime {

c10::ScalarType parse_dtype(const std::string& name) {
  static const std::map<std::string, c10::ScalarType> kTypes = {
      {"bfloat16", at::kBFloat16},
      {"bool", at::kBool},
      {"complex128", at::kComplexDouble},
      {"complex32", at::kComplexHalf},
      {"complex64", at::kComplexFloat},
      {"float16", at::kHalf},
      {"float32", at::kFloat},
      {"float64", at::kDouble},
      {"float8_e4m3fn", at::kFloat8_e4m3fn},
      {"float8_e4m3fnuz", at::kFloat8_e4m3fnuz},
      {"float8_e5m2", at::kFloat8_e5m2},
      {"float8_e5m2fnuz", at::kFloat8_e5m2fnuz},
      {"float8_e8m0fnu", at::kFloat8_e8m0fnu},
      {"int16", at::kShort},
      {"int32", at::kInt},
      {"int64", at::kLong},
      {"int8", at::kChar},
      {"uint16", at::kUInt16},
      {"uint32", at::kUInt32},
      {"uint64", at::kUInt64},
      {"uint8", at::kByte}};
  if (name.empty()) return c10::ScalarType::Undefined;
  const auto found = kTypes.find(name);
  if (found == kTypes.end()) throw InternalError("unknown dtype '" + name + "'");
  return found->second;
}

}  // namespace smex::runtime
