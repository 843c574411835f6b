// Python's view of tasks on resources and their schedules.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <span>
#include <vector>

#include "bindings/bindings.h"
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
}

}  // namespace smex::bindings
