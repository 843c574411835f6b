// Python's view of csrc/vertex. Arrays of int64 cross without being copied.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "ir/error.h"
#include "vertex/schedule.h"

namespace py = pybind11;

namespace smex::bindings {
namespace {

using vertex::Policy;
using vertex::Schedule;
using vertex::Task;
using Array = py::array_t<int64_t, py::array::c_style | py::array::forcecast>;

std::span<const int64_t> view(const Array& array) {
  return {array.data(), static_cast<size_t>(array.size())};
}

/// An array that looks into the schedule and keeps it alive.
py::array view_of(const std::vector<int64_t>& values, const py::handle& owner) {
  return py::array_t<int64_t>(static_cast<py::ssize_t>(values.size()), values.data(), owner);
}

py::array copied(const std::vector<int64_t>& values) {
  return py::array_t<int64_t>(static_cast<py::ssize_t>(values.size()), values.data());
}

Policy to_policy(const std::string& name) {
  if (name == "depth") return Policy::kDepth;
  if (name == "readiness") return Policy::kReadiness;
  throw UserError("input graphs: expected \"depth\" or \"readiness\" as the policy, found \"" +
                  name + "\"; see smex.vertex.Options");
}

Schedule make_schedule(const Array& sample_offsets, const Array& child_offsets,
                       const Array& children, const Array& types,
                       const std::vector<std::tuple<int64_t, int64_t, bool, std::string>>& arities,
                       const std::vector<int64_t>& slots, const std::string& policy) {
  const Policy by = to_policy(policy);
  std::vector<vertex::Arity> checked;
  for (const auto& [fewest, most, or_none, of] : arities)
    checked.push_back({fewest, most, or_none, of});
  const vertex::InputGraphs graphs{view(sample_offsets), view(child_offsets), view(children),
                                   view(types)};
  const py::gil_scoped_release release;
  vertex::check(graphs, checked);
  return vertex::schedule(graphs, slots, by);
}

std::vector<int64_t> levels(const Array& child_offsets, const Array& children) {
  const std::vector<int64_t> sample{0, static_cast<int64_t>(child_offsets.size()) - 1};
  const vertex::InputGraphs graph{sample, view(child_offsets), view(children), {}};
  const std::vector<vertex::Arity> any(1);
  vertex::check(graph, any);
  return vertex::levels(graph);
}

template <std::vector<int64_t> Schedule::* member>
py::array array(const py::object& self) {
  return view_of(self.cast<const Schedule&>().*member, self);
}

}  // namespace

void bind_vertex(py::module_& m) {
  py::class_<Task>(m, "VertexTask", "Vertices that are evaluated together.")
      .def_readonly("type", &Task::type)
      .def_readonly("begin", &Task::begin)
      .def_readonly("end", &Task::end)
      .def_readonly("edge_begin", &Task::edge_begin)
      .def_readonly("edge_end", &Task::edge_end)
      .def_readonly("slot_begin", &Task::slot_begin)
      .def_readonly("slots", &Task::slots);
  py::class_<Schedule, std::shared_ptr<Schedule>>(m, "VertexSchedule",
                                                  "Tasks, and the vertices renumbered into rows.")
      .def_readonly("tasks", &Schedule::tasks)
      .def_property_readonly("vertices", &array<&Schedule::vertices>)
      .def_property_readonly("rows", &array<&Schedule::rows>)
      .def_property_readonly("type_rows", &array<&Schedule::type_rows>)
      .def_property_readonly("roots", &array<&Schedule::roots>)
      .def_property_readonly("edge_offsets", &array<&Schedule::edge_offsets>)
      .def_property_readonly("counts", &array<&Schedule::counts>)
      .def_property_readonly("edge_rows", &array<&Schedule::edge_rows>)
      .def_property_readonly("parents", &array<&Schedule::parents>)
      .def_property_readonly("task_parents", &array<&Schedule::task_parents>)
      .def_property_readonly("slot_rows", &array<&Schedule::slot_rows>)
      .def_property_readonly("slot_first", &array<&Schedule::slot_first>)
      .def(
          "task_rows",
          [](const Schedule& schedule) {
            std::vector<int64_t> found;
            for (const Task& task : schedule.tasks) {
              for (const int64_t number :
                   {task.type, task.size(), task.edge_end - task.edge_begin}) {
                found.push_back(number);
              }
            }
            return copied(found);
          },
          "Type, rows and edges of each task, one after the other.")
      .def("edge_begins", [](const Schedule& schedule) { return copied(edge_begins(schedule)); })
      .def("slot_begins", [](const Schedule& schedule) { return copied(slot_begins(schedule)); });
  m.def(
      "vertex_schedule", &make_schedule, py::arg("sample_offsets"), py::arg("child_offsets"),
      py::arg("children"), py::arg("types"), py::arg("arities"), py::arg("slots"),
      py::arg("policy"),
      "Checks input graphs and schedules them; arities are (fewest, most, or_none, name) by type.");
  m.def("vertex_levels", &levels, py::arg("child_offsets"), py::arg("children"),
        "Checks an input graph; by vertex 0 without children, else one more than its highest "
        "child's.");
}

}  // namespace smex::bindings
