#pragma once

#include <pybind11/pybind11.h>

/// One binder per folder of csrc, and one each for programs, which the runtime runs, the search
/// and vertices; module.cpp calls them in this order, so that each knows the types that it names.
/// The last one is of Python alone. Only autocast, runtime, iteration, measure, tasks and watcher
/// may use torch's headers and casters; the others see pybind11 alone.
namespace smex::bindings {

void bind_tdl(pybind11::module_& m);
void bind_ir(pybind11::module_& m);
void bind_program(pybind11::module_& m);
void bind_partition(pybind11::module_& m);
void bind_search(pybind11::module_& m);
void bind_spill(pybind11::module_& m);
void bind_vertices(pybind11::module_& m);
void bind_schedule(pybind11::module_& m);
void bind_runtime(pybind11::module_& m);
void bind_iteration(pybind11::module_& m);
void bind_measure(pybind11::module_& m);
void bind_watcher(pybind11::module_& m);
void bind_kernels(pybind11::module_& m);
void bind_vertex(pybind11::module_& m);
void bind_tasks(pybind11::module_& m);
void bind_contents(pybind11::module_& m);
void bind_autocast(pybind11::module_& m);

}  // namespace smex::bindings
