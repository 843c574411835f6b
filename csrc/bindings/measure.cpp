// Python's view of what calls are measured to take.
#include "runtime/measure.h"

#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/bindings.h"
#include "bindings/translated.h"

namespace py = pybind11;

namespace smex::bindings {

void bind_measure(py::module_& m) {
  using runtime::MeasuredCall;
  py::class_<MeasuredCall>(m, "MeasuredCall", "What a call does, and the seconds that it took.")
      .def_readonly("kind", &MeasuredCall::kind)
      .def_readonly("target", &MeasuredCall::target)
      .def_property_readonly("itemsize",
                             [](const MeasuredCall& call) { return call.work.itemsize; })
      .def_property_readonly(
          "features",
          [](const MeasuredCall& call) {
            const CallWork& work = call.work;
            return std::array<double, 5>{1, work.operations, work.bytes, work.gathered, work.fresh};
          },
          "1, operations, bytes, gathered and fresh bytes: of each a measured machine has a cost.")
      .def_readonly("seconds", &MeasuredCall::seconds);
  m.def(
      "measure_calls",
      [](const std::vector<const Program*>& programs, const Graph& graph, int worker,
         const std::vector<std::optional<at::Tensor>>& given, std::set<std::string> views,
         double call_seconds, const std::optional<std::function<void(double)>>& progress,
         const std::string& device) {
        std::vector<at::Tensor> tensors;
        for (const auto& tensor : given) tensors.push_back(tensor.value_or(at::Tensor()));
        runtime::MeasureOptions options;
        options.views = std::move(views);
        options.call_seconds = call_seconds;
        options.device = c10::Device(device);
        if (progress) {
          options.progress = [&](double share) {
            const py::gil_scoped_acquire gil;
            (*progress)(share);
            if (PyErr_CheckSignals() != 0) throw py::error_already_set();
          };
        }
        return translated([&] {
          const py::gil_scoped_release released;
          return measure_calls(programs, graph, worker, tensors, options);
        });
      },
      py::arg("programs"), py::arg("graph"), py::arg("worker"), py::arg("given"), py::arg("views"),
      py::arg("call_seconds"), py::arg("progress") = std::nullopt, py::arg("device") = "cpu",
      "Runs each call of a worker's lists by itself on a device, those that are alike once; "
      "`given` are by value whole inputs, of which integers are read.");
}

}  // namespace smex::bindings
