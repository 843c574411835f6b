#include "runtime/arguments.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/scalar_tensor.h>

#include <optional>

#include "ir/error.h"

namespace smex::runtime {
namespace {

using c10::IValue;
using c10::TypeKind;

struct Conversion {
  c10::Device device;
  int32_t length = 0;  ///< N of `int[N]`, to which a single number is repeated
};

std::optional<double> as_double(const Attr& attr) {
  if (const auto* value = std::get_if<double>(&attr)) return *value;
  if (const auto* value = std::get_if<int64_t>(&attr)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<bool>(&attr)) return *value ? 1.0 : 0.0;
  return std::nullopt;
}

std::optional<int64_t> as_int(const Attr& attr) {
  if (const auto* value = std::get_if<int64_t>(&attr)) return *value;
  if (const auto* value = std::get_if<bool>(&attr)) return *value ? 1 : 0;
  return std::nullopt;
}

std::optional<IValue> as_number(const Attr& attr) {
  if (const auto* value = std::get_if<bool>(&attr)) return IValue(*value);
  if (const auto* value = std::get_if<int64_t>(&attr)) return IValue(*value);
  if (const auto* value = std::get_if<double>(&attr)) return IValue(*value);
  if (const auto* value = std::get_if<std::complex<double>>(&attr)) {
    return IValue(c10::complex<double>(*value));
  }
  return std::nullopt;
}

bool is_int_kind(TypeKind kind) {
  return kind == TypeKind::IntType || kind == TypeKind::SymIntType ||
         kind == TypeKind::ScalarTypeType || kind == TypeKind::LayoutType ||
         kind == TypeKind::MemoryFormatType;
}

std::optional<IValue> convert_scalar(const Attr& attr, TypeKind kind, const Conversion& how) {
  if (is_int_kind(kind)) {
    if (const auto value = as_int(attr)) return IValue(*value);
    return std::nullopt;
  }
  switch (kind) {
    case TypeKind::FloatType:
    case TypeKind::SymFloatType:
      if (const auto value = as_double(attr)) return IValue(*value);
      return std::nullopt;
    case TypeKind::BoolType:
    case TypeKind::SymBoolType:
      if (const auto value = as_int(attr)) return IValue(*value != 0);
      return std::nullopt;
    case TypeKind::NumberType:
      return as_number(attr);
    case TypeKind::TensorType:
      if (const auto number = as_number(attr)) return IValue(wrapped_number(number->toScalar()));
      return std::nullopt;
    case TypeKind::StringType:
      if (const auto* value = std::get_if<std::string>(&attr)) return IValue(*value);
      return std::nullopt;
    case TypeKind::DeviceObjType:
      return IValue(how.device);
    default:
      return std::nullopt;
  }
}

template <class Target>
std::optional<c10::List<Target>> as_list(const Attr& attr, int32_t length) {
  c10::List<Target> list;
  const auto append_all = [&](const auto& values) {
    for (const auto value : values) list.push_back(static_cast<Target>(value));
  };
  if (const auto* values = std::get_if<std::vector<int64_t>>(&attr)) {
    append_all(*values);
  } else if (const auto* values = std::get_if<std::vector<double>>(&attr)) {
    append_all(*values);
  } else if (const auto* values = std::get_if<std::vector<bool>>(&attr)) {
    append_all(*values);
  } else if (const auto value = as_double(attr); value && length > 0) {
    for (int32_t i = 0; i < length; ++i) list.push_back(static_cast<Target>(*value));
  } else {
    return std::nullopt;
  }
  return list;
}

std::optional<IValue> convert_list(const Attr& attr, const c10::TypePtr& element,
                                   const Conversion& how) {
  const TypeKind kind = element->kind();
  if (is_int_kind(kind)) {
    if (auto list = as_list<int64_t>(attr, how.length)) return IValue(std::move(*list));
  } else if (kind == TypeKind::FloatType) {
    if (auto list = as_list<double>(attr, how.length)) return IValue(std::move(*list));
  } else if (kind == TypeKind::BoolType) {
    if (auto list = as_list<bool>(attr, how.length)) return IValue(std::move(*list));
  } else if (kind == TypeKind::NumberType) {
    c10::List<at::Scalar> scalars;
    if (const auto* ints = std::get_if<std::vector<int64_t>>(&attr)) {
      for (const int64_t value : *ints) scalars.push_back(value);
      return IValue(std::move(scalars));
    }
    if (const auto* doubles = std::get_if<std::vector<double>>(&attr)) {
      for (const double value : *doubles) scalars.push_back(value);
      return IValue(std::move(scalars));
    }
  }
  return std::nullopt;
}

std::optional<IValue> convert(const Attr& attr, const c10::TypePtr& type, const Conversion& how) {
  if (const auto* optional = type->castRaw<c10::OptionalType>()) {
    const auto& element = optional->getElementType();
    const bool is_device = element->kind() == TypeKind::DeviceObjType;
    if (std::holds_alternative<std::monostate>(attr)) {
      return is_device && !how.device.is_cpu() ? IValue(how.device) : IValue();
    }
    return convert(attr, element, how);
  }
  if (std::holds_alternative<std::monostate>(attr)) {
    const TypeKind kind = type->kind();
    const bool may_be_absent = kind == TypeKind::GeneratorType || kind == TypeKind::TensorType;
    return may_be_absent ? std::optional<IValue>(IValue()) : std::nullopt;
  }
  if (const auto* list = type->castRaw<c10::ListType>()) {
    return convert_list(attr, list->getElementType(), how);
  }
  return convert_scalar(attr, type->kind(), how);
}

const char* attr_kind(const Attr& attr) {
  static constexpr const char* kNames[] = {"None",  "bool",    "int",    "float",  "complex", "str",
                                           "int[]", "float[]", "bool[]", "Tensor", "Tensor[]"};
  return kNames[attr.index()];
}

/// The element type of a list of tensors, or null: looks through `?` and `[]`.
const c10::ListType* tensor_list_type(const c10::TypePtr& type) {
  const c10::Type* inner = type.get();
  if (const auto* optional = type->castRaw<c10::OptionalType>()) {
    inner = optional->getElementType().get();
  }
  const auto* list = inner->castRaw<c10::ListType>();
  if (!list) return nullptr;
  auto element = list->getElementType();
  if (const auto* optional = element->castRaw<c10::OptionalType>()) {
    element = optional->getElementType();
  }
  return element->kind() == TypeKind::TensorType ? list : nullptr;
}

bool is_empty_list(const Attr& attr) {
  const auto* ints = std::get_if<std::vector<int64_t>>(&attr);
  const auto* doubles = std::get_if<std::vector<double>>(&attr);
  const auto* bools = std::get_if<std::vector<bool>>(&attr);
  return (ints && ints->empty()) || (doubles && doubles->empty()) || (bools && bools->empty());
}

/// Records tensor operands; false when `attr` is a plain value.
bool add_tensors(const Attr& attr, const c10::Argument& argument, int position, Arguments& out) {
  if (const auto* list = tensor_list_type(argument.type())) {
    TensorListArgument operand{
        position, {}, list->getElementType()->kind() == TypeKind::OptionalType};
    if (const auto* refs = std::get_if<std::vector<ValueRef>>(&attr)) {
      for (const ValueRef& ref : *refs) operand.slots.push_back(ref.id);
    } else if (!is_empty_list(attr)) {
      return false;
    }
    out.lists.push_back(std::move(operand));
    return true;
  }
  const auto* ref = std::get_if<ValueRef>(&attr);
  if (!ref) return false;
  if (ref->id != kNoValue) out.tensors.push_back({position, ref->id});
  return true;
}

}  // namespace

at::Tensor wrapped_number(const at::Scalar& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

Arguments prepare_arguments(const c10::FunctionSchema& schema, const std::vector<Attr>& args,
                            c10::Device device, bool seeded) {
  const auto& expected = schema.arguments();
  if (args.size() > expected.size()) {
    throw InternalError(
        c10::str(schema.name(), " takes ", expected.size(), " arguments, found ", args.size()));
  }
  Arguments out;
  out.values.resize(expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const c10::Argument& argument = expected[i];
    const int position = static_cast<int>(i);
    if (seeded && argument.name() == "seed") {
      out.seeds.push_back(position);
      continue;
    }
    if (i >= args.size()) {
      if (!argument.default_value()) {
        throw InternalError(c10::str(schema.name(), ": argument ", i, " '", argument.name(),
                                     "' has no default and was not given"));
      }
      out.values[i] = *argument.default_value();
      continue;
    }
    if (add_tensors(args[i], argument, position, out)) continue;
    auto value = convert(args[i], argument.type(), {device, argument.N().value_or(0)});
    if (!value) {
      throw InternalError(c10::str(schema.name(), ": argument ", i, " '", argument.name(), "' is ",
                                   argument.type()->str(), ", found ", attr_kind(args[i])));
    }
    out.values[i] = std::move(*value);
  }
  return out;
}

}  // namespace smex::runtime
