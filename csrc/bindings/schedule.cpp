// Python's view of tasks on resources and their schedules.
#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "schedule/dataflow.h"
#include "schedule/list_schedule.h"
#include "schedule/task_graph.h"

namespace py = pybind11;

namespace smex::bindings {
namespace {

using TaskSchedule = schedule::Schedule;
using schedule::TaskGraph;

template <typename T>
using NumberArray = py::array_t<T, py::array::c_style | py::array::forcecast>;

template <typename T>
py::array_t<T> array_of(const std::vector<T>& values) {
  return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

template <typename T>
std::span<const T> span_of(const NumberArray<T>& values) {
  return {values.data(), static_cast<size_t>(values.size())};
}

std::vector<int32_t> listed(std::span<const int32_t> numbers) {
  return {numbers.begin(), numbers.end()};
}

void check_task(const TaskGraph& graph, schedule::Task task) {
  if (task < 0 || task >= graph.size()) throw py::index_error("there is no such task");
}

schedule::Dataflow dataflow_of(int32_t devices, std::vector<double> compute,
                               std::vector<double> transfer,
                               std::vector<std::pair<int32_t, int32_t>> edges) {
  schedule::Dataflow graph{devices, std::move(compute), std::move(transfer), std::move(edges)};
  check(graph);
  return graph;
}

schedule::Placement annealed(const schedule::Dataflow& graph, std::vector<int32_t> start,
                             int64_t calls, uint64_t seed,
                             const std::optional<std::function<void(int64_t, double)>>& progress) {
  const py::gil_scoped_release released;
  return anneal(graph, std::move(start), calls, seed, [&](int64_t call, double best) {
    const py::gil_scoped_acquire gil;
    if (progress) (*progress)(call, best);
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    return true;
  });
}

}  // namespace

void bind_schedule(py::module_& m) {
  py::class_<TaskSchedule>(m, "TaskSchedule", "When tasks run.")
      .def_property_readonly("begins",
                             [](const TaskSchedule& self) { return array_of(self.begins); })
      .def_property_readonly("ends", [](const TaskSchedule& self) { return array_of(self.ends); })
      .def_property_readonly("causes",
                             [](const TaskSchedule& self) { return array_of(self.causes); })
      .def_readonly("makespan", &TaskSchedule::makespan)
      .def("critical_path", &TaskSchedule::critical_path)
      .def("order", [](const TaskSchedule& self) { return array_of(self.order()); });
  py::class_<TaskGraph>(m, "TaskGraph", "Tasks that wait for others and occupy resources.")
      .def(py::init<schedule::Resource>(), py::arg("num_resources"))
      .def(
          "add",
          [](TaskGraph& self, double seconds, const std::vector<int32_t>& resources,
             const std::vector<int32_t>& after) { return self.add(seconds, resources, after); },
          py::arg("seconds"), py::arg("resources"), py::arg("after"))
      .def("__len__", &TaskGraph::size)
      .def_property_readonly("num_resources", &TaskGraph::num_resources)
      .def_property_readonly("num_used_resources", &TaskGraph::num_used_resources)
      .def("seconds",
           [](const TaskGraph& self, schedule::Task task) {
             check_task(self, task);
             return self.seconds(task);
           })
      .def("resources",
           [](const TaskGraph& self, schedule::Task task) {
             check_task(self, task);
             return listed(self.resources(task));
           })
      .def("before",
           [](const TaskGraph& self, schedule::Task task) {
             check_task(self, task);
             return listed(self.before(task));
           })
      .def("loads", [](const TaskGraph& self) { return array_of(self.loads()); })
      .def("upward_ranks",
           [](const TaskGraph& self) { return array_of(schedule::upward_ranks(self)); })
      .def("least_makespan", &schedule::least_makespan)
      .def("by_priority",
           [](const TaskGraph& self, const NumberArray<double>& priorities) {
             return schedule::by_priority(self, span_of(priorities));
           })
      .def("first_come", &schedule::first_come)
      .def("shortest_of_lists", &schedule::shortest_of_lists)
      .def("in_order", [](const TaskGraph& self, const NumberArray<schedule::Task>& order) {
        return schedule::in_order(self, span_of(order));
      });
  py::class_<schedule::Placement>(m, "Placement", "Devices of operators, and what they make.")
      .def_property_readonly("devices",
                             [](const schedule::Placement& self) { return array_of(self.devices); })
      .def_readonly("makespan", &schedule::Placement::makespan)
      .def_readonly("calls", &schedule::Placement::calls);
  py::class_<schedule::Dataflow>(m, "Dataflow", "Operators on like devices.")
      .def(py::init(&dataflow_of), py::arg("devices"), py::arg("compute"), py::arg("transfer"),
           py::arg("edges"))
      .def("__len__", &schedule::Dataflow::size)
      .def("makespan",
           [](const schedule::Dataflow& self, const NumberArray<int32_t>& placement) {
             return schedule::makespan_of(self, span_of(placement));
           })
      .def("anneal", &annealed, py::arg("start"), py::arg("calls"), py::arg("seed"),
           py::arg("progress") = std::nullopt);
}

}  // namespace smex::bindings
