// Python's view of what runs vertex functions: their calls, and loops over the tasks of a schedule.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/translated.h"
#include "ir/error.h"
#include "ir/graph.h"
#include "runtime/arguments.h"
#include "runtime/vertex/calls.h"
#include "runtime/vertex/tasks.h"

namespace py = pybind11;

namespace smex::bindings {
namespace {

using runtime::Calls;
using runtime::TaskLoop;
using runtime::TaskPlan;
using runtime::Tasks;
using Column = TaskLoop::Column;
using Sink = TaskLoop::Sink;

/// (operator, overload, arguments, numbers of the results and of the list of all of them, -1 for
/// what nobody needs); Ellipsis is an argument's default. "[]" takes an element of a list, and a
/// sign is arithmetic of sizes; both have one number.
using GivenCall = std::tuple<std::string, std::string, py::list, std::vector<int>>;

bool is_value(const py::handle& arg) { return py::isinstance<ValueRef>(arg); }

bool has_values(const py::handle& arg) {
  if (!py::isinstance<py::list>(arg) && !py::isinstance<py::tuple>(arg)) return false;
  for (const auto& item : arg) {
    if (is_value(item)) return true;
  }
  return false;
}

const c10::Type& inside_of_optional(const c10::Type& type) {
  const auto* optional = type.castRaw<c10::OptionalType>();
  return optional ? *optional->getElementType() : type;
}

Calls::Size to_size(const py::handle& arg) {
  if (is_value(arg)) return {arg.cast<ValueRef>().id, 0};
  return {Calls::kNone, arg.cast<int64_t>()};
}

Calls::OperandList to_list(const py::handle& arg, int position, const c10::Type& type) {
  Calls::OperandList list;
  list.position = position;
  const auto* found = inside_of_optional(type).castRaw<c10::ListType>();
  if (!found) throw InternalError("calls: a list of values for a " + type.str());
  const c10::Type& element = inside_of_optional(*found->getElementType());
  list.of_tensors = element.kind() == c10::TypeKind::TensorType;
  list.optional = found->getElementType()->kind() == c10::TypeKind::OptionalType;
  for (const auto& item : arg) {
    if (list.of_tensors) {
      list.values.push_back(item.is_none() ? Calls::kNone : item.cast<ValueRef>().id);
    } else {
      list.sizes.push_back(to_size(item));
    }
  }
  return list;
}

c10::IValue to_constant(const py::handle& arg, const c10::Argument& argument) {
  const bool is_tensor = inside_of_optional(*argument.type()).kind() == c10::TypeKind::TensorType;
  if (!is_tensor || arg.is_none() || THPVariable_Check(arg.ptr())) {
    return torch::jit::toIValue(arg, argument.type(), argument.N());
  }
  return runtime::wrapped_number(torch::jit::toIValue(arg, c10::NumberType::get()).toScalar());
}

Calls::OfOperator to_operator_call(const GivenCall& given) {
  const auto& [name, overload, args, results] = given;
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
  const std::vector<c10::Argument>& expected = op.schema().arguments();
  if (args.size() != expected.size()) {
    throw InternalError(
        c10::str(name, " takes ", expected.size(), " arguments, found ", args.size()));
  }
  Calls::OfOperator call{op, std::vector<c10::IValue>(expected.size()), {}, {}, results};
  call.list = call.results.back();
  call.results.pop_back();
  for (size_t i = 0; i < expected.size(); ++i) {
    const c10::Argument& argument = expected[i];
    const py::handle arg = args[i];
    if (arg.ptr() == Py_Ellipsis) {
      if (!argument.default_value()) {
        throw InternalError(c10::str(name, ": argument '", argument.name(), "' was not given"));
      }
      call.arguments[i] = *argument.default_value();
    } else if (is_value(arg)) {
      call.operands.push_back({static_cast<int>(i), arg.cast<ValueRef>().id});
    } else if (has_values(arg)) {
      call.lists.push_back(to_list(arg, static_cast<int>(i), *argument.type()));
    } else {
      call.arguments[i] = to_constant(arg, argument);
    }
  }
  return call;
}

std::shared_ptr<Calls> make_calls(int given, const std::vector<GivenCall>& calls,
                                  std::vector<int> results) {
  return translated([&] {
    std::vector<Calls::Call> made;
    for (const GivenCall& call : calls) {
      const auto& [name, overload, args, numbers] = call;
      if (name == "[]") {
        made.push_back(
            Calls::OfItem{args[0].cast<ValueRef>().id, args[1].cast<int>(), numbers.at(0)});
      } else if (name.size() == 1) {  // arithmetic of sizes
        made.push_back(Calls::OfSizes{name[0], to_size(args[0]), to_size(args[1]), numbers.at(0)});
      } else {
        made.push_back(to_operator_call(call));
      }
    }
    return std::make_shared<Calls>(given, std::move(made), std::move(results));
  });
}

c10::IValue to_value(const py::handle& value) {
  if (THPVariable_Check(value.ptr())) return THPVariable_Unpack(value.ptr());
  if (value.is_none()) return {};
  if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value)) {
    return value.cast<std::vector<at::Tensor>>();
  }
  return value.cast<int64_t>();
}

py::list run_calls(const Calls& calls, const py::args& given) {
  std::vector<c10::IValue> values;
  for (const auto& value : given) values.push_back(to_value(value));
  const std::vector<c10::IValue> found = translated([&] {
    const py::gil_scoped_release released;
    return calls.run(std::move(values));
  });
  py::list results;
  for (const c10::IValue& value : found) results.append(torch::jit::toPyObject(value));
  return results;
}

Column::Kind to_column_kind(const std::string& name) {
  static const std::vector<std::pair<std::string, Column::Kind>> kinds{
      {"whole", Column::Kind::kWhole},     {"rows", Column::Kind::kRows},
      {"edges", Column::Kind::kEdges},     {"scratch", Column::Kind::kScratch},
      {"parents", Column::Kind::kParents}, {"scratch_of_edges", Column::Kind::kScratchOfEdges},
      {"gather", Column::Kind::kGather},   {"each", Column::Kind::kEach},
      {"beside", Column::Kind::kBeside},
  };
  for (const auto& [known, kind] : kinds) {
    if (known == name) return kind;
  }
  throw InternalError("tasks: a column of kind " + name);
}

using GivenColumn = std::tuple<std::string, py::object, int64_t, int64_t, int64_t>;
using GivenSink = std::tuple<std::string, std::optional<at::Tensor>, int64_t>;

std::shared_ptr<TaskLoop> make_loop(std::shared_ptr<Calls> calls,
                                    const std::vector<GivenColumn>& given_columns,
                                    const std::vector<std::vector<GivenSink>>& given_sinks,
                                    const std::vector<std::pair<at::Tensor, at::Tensor>>& twins) {
  std::vector<Column> columns;
  for (const auto& [kind, value, dim, per, slot] : given_columns) {
    columns.push_back({to_column_kind(kind), to_value(value), dim, per, slot});
  }
  std::vector<std::vector<Sink>> sinks;
  for (const auto& of_result : given_sinks) {
    auto& own = sinks.emplace_back();
    for (const auto& [kind, grads, slot] : of_result) {
      const auto to = kind == "sum"    ? Sink::Kind::kSum
                      : kind == "slot" ? Sink::Kind::kSlot
                                       : Sink::Kind::kEach;
      own.push_back({to, grads.value_or(at::Tensor()), slot});
    }
  }
  std::vector<TaskLoop::Twins> pairs;
  for (const auto& [from, to] : twins) pairs.push_back({from, to});
  return std::make_shared<TaskLoop>(std::move(calls), std::move(columns), std::move(sinks),
                                    std::move(pairs));
}

}  // namespace

void bind_tasks(py::module_& m) {
  py::class_<Calls, std::shared_ptr<Calls>>(
      m, "Calls", "A straight line of calls of operators on numbered values.")
      .def(
          py::init(&make_calls), py::arg("given"), py::arg("calls"), py::arg("results"),
          "(operator, overload, arguments, numbers of the results and of the list of them, -1 for "
          "none) for each call; an argument is a ValueRef of a value's number, a list with some, a "
          "constant, or ... for its default. \"[]\" takes an element, + - * / are of sizes.")
      .def("run", &run_calls, "Returns the results for the values that are given.");
  py::class_<TaskPlan, std::shared_ptr<TaskPlan>>(m, "TaskPlan",
                                                  "A schedule, and its index arrays on a device.")
      .def(py::init([](std::shared_ptr<vertex::Schedule> schedule, at::Tensor edge_rows,
                       at::Tensor parents, at::Tensor slot_rows,
                       const std::optional<at::Tensor>& edge_orders,
                       const std::optional<at::Tensor>& slot_orders) {
             return std::make_shared<TaskPlan>(std::move(schedule), std::move(edge_rows),
                                               std::move(parents), std::move(slot_rows),
                                               edge_orders.value_or(at::Tensor()),
                                               slot_orders.value_or(at::Tensor()));
           }),
           py::arg("schedule"), py::arg("edge_rows"), py::arg("parents"), py::arg("slot_rows"),
           py::arg("edge_orders"), py::arg("slot_orders"))
      .def_readonly("degrees", &TaskPlan::degrees,
                    "By kind how many children each row has; -1 where they differ.");
  py::class_<TaskLoop, std::shared_ptr<TaskLoop>>(m, "TaskLoop",
                                                  "What a kind of vertices computes task by task.")
      .def(py::init(&make_loop), py::arg("calls"), py::arg("columns"),
           py::arg("sinks") = std::vector<std::vector<GivenSink>>{},
           py::arg("twins") = std::vector<std::pair<at::Tensor, at::Tensor>>{})
      .def_property_readonly(
          "sums",
          [](const TaskLoop& loop) {
            std::vector<std::optional<at::Tensor>> sums;
            for (const at::Tensor& sum : loop.sums()) {
              sums.push_back(sum.defined() ? std::optional(sum) : std::nullopt);
            }
            return sums;
          },
          "By result what it adds up to over the tasks.");
  py::class_<Tasks>(m, "Tasks", "Runs the tasks of a schedule, each by the loop of its kind.")
      .def(py::init([](std::shared_ptr<TaskPlan> plan, const py::list& given, bool beside) {
             std::vector<std::shared_ptr<TaskLoop>> loops;
             for (const auto& loop : given) {
               loops.push_back(loop.is_none() ? nullptr : loop.cast<std::shared_ptr<TaskLoop>>());
             }
             return std::make_unique<Tasks>(std::move(plan), std::move(loops), beside);
           }),
           py::arg("plan"), py::arg("loops"), py::arg("beside"),
           "By kind a loop, None where there is none; `beside`: tasks of different kinds may run "
           "beside each other.")
      .def(
          "run",
          [](Tasks& tasks, size_t begin, size_t end, bool backward) {
            translated([&] {
              const py::gil_scoped_release released;
              tasks.run(begin, end, backward);
            });
          },
          py::arg("begin"), py::arg("end"), py::arg("backward"))
      .def_property_readonly("running", &Tasks::running,
                             "The kind whose task runs, also where it has thrown.");
}

}  // namespace smex::bindings
