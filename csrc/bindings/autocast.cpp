#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <memory>
#include <set>
#include <string>

#include "bindings/bindings.h"

namespace py = pybind11;

namespace smex::bindings {
namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::AutocastCPU;

// The names of the operators that CUDA's autocast has a rule for, from torch's own lists.
std::set<std::string> names_on_cuda() {
  std::set<std::string> names;
  const auto add = [&](const std::string& name, const std::string& overload = "") {
    names.insert("aten::" + name + (overload.empty() ? "" : "." + overload));
  };
#define SMEX_FIRST(first, ...) #first
#define SMEX_SECOND_IMPL(first, second, ...) #second
#define SMEX_SECOND(...) SMEX_SECOND_IMPL(__VA_ARGS__, , )
#define SMEX_ADD(...) add(SMEX_FIRST(__VA_ARGS__, ), SMEX_SECOND(__VA_ARGS__));
#define SMEX_ADD_REGISTERED(function, name, ...) add(name);
  AT_FORALL_LOWER_PRECISION_FP(SMEX_ADD)
  AT_FORALL_FP32(SMEX_ADD)
  AT_FORALL_FP32_SET_OPT_DTYPE(SMEX_ADD)
  AT_FORALL_PROMOTE(SMEX_ADD)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(SMEX_ADD_REGISTERED)
#undef SMEX_ADD_REGISTERED
#undef SMEX_ADD
#undef SMEX_SECOND
#undef SMEX_SECOND_IMPL
#undef SMEX_FIRST
  return names;
}

#define SMEX_LOWER(...) KERNEL_CPU(__VA_ARGS__, lower_precision_fp)
#define SMEX_FP32(...) KERNEL_CPU(__VA_ARGS__, fp32)
#define SMEX_FP32_SET(...) KERNEL_CPU(__VA_ARGS__, fp32_set_opt_dtype)
#define SMEX_PROMOTE(...) KERNEL_CPU(__VA_ARGS__, promote)

class NoWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

/// While it is entered, CPU tensors are cast under autocast as CUDA's are: a model whose workers
/// are on GPUs is traced with CPU tensors. It holds for all threads.
class CudaAutocastOnCpu {
 public:
  void enter() {
    auto library =
        std::make_unique<torch::Library>(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
    using namespace at;            // whose types torch's macros name
    torch::Library& m = *library;  // as they call it
    NoWarnings none;               // rules of the CPU's own step back
    const c10::WarningUtils::WarningHandlerGuard quiet(&none);
    const std::set<std::string> ruled = names_on_cuda();
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
      const std::string full = toString(name);
      if (full.rfind("aten::", 0) != 0 || ruled.count(full) > 0) continue;
      const auto found = c10::Dispatcher::singleton().findOp(name);
      if (found && found->hasKernelForDispatchKey(kKey)) {
        m.impl(full.c_str(), torch::CppFunction::makeFallthrough());
      }
    }
    AT_FORALL_LOWER_PRECISION_FP(SMEX_LOWER)
    AT_FORALL_FP32(SMEX_FP32)
    AT_FORALL_FP32_SET_OPT_DTYPE(SMEX_FP32_SET)
    AT_FORALL_PROMOTE(SMEX_PROMOTE)
    AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_CPU)
    library_ = std::move(library);
  }

  void exit() { library_.reset(); }

 private:
  std::unique_ptr<torch::Library> library_;
};

#undef SMEX_PROMOTE
#undef SMEX_FP32_SET
#undef SMEX_FP32
#undef SMEX_LOWER

}  // namespace

void bind_autocast(py::module_& m) {
  py::class_<CudaAutocastOnCpu>(m, "CudaAutocastOnCpu")
      .def(py::init())
      .def("__enter__", &CudaAutocastOnCpu::enter)
      .def("__exit__", [](CudaAutocastOnCpu& self, const py::args&) { self.exit(); });
}

}  // namespace smex::bindings
