#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace smex::kernels {

/// The operator of a name, to be called through torch's dispatcher; `Type` is its function type.
/// Looking it up takes a while: keep it in a static variable.
template <typename Type>
c10::TypedOperatorHandle<Type> operator_of(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Type>();
}

}  // namespace smex::kernels
