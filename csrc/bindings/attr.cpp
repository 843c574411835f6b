#include "bindings/attr.h"

#include <pybind11/complex.h>
#include <pybind11/stl.h>

namespace py = pybind11;

namespace smex::bindings {

Attr to_attr(const py::handle& arg) {
  if (arg.is_none()) return std::monostate{};
  if (py::isinstance<ValueRef>(arg)) return arg.cast<ValueRef>();
  if (py::isinstance<py::bool_>(arg)) return arg.cast<bool>();
  if (py::isinstance<py::int_>(arg)) return arg.cast<int64_t>();
  if (py::isinstance<py::float_>(arg)) return arg.cast<double>();
  if (PyComplex_Check(arg.ptr())) return arg.cast<std::complex<double>>();
  if (py::isinstance<py::str>(arg)) return arg.cast<std::string>();
  const auto list = arg.cast<py::sequence>();
  if (list.size() == 0) return std::vector<int64_t>{};
  bool refs = false;
  for (const auto& item : list) refs = refs || py::isinstance<ValueRef>(item);
  if (refs) {
    std::vector<ValueRef> values;
    for (const auto& item : list) {
      values.push_back(item.is_none() ? ValueRef{} : item.cast<ValueRef>());
    }
    return values;
  }
  if (py::isinstance<py::bool_>(list[0])) return arg.cast<std::vector<bool>>();
  if (py::isinstance<py::float_>(list[0])) return arg.cast<std::vector<double>>();
  return arg.cast<std::vector<int64_t>>();
}

}  // namespace smex::bindings
