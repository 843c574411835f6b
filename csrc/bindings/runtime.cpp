// Python's view of csrc/runtime.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/attr.h"
#include "bindings/bindings.h"
#include "bindings/regions.h"
#include "bindings/translated.h"
#include "ir/error.h"
#include "runtime/session.h"
#include "tdl/expr.h"

namespace py = pybind11;

namespace smex::bindings {
namespace {

using runtime::Communicator;
using runtime::Executor;
using runtime::Segment;
using runtime::Session;
using runtime::WorkerTensors;

void check_interrupt() {
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing();
#else
  return _Py_IsFinalizing();
#endif
}

/// A Python thread state for the life of a worker thread, so that operators written in Python keep
/// their error indicator (and their thread locals) between calls.
class PythonThread {
 public:
  PythonThread() : gil_(PyGILState_Ensure()), state_(PyEval_SaveThread()) {}
  ~PythonThread() {
    if (is_finalizing()) return;
    PyEval_RestoreThread(state_);
    PyGILState_Release(gil_);
  }
  PythonThread(const PythonThread&) = delete;
  PythonThread& operator=(const PythonThread&) = delete;

 private:
  PyGILState_STATE gil_;
  PyThreadState* state_;
};

void keep_exception(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (python_error& python) {
    const py::gil_scoped_acquire gil;
    python.persist();
  } catch (...) {
  }
}

/// Worker threads take the GIL when they end: whoever joins them must not hold it.
std::shared_ptr<void> release_gil() {
  if (!PyGILState_Check()) return nullptr;
  return std::make_shared<py::gil_scoped_release>();
}

std::shared_ptr<Executor> make_executor(Program& program, int threads_per_worker,
                                        const std::vector<std::string>& devices,
                                        std::shared_ptr<Executor> sibling, bool take,
                                        std::shared_ptr<Communicator> communicator,
                                        std::vector<int> ranks, std::vector<Collective> collectives,
                                        bool overlap,
                                        std::array<std::vector<Message>, 2> messages) {
  return translated([&] {
    runtime::ExecutorOptions options;
    options.collectives = std::move(collectives);
    options.communicator = std::move(communicator);
    options.ranks = std::move(ranks);
    options.overlap = overlap;
    options.messages = std::move(messages);
    options.threads_per_worker = threads_per_worker;
    options.sibling = std::move(sibling);
    for (const std::string& device : devices) options.devices.emplace_back(device);
    options.hooks = {check_interrupt,
                     []() -> std::shared_ptr<void> { return std::make_shared<PythonThread>(); },
                     release_gil, keep_exception};
    const py::gil_scoped_release release;
    return Executor::create(take ? std::move(program) : program, std::move(options));
  });
}

WorkerTensors to_tensors(const std::vector<std::optional<at::Tensor>>& tiles) {
  WorkerTensors tensors;
  for (const auto& tile : tiles) tensors.push_back(tile.value_or(at::Tensor()));
  return tensors;
}

using Tiles = std::vector<std::optional<at::Tensor>>;

std::shared_ptr<Session> start(Executor& executor, const std::vector<std::optional<Tiles>>& inputs,
                               int64_t seed, uint64_t net) {
  return translated([&] {
    std::vector<WorkerTensors> tensors;
    for (const auto& tiles : inputs) tensors.push_back(to_tensors(tiles.value_or(Tiles{})));
    return executor.start(tensors, seed, net);
  });
}

py::dict to_dict(const runtime::Stats& stats) {
  py::dict dict;
  dict["moved_bytes"] = stats.moved_bytes;
  dict["spilled_bytes"] = stats.spilled_bytes;
  dict["received_bytes"] = stats.received_bytes;
  dict["live_bytes"] = stats.live_bytes;
  dict["peak_bytes"] = stats.peak_bytes;
  dict["compute_seconds"] = stats.compute_seconds;
  dict["fetch_seconds"] = stats.fetch_seconds;
  dict["wait_seconds"] = stats.wait_seconds;
  dict["seconds_by_target"] = stats.seconds_by_target;
  dict["forward_seconds"] = stats.forward_seconds;
  dict["backward_seconds"] = stats.backward_seconds;
  return dict;
}

void run(Session& session, void (Session::*phase)()) {
  translated([&] {
    const py::gil_scoped_release release;
    (session.*phase)();
  });
}

py::list to_list(const runtime::WorkerTensors& tiles) {
  py::list list;
  for (const at::Tensor& tensor : tiles) {
    list.append(tensor.defined() ? py::cast(tensor) : py::none());
  }
  return list;
}

py::list trace_events(const Session& session) {
  py::list events;
  for (const runtime::TraceEvent& event : session.trace_events()) {
    events.append(py::make_tuple(event.worker, event.name, event.category, event.start_us,
                                 event.duration_us, event.bytes, event.fetched, event.since_us,
                                 event.op, event.processor_us));
  }
  return events;
}

using Volumes = std::map<std::string, std::tuple<int64_t, int64_t, int64_t>>;

Volumes volumes(const Executor& executor) {
  Volumes sums;
  for (const auto& of_list : executor.steps().volumes) {
    for (const auto& [way, volume] : of_list) {
      auto& [relayouts, packets, bytes] = sums[way];
      relayouts += volume.relayouts;
      packets += volume.packets;
      bytes += volume.bytes;
    }
  }
  return sums;
}

std::shared_ptr<Communicator> make_communicator(
    int rank, const c10::intrusive_ptr<c10d::ProcessGroup>& group, std::vector<int> hosts,
    std::vector<std::shared_ptr<Segment>> segments, const c10::intrusive_ptr<c10d::Store>& store,
    std::shared_ptr<runtime::Watcher> watcher, std::shared_ptr<runtime::Recorder> recorder,
    std::string flight_folder) {
  runtime::CommunicatorOptions options;
  options.rank = rank;
  options.group = group;
  options.hosts = std::move(hosts);
  options.segments = std::move(segments);
  options.store = store->clone();
  options.watcher = std::move(watcher);
  options.recorder = std::move(recorder);
  options.flight_folder = std::move(flight_folder);
  return Communicator::create(std::move(options));
}

void bind_communicator(py::module_& m) {
  py::class_<Segment, std::shared_ptr<Segment>>(
      m, "Segment", "Memory in which a process puts what it sends to others of its host.")
      .def_static(
          "create",
          [](const std::string& path, int rank, int size, size_t lane_bytes) {
            return translated([&] { return Segment::create(path, rank, size, lane_bytes); });
          },
          py::arg("path"), py::arg("rank"), py::arg("size"), py::arg("lane_bytes"))
      .def_static(
          "open",
          [](const std::string& path) { return translated([&] { return Segment::open(path); }); },
          py::arg("path"));
  py::class_<Communicator, std::shared_ptr<Communicator>>(
      m, "Communicator",
      "How the processes of one plan reach each other. `hosts` has a number for each process, "
      "equal "
      "ones share memory, -1 with nobody; `segments` each process's memory as it is mapped here.")
      .def(py::init(&make_communicator), py::arg("rank"), py::arg("group"), py::arg("hosts"),
           py::arg("segments"), py::arg("store"), py::arg("watcher"), py::arg("recorder"),
           py::arg("flight_folder"), py::call_guard<py::gil_scoped_release>())
      .def(
          "add_group",
          [](Communicator& communicator, const std::vector<int>& members,
             const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
            communicator.add_group(members, group);
          },
          py::arg("members"), py::arg("group"),
          "Gives the group of some processes, in ascending order, that this one is among.")
      .def("next_event", &Communicator::next_event,
           "The number of what the ranks do next together.");
}

}  // namespace

void bind_runtime(py::module_& m) {
  bind_communicator(m);
  py::class_<Session, std::shared_ptr<Session>>(
      m, "Session", "One forward and at most one backward run; keeps its outputs while it lives.")
      .def(
          "set_input",
          [](Session& session, int index, const Tiles& tiles) {
            translated([&] { session.set_input(index, to_tensors(tiles)); });
          },
          py::arg("index"), py::arg("tiles"))
      .def("run_forward", [](Session& session) { run(session, &Session::run_forward); })
      .def("run_backward", [](Session& session) { run(session, &Session::run_backward); })
      .def(
          "outputs", [](const Session& s, int index) { return to_list(s.outputs(index)); },
          py::arg("index"))
      .def(
          "take_outputs", [](Session& s, int index) { return to_list(s.take_outputs(index)); },
          py::arg("index"))
      .def("stats", [](const Session& session) { return to_dict(session.stats()); })
      .def("instr_seconds", &Session::instr_seconds,
           "By worker, list and instruction the seconds that it took, without waiting.")
      .def("trace_events", &trace_events,
           "Tuples (worker, name, category, start_us, duration_us, bytes, fetched slot or -1, "
           "since_us, op or -1, processor_us).");
  py::class_<Executor, std::shared_ptr<Executor>>(
      m, "Executor",
      "Runs a Program on one thread per worker. threads_per_worker=0 shares torch's intra-op "
      "threads among the workers; the threads are those of `sibling` when it has as many. With "
      "`take` the program is emptied in place of copied. Not usable in a process forked later: "
      "create it there.")
      .def(py::init(&make_executor), py::arg("program"), py::arg("threads_per_worker") = 0,
           py::arg("devices") = std::vector<std::string>{}, py::arg("sibling") = nullptr,
           py::arg("take") = false, py::arg("communicator") = nullptr,
           py::arg("ranks") = std::vector<int>{},
           py::arg("collectives") = std::vector<Collective>{}, py::arg("overlap") = true,
           py::arg("messages") = std::array<std::vector<Message>, 2>{})
      .def("start", &start, py::arg("inputs"), py::arg("seed") = 0, py::arg("net") = 0,
           "inputs[binding][worker] is a tile or None; a binding given as None is set later.")
      .def("set_trace", &Executor::set_trace, py::arg("on"))
      .def_property_readonly("program", &Executor::program,
                             py::return_value_policy::reference_internal)
      .def_property_readonly("threads_per_worker", &Executor::threads_per_worker)
      .def_property_readonly("digest", &Executor::digest)
      .def_property_readonly(
          "volumes", &volumes,
          "By way, what processes send each other in a run: (relayouts, packets or calls, bytes).");
}

}  // namespace smex::bindings
