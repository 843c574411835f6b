// Python's view of csrc/partition/lower/spill.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/bindings.h"
#include "partition/lower/spill/fewest_transfers.h"
#include "partition/lower/spill/spill.h"

namespace py = pybind11;

namespace smex::bindings {

void bind_spill(py::module_& m) {
  py::class_<SpillBlock>(m, "SpillBlock", "A piece of memory and the steps that use it.")
      .def(py::init([](int64_t bytes, std::vector<int> uses, bool on_host, bool kept) {
             return SpillBlock{bytes, std::move(uses), on_host, kept};
           }),
           py::arg("bytes"), py::arg("uses"), py::arg("on_host") = false, py::arg("kept") = false)
      .def_readwrite("bytes", &SpillBlock::bytes)
      .def_readonly("uses", &SpillBlock::uses)
      .def_readonly("on_host", &SpillBlock::on_host)
      .def_readonly("kept", &SpillBlock::kept);
  py::class_<SpillProblem>(m, "SpillProblem",
                           "Which blocks are on a device of so many bytes at which step?")
      .def(py::init([](int num_steps, int64_t capacity, std::vector<SpillBlock> blocks) {
             return SpillProblem{num_steps, capacity, std::move(blocks)};
           }),
           py::arg("num_steps"), py::arg("capacity"), py::arg("blocks"))
      .def_readonly("num_steps", &SpillProblem::num_steps)
      .def_readwrite("capacity", &SpillProblem::capacity)
      .def_readonly("blocks", &SpillProblem::blocks)
      .def("bytes_of_steps", &SpillProblem::bytes_of_steps);
  py::class_<SpillSchedule>(m, "SpillSchedule", "Which blocks leave the device before which step.")
      .def_readonly("dropped", &SpillSchedule::dropped)
      .def_readonly("to_host", &SpillSchedule::to_host)
      .def_readonly("to_device", &SpillSchedule::to_device)
      .def_readonly("least", &SpillSchedule::least,
                    "Bytes that no schedule is below; 0 where that was not asked for.");
  py::class_<LargestInstr>(m, "LargestInstr", "The instruction that takes the most memory.")
      .def_readonly("bytes", &LargestInstr::bytes)
      .def_readonly("worker", &LargestInstr::worker)
      .def_readonly("text", &LargestInstr::text);
  m.def(
      "schedule_transfers",
      [](const SpillProblem& problem, const std::string& policy) {
        const py::gil_scoped_release release;
        return schedule_transfers(problem, spill_policy(policy));
      },
      py::arg("problem"), py::arg("policy") = "dp");
  m.def(
      "spill",
      [](Program& program, int64_t capacity, const std::set<std::string>& views,
         const std::string& policy) {
        const py::gil_scoped_release release;
        std::vector<std::tuple<int64_t, int64_t, int64_t>> traffic;
        for (const SpillTraffic& of : spill(program, {capacity, spill_policy(policy), views})) {
          traffic.emplace_back(of.to_host, of.to_device, of.least);
        }
        return traffic;
      },
      py::arg("program"), py::arg("capacity"), py::arg("views"), py::arg("policy") = "dp",
      "Lets workers run in so many bytes of device memory; returns by worker the bytes (to the "
      "host, to the device, of both at the least).");
  m.def(
      "spill_problem",
      [](const Program& program, int worker, int64_t capacity, const std::set<std::string>& views) {
        return spill_problem(program, worker, {capacity, SpillPolicy::kDp, views});
      },
      py::arg("program"), py::arg("worker"), py::arg("capacity"), py::arg("views"));
  m.def("merge_inputs", &merge_inputs, py::arg("program"), py::arg("groups"),
        "Lets the inputs of each group of values, which are the same tensor, be one.");
  m.def("largest_instr", &largest_instr, py::arg("program"), py::arg("views"));
  m.def(
      "spilled_bytes",
      [](const Program& program, bool forward, bool backward) {
        const SpillTraffic traffic = spilled_bytes(program, forward, backward);
        return std::map<std::string, int64_t>{{"spill", traffic.to_host},
                                              {"restore", traffic.to_device}};
      },
      py::arg("program"), py::arg("forward") = true, py::arg("backward") = true,
      "Bytes that move to the host and to the devices.");
}

}  // namespace smex::bindings
