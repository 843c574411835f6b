// Python's view of csrc/runtime/processes/watcher.h and recorder.h.
#include "runtime/processes/watcher.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <exception>

#include "bindings/bindings.h"
#include "bindings/translated.h"
#include "runtime/processes/recorder.h"

namespace py = pybind11;

namespace smex::bindings {
namespace {

using runtime::Failure;
using runtime::Recorder;
using runtime::Watcher;
using std::chrono::milliseconds;

milliseconds to_milliseconds(double seconds) {
  constexpr double kLongest = 1e9;  // 30 years
  if (!(seconds >= 0)) {
    throw UserError("Watcher: expected seconds of at least 0, found " + std::to_string(seconds));
  }
  return milliseconds(std::llround(1000 * std::min(seconds, kLongest)));
}

std::terminate_handler default_terminate = nullptr;

bool python_is_ending() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

/// Whether Python unwinds this thread, as it does before 3.14 with those that come back to it after
/// the interpreter's end.
bool is_unwound() {
  const bool is_main = ::gettid() == ::getpid();
  return !is_main && std::current_exception() == nullptr && python_is_ending();
}

/// Python's unwinding of a thread ends the process by SIGABRT where it meets a destructor of C++:
/// after a call that was made without Python's lock, in a thread of ours or of torch's. From now on
/// such a thread hangs to the end of the process instead.
void hang_at_end() {
  if (default_terminate != nullptr) return;  // Python's lock is held
  default_terminate = std::set_terminate([] {
    while (is_unwound()) ::pause();
    default_terminate == nullptr ? std::abort() : default_terminate();
  });
}

std::shared_ptr<Watcher> make_watcher(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                      int size, double interval, double limit, double arrival) {
  const std::shared_ptr<Watcher> watcher = translated([&] {
    const py::gil_scoped_release release;
    return std::make_shared<Watcher>(
        store, rank, size,
        runtime::WatcherOptions{to_milliseconds(interval), to_milliseconds(limit),
                                to_milliseconds(arrival)});
  });
  hang_at_end();
  // Before the process's libraries end, below the feet of threads.
  const std::weak_ptr<Watcher> weak = watcher;
  py::module_::import("atexit").attr("register")(py::cpp_function([weak, owner = getpid()] {
    if (owner != getpid()) return;
    const py::gil_scoped_release release;
    if (const auto living = weak.lock()) living->leave();
  }));
  return watcher;
}

Failure to_failure(const Watcher& watcher, const std::string& text, const std::string& where,
                   std::optional<int> rank) {
  return {rank.value_or(watcher.rank()), where, text};
}

uint64_t begin(Recorder& recorder, const std::string& text, bool exchange, const std::string& phase,
               int64_t run, int worker, int number, int64_t bytes, std::optional<int> peer) {
  Recorder::Entry entry;
  entry.kind = exchange ? Recorder::Kind::kExchange : Recorder::Kind::kInstruction;
  entry.phase = phase == "forward"    ? Recorder::Phase::kForward
                : phase == "backward" ? Recorder::Phase::kBackward
                                      : Recorder::Phase::kOther;
  entry.worker = worker;
  entry.number = number;
  entry.text = recorder.text(text);
  entry.peer = peer.value_or(-1);
  entry.run = run;
  entry.bytes = bytes;
  return recorder.begin(entry);
}

/// Seconds of one entry with both of its times.
double seconds_per_entry(int64_t entries) {
  const auto recorder = std::make_unique<Recorder>();
  Recorder::Entry entry;
  entry.text = recorder->text("an instruction");
  const auto start = Recorder::Clock::now();
  for (int64_t i = 0; i < entries; ++i) recorder->end(recorder->begin(entry));
  const std::chrono::duration<double> time = Recorder::Clock::now() - start;
  return time.count() / static_cast<double>(entries);
}

}  // namespace

void bind_watcher(py::module_& m) {
  using Released = py::call_guard<py::gil_scoped_release>;
  m.def("hang_at_end", &hang_at_end,
        "Lets threads hang that return to Python after the interpreter's end, which would abort.");
  py::class_<Failure>(m, "Failure", "What ended the work of several processes.")
      .def_property_readonly(
          "rank",
          [](const Failure& f) { return f.rank < 0 ? std::nullopt : std::optional<int>(f.rank); })
      .def_readonly("where", &Failure::where)
      .def_readonly("text", &Failure::text)
      .def_property_readonly("kind", [](const Failure& f) { return runtime::name(f.kind); })
      .def("message", &Failure::message);
  py::class_<Watcher, std::shared_ptr<Watcher>>(
      m, "Watcher",
      "Tells each process of a group in bounded time that another one has failed. `store` is of "
      "torch.distributed, with keys for this group of watchers alone; times are in seconds. A "
      "process that is forked later makes its own.")
      .def(py::init(&make_watcher), py::arg("store"), py::arg("rank"), py::arg("size"),
           py::arg("interval") = 0.5, py::arg("limit") = 4.0, py::arg("arrival") = 300.0)
      .def_property_readonly("rank", &Watcher::rank)
      .def_property_readonly("size", &Watcher::size)
      .def(
          "report",
          [](Watcher& w, const std::string& text, const std::string& where,
             std::optional<int> rank) { return w.report(to_failure(w, text, where, rank)); },
          py::arg("text"), py::arg("where") = "", py::arg("rank") = std::nullopt, Released(),
          "Makes a failure known to all ranks, by default one of this rank, and returns the first "
          "that is known.")
      .def(
          "settle",
          [](Watcher& w, const std::string& text, const std::string& where, std::optional<int> rank,
             std::optional<double> patience) {
            return w.settle(to_failure(w, text, where, rank),
                            patience ? std::optional(to_milliseconds(*patience)) : std::nullopt);
          },
          py::arg("text"), py::arg("where") = "", py::arg("rank") = std::nullopt,
          py::arg("patience") = std::nullopt, Released(),
          "For an error that may follow from another rank's failure: waits for that one for a "
          "while, and reports this one where there is none.")
      .def("failure", &Watcher::failure, "The first failure, or None.")
      .def(
          "wait", [](const Watcher& w, double seconds) { return w.wait(to_milliseconds(seconds)); },
          py::arg("seconds"), Released(), "The first failure, waited for, or None.")
      .def("failure_awaiting", &Watcher::failure_awaiting, py::arg("ranks"),
           "The first failure, also where one of `ranks` left a while ago, or None.")
      .def(
          "check",
          [](const Watcher& w, const std::vector<int>& ranks) {
            if (auto failure = w.failure_awaiting(ranks)) throw runtime::RankFailure(*failure);
          },
          py::arg("ranks") = std::vector<int>{}, "Raises what failure_awaiting returns.")
      .def("leave", &Watcher::leave, Released(), "Says goodbye and ends the threads.")
      .def("left", &Watcher::left, py::arg("rank"), "Whether a rank has said goodbye.")
      .def("arrived", &Watcher::arrived, py::arg("rank"),
           "Whether a rank has come, from which on its end is noticed.");
  py::class_<Recorder, std::shared_ptr<Recorder>>(
      m, "Recorder", "The last 256 instructions and exchanges of a process.")
      .def(py::init())
      .def("begin", &begin, py::arg("text"), py::kw_only(), py::arg("exchange") = false,
           py::arg("phase") = "other", py::arg("run") = 0, py::arg("worker") = 0,
           py::arg("number") = 0, py::arg("bytes") = 0, py::arg("peer") = std::nullopt,
           "Enters what begins now and returns its ticket; an exchange has the same number in all "
           "processes.")
      .def(
          "end", [](Recorder& r, uint64_t ticket) { r.end(ticket); }, py::arg("ticket"))
      .def("dump", &Recorder::dump, py::arg("folder"), py::arg("rank"), py::arg("size"),
           py::arg("failure") = std::nullopt,
           "Writes rank-<rank>.json to a folder, which is made, and returns its path.")
      .def_static("seconds_per_entry", &seconds_per_entry, py::arg("entries"),
                  "Measures what an entry takes from C++, with both of its times.");
}

}  // namespace smex::bindings
