// Python's view of csrc/kernels: the operations of messages. The operators are torch's to call.
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "bindings/bindings.h"
#include "kernels/message/expression.h"
#include "kernels/message/operation_table.h"

namespace py = pybind11;

namespace smex::bindings {
namespace {

/// `(operation, arguments)`, with the names that smex.formula has for them.
py::tuple nested(const kernels::Message& message) {
  using kernels::MessageOp;
  if (message->op == MessageOp::kOperand) {
    const std::string text = kernels::to_string(message);
    return py::make_tuple("leaf", py::make_tuple(text.substr(0, 1), message->operand));
  }
  if (message->op == MessageOp::kConstant)
    return py::make_tuple("number", py::make_tuple(message->value));
  const kernels::Operation& known = kernels::operation_of(message->op);
  if (!message->b) return py::make_tuple(known.name, py::make_tuple(nested(message->a)));
  return py::make_tuple(*known.sign ? known.sign : known.name,
                        py::make_tuple(nested(message->a), nested(message->b)));
}

}  // namespace

void bind_kernels(py::module_& m) {
  using kernels::Operation;
  py::class_<Operation>(m, "MessageOperation", "How an operation of messages is called.")
      .def_readonly("name", &Operation::name, "of the function, or of what the sign means")
      .def_readonly("sign", &Operation::sign, "what it is written with; empty: as a function")
      .def_readonly("arguments", &Operation::arguments, "the number of them")
      .def_readonly("takes_number", &Operation::takes_number, "the second one is a number")
      .def_readonly("is_elementwise", &Operation::is_elementwise)
      .def_readonly("in_messages", &Operation::in_messages, "not in programs alone")
      .def_readonly("has_gradient", &Operation::has_gradient, "one that is not 0 throughout")
      .def_readonly("is_condition", &Operation::is_condition,
                    "torch's operator gives bool, the operation 1 and 0")
      .def_readonly("torch", &Operation::torch,
                    "the ATen operator of this meaning; empty where there is none");
  m.def(
      "message_operations",
      [] {
        const auto all = kernels::operations();
        return std::vector<Operation>(all.begin(), all.end());
      },
      "All operations of messages and element-wise programs, each a line of operations.def.");
  m.def(
      "parse_message", [](const std::string& text) { return nested(kernels::parse_message(text)); },
      "A message as nested (operation, arguments); raises ValueError where the text is wrong.");
}

}  // namespace smex::bindings
