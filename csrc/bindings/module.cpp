#include <exception>

#include "bindings/bindings.h"
#include "bindings/build_id.h"
#include "ir/error.h"
#include "runtime/processes/failure.h"

namespace py = pybind11;

namespace smex::bindings {

/// Declared in translated.h, which knows torch.
void raise_rank_failure(const runtime::Failure& failure) {
  const py::object python_class = py::module_::import("smex.errors").attr("RankFailure");
  const py::object rank = failure.rank < 0 ? py::object(py::none()) : py::int_(failure.rank);
  const auto hint =
      py::module_::import("smex.distributed.flight").attr("records_hint")().cast<std::string>();
  PyErr_SetObject(python_class.ptr(), python_class(failure.message() + hint, rank, failure.where,
                                                   failure.text, runtime::name(failure.kind))
                                          .ptr());
}

namespace {

void raise_as(const char* python_class, const std::exception& error) {
  py::set_error(py::module_::import("smex.errors").attr(python_class), error.what());
}

// C++ throws, Python catches: smex::UserError becomes smex.SmexValueError, and so on.
void translate_exception(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const UserError& error) {
    raise_as("SmexValueError", error);
  } catch (const InternalError& error) {
    raise_as("SmexRuntimeError", error);
  } catch (const runtime::RankFailure& error) {
    raise_rank_failure(error.failure);
  }
}

}  // namespace
}  // namespace smex::bindings

PYBIND11_MODULE(_C, m) {
  m.doc() = "The native library of SMEX; use it through the Python modules of smex.";
  py::register_local_exception_translator(smex::bindings::translate_exception);
  namespace bindings = smex::bindings;
  m.def("build_id", &bindings::build_id,
        "The linker's hash of this build of the library; empty where it writes none.");
  bindings::bind_tdl(m);
  bindings::bind_ir(m);
  bindings::bind_program(m);
  bindings::bind_partition(m);
  bindings::bind_spill(m);
  bindings::bind_search(m);
  bindings::bind_vertices(m);
  bindings::bind_schedule(m);
  bindings::bind_watcher(m);
  bindings::bind_runtime(m);
  bindings::bind_iteration(m);
  bindings::bind_measure(m);
  bindings::bind_kernels(m);
  bindings::bind_vertex(m);
  bindings::bind_tasks(m);
  bindings::bind_contents(m);
  bindings::bind_autocast(m);
}
