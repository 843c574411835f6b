// Python's view of a net's calls: their way through autograd, and what tells one that is known.
#include "runtime/iteration.h"

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/bindings.h"
#include "bindings/translated.h"
#include "runtime/model/model_file.h"

namespace py = pybind11;

namespace smex::bindings {
namespace {

using runtime::CallForm;
using runtime::Executor;
using runtime::Iteration;
using runtime::Session;
using runtime::Shard;
using runtime::WorkerTensors;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A call's program, bound to the tiles of the model's state.
struct Call {
  std::shared_ptr<const CallForm> form;
  std::shared_ptr<Executor> executor;
  std::vector<WorkerTensors> state;
  std::vector<bool> differentiable;  ///< by result
  /// What backward reads the memory of, so that autograd has to see changes: positions among the
  /// inputs, then the shards, then the results.
  std::vector<int> watched;
  std::vector<at::Tensor> shard_tensors;
  std::vector<Shard> shards;
};

/// What one run keeps for its backward pass.
struct Kept : torch::CustomClassHolder {
  std::shared_ptr<const Call> call;
  std::unique_ptr<Iteration> iteration;
  std::vector<c10::Device> devices;  ///< of the inputs
};

[[noreturn]] void throw_set_error() {
  python_error error;
  error.persist();
  throw std::move(error);
}

void set_error(const char* python_class, const char* text) {
  py::set_error(py::module_::import("smex.errors").attr(python_class), text);
}

/// Throws the exception that is handled now in the form in which autograd hands it on to Python.
[[noreturn]] void throw_as_python() {
  const py::gil_scoped_acquire gil;
  try {
    translated([] { throw; });
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const runtime::RankFailure& error) {
    raise_rank_failure(error.failure);
  } catch (const UserError& error) {
    set_error("SmexValueError", error.what());
  } catch (const InternalError& error) {
    set_error("SmexRuntimeError", error.what());
  }
  throw_set_error();
}

[[noreturn]] void throw_runtime_error(const char* text) {
  const py::gil_scoped_acquire gil;
  set_error("SmexRuntimeError", text);
  throw_set_error();
}

/// Whether a tensor is one of numbers that lie in memory, and nothing of torch looks through it.
bool is_plain(const at::Tensor& tensor) {
  static const uint64_t kUsual =
      c10::full_backend_mask |
      c10::DispatchKeySet({c10::DispatchKey::CPU, c10::DispatchKey::CUDA,
                           c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::AutogradCPU,
                           c10::DispatchKey::AutogradCUDA, c10::DispatchKey::AutocastCPU,
                           c10::DispatchKey::AutocastCUDA})
          .raw_repr();
  return (tensor.key_set().raw_repr() & ~kUsual) == 0 && (tensor.is_cpu() || tensor.is_cuda());
}

/// Whether a mode, a transform or a tracer of torch sees the calls that are made now.
bool anyone_looks() {
  static const c10::DispatchKeySet kLookers(
      {c10::DispatchKey::FuncTorchDynamicLayerFrontMode, c10::DispatchKey::Functionalize,
       c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
       c10::DispatchKey::PythonDispatcher, c10::DispatchKey::Tracer});
  return c10::impl::tls_local_dispatch_key_set().included_.has_any(kLookers);
}

/// Raises an error for gradients that a tracer or a transform gives.
void refuse_tracers(const variable_list& grads) {
  const auto is_usual = [](const at::Tensor& grad) { return !grad.defined() || is_plain(grad); };
  if (!anyone_looks() && std::all_of(grads.begin(), grads.end(), is_usual)) return;
  const py::gil_scoped_acquire gil;
  py::list given;
  for (const at::Tensor& grad : grads) {
    if (grad.defined()) given.append(grad);
  }
  py::module_::import("smex.execution.calls").attr("refuse_tracers")(given);
}

struct Run : torch::autograd::Function<Run> {
  static variable_list forward(AutogradContext* ctx, const std::shared_ptr<const Call>& call,
                               std::shared_ptr<Session>* session, at::TensorList given,
                               at::TensorList shards) {
    variable_list inputs = given.vec();
    auto kept = c10::make_intrusive<Kept>();
    kept->call = call;
    kept->iteration = std::make_unique<Iteration>(call->form, call->executor, call->state, inputs);
    *session = kept->iteration->session();
    for (const at::Tensor& input : inputs) kept->devices.push_back(input.device());
    ctx->set_materialize_grads(false);
    variable_list results = kept->iteration->run_forward(inputs);
    variable_list constant;
    for (size_t n = 0; n < results.size(); ++n) {
      if (!call->differentiable[n]) constant.push_back(results[n]);
    }
    ctx->mark_non_differentiable(constant);
    variable_list watched;
    for (size_t position : call->watched) {
      if (position < inputs.size()) {
        watched.push_back(inputs[position]);
        continue;
      }
      position -= inputs.size();
      watched.push_back(position < shards.size() ? shards[position]
                                                 : results.at(position - shards.size()));
    }
    ctx->save_for_backward(watched);
    ctx->saved_data["kept"] = c10::IValue::make_capsule(kept);
    return results;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto found = ctx->saved_data.find("kept");
    if (found == ctx->saved_data.end()) {
      static_cast<void>(ctx->get_saved_variables());  // raises torch's own error, if it has one
      throw_runtime_error(
          "backward: this graph was already used and its values are freed; run the net again");
    }
    const auto kept = c10::static_intrusive_pointer_cast<Kept>(found->second.toCapsule());
    const Call& call = *kept->call;
    try {
      refuse_tracers(grads);
      if (c10::GradMode::is_enabled()) {
        throw_runtime_error(
            "backward: a partitioned net has no second derivative; leave out create_graph=True");
      }
      static_cast<void>(ctx->get_saved_variables());  // raises when one was changed in place
      ctx->saved_data.clear();
      kept->iteration->run_backward(grads);
      variable_list result(2);
      for (at::Tensor& grad : kept->iteration->gradients(grads, kept->devices, call.shards)) {
        result.push_back(std::move(grad));
      }
      return result;
    } catch (...) {
      throw_as_python();
    }
  }
};

std::pair<std::vector<at::Tensor>, std::shared_ptr<Session>> run(
    const std::shared_ptr<const Call>& call, const std::vector<at::Tensor>& inputs) {
  const auto is_dual = [](const at::Tensor& tensor) { return tensor._fw_grad(0).defined(); };
  if (std::any_of(inputs.begin(), inputs.end(), is_dual) ||
      std::any_of(call->shard_tensors.begin(), call->shard_tensors.end(), is_dual)) {
    py::module_::import("smex.execution.calls")
        .attr("refuse_tracer")("forward-mode differentiation");
  }
  return translated([&] {
    const py::gil_scoped_release release;
    std::shared_ptr<Session> session;
    variable_list results =
        Run::apply(call, &session, at::TensorList(inputs), at::TensorList(call->shard_tensors));
    return std::make_pair(std::move(results), std::move(session));
  });
}

// ---- calls that are known ----

/// The arguments of a call whose leaves are tensors that are given one by one.
class PlainArguments {
 public:
  PlainArguments(const py::tuple& args, const py::dict& kwargs) {
    for (const auto& [name, value] : kwargs) {
      names_.push_back(py::reinterpret_borrow<py::object>(name));
    }
    is_plain_ = for_each(args, kwargs, [&](const at::Tensor& tensor) {
      expected_.push_back({tensor.sizes().vec(), tensor.scalar_type(), tensor.requires_grad()});
      return true;
    });
    grad_mode_ = c10::GradMode::is_enabled();
    default_dtype_ = c10::get_default_dtype_as_scalartype();
    is_plain_ = is_plain_ && !anyone_looks() && !casts();
  }

  /// The tensors of the same kind of call under the same modes; nullopt where it is another.
  std::optional<std::vector<at::Tensor>> take(const py::tuple& args, const py::dict& kwargs) const {
    if (!is_plain_ || anyone_looks() || casts() || c10::GradMode::is_enabled() != grad_mode_ ||
        c10::get_default_dtype_as_scalartype() != default_dtype_ || !same_names(kwargs) ||
        args.size() + kwargs.size() != expected_.size()) {
      return std::nullopt;
    }
    std::vector<at::Tensor> found;
    found.reserve(expected_.size());
    const bool fits = for_each(args, kwargs, [&](const at::Tensor& tensor) {
      const Expected& wanted = expected_[found.size()];
      found.push_back(tensor);
      return tensor.sizes() == c10::IntArrayRef(wanted.sizes) &&
             tensor.scalar_type() == wanted.dtype && tensor.requires_grad() == wanted.trained;
    });
    if (!fits) return std::nullopt;
    return found;
  }

 private:
  struct Expected {
    std::vector<int64_t> sizes;
    c10::ScalarType dtype;
    bool trained;
  };

  /// Calls `visit` until it returns false; false also where an argument is no plain tensor.
  template <typename Visit>
  static bool for_each(const py::tuple& args, const py::dict& kwargs, const Visit& visit) {
    const auto each = [&](PyObject* item) {
      if (!THPVariable_CheckExact(item)) return false;
      const at::Tensor& tensor = THPVariable_Unpack(item);
      return reinterpret_cast<PyObject*>(Py_TYPE(item)) == THPVariableClass && is_plain(tensor) &&
             !tensor._fw_grad(0).defined() && visit(tensor);
    };
    for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(args.ptr()); ++n) {
      if (!each(PyTuple_GET_ITEM(args.ptr(), n))) return false;
    }
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(kwargs.ptr(), &at, &key, &value) != 0;) {
      if (!each(value)) return false;
    }
    return true;
  }

  bool same_names(const py::dict& kwargs) const {
    if (kwargs.size() != names_.size()) return false;
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    size_t n = 0;
    for (Py_ssize_t at = 0; PyDict_Next(kwargs.ptr(), &at, &key, &value) != 0; ++n) {
      if (key != names_[n].ptr() && PyObject_RichCompareBool(key, names_[n].ptr(), Py_EQ) != 1) {
        return false;
      }
    }
    return true;
  }

  static bool casts() {
    return at::autocast::is_autocast_enabled(at::kCPU) ||
           at::autocast::is_autocast_enabled(at::kCUDA);
  }

  std::vector<py::object> names_;
  std::vector<Expected> expected_;
  bool is_plain_ = false;
  bool grad_mode_ = false;
  c10::ScalarType default_dtype_ = c10::ScalarType::Undefined;
};

CallForm::Given make_given(CallForm::Source source, int index, bool changes, bool local) {
  return {source, index, changes, local};
}

CallForm::Made make_made(CallForm::Use use, int index, bool borrowed, Shape shape,
                         std::vector<int> tangents, bool local) {
  return {use, index, borrowed, std::move(shape), std::move(tangents), local};
}

std::shared_ptr<Call> make_call(const std::shared_ptr<Executor>& executor,
                                std::vector<CallForm::Given> given,
                                std::vector<CallForm::Made> made, std::vector<at::Tensor> constants,
                                std::vector<bool> differentiable, bool draws,
                                const std::vector<std::vector<std::optional<at::Tensor>>>& state,
                                std::vector<at::Tensor> shard_tensors, std::vector<Shard> shards,
                                std::vector<int> watched, uint64_t net) {
  auto form = std::make_shared<CallForm>();
  form->given = std::move(given);
  form->made = std::move(made);
  form->constants = std::move(constants);
  form->num_results = static_cast<int>(differentiable.size());
  form->draws = draws;
  form->net = net;
  auto call = std::make_shared<Call>();
  call->form = std::move(form);
  call->executor = executor;
  for (const auto& tiles : state) {
    WorkerTensors& held = call->state.emplace_back();
    for (const auto& tile : tiles) held.push_back(tile.value_or(at::Tensor()));
  }
  call->differentiable = std::move(differentiable);
  call->watched = std::move(watched);
  call->shard_tensors = std::move(shard_tensors);
  call->shards = std::move(shards);
  return call;
}

void export_call(const Call& call, const std::string& path,
                 const std::vector<std::tuple<std::string, Shape, std::string>>& inputs,
                 const std::vector<std::tuple<std::string, Shape, std::string>>& outputs,
                 std::string plan) {
  translated([&] {
    runtime::ModelFile file;
    file.program = call.executor->program();
    file.form = *call.form;
    file.state = call.state;
    for (const auto& [name, shape, dtype] : inputs) file.inputs.push_back({name, shape, dtype});
    for (const auto& [name, shape, dtype] : outputs) file.outputs.push_back({name, shape, dtype});
    file.plan = std::move(plan);
    for (int w = 0; w < file.program.num_workers; ++w) {
      file.devices.push_back(call.executor->device(w).str());
    }
    const py::gil_scoped_release release;
    runtime::write_model(path, file);
  });
}

}  // namespace

void bind_iteration(py::module_& m) {
  py::enum_<CallForm::Source>(m, "Source", "What an input of a program is to a call.")
      .value("STATE", CallForm::Source::kState)
      .value("CONSTANT", CallForm::Source::kConstant)
      .value("INPUT", CallForm::Source::kInput)
      .value("TANGENT", CallForm::Source::kTangent);
  py::enum_<CallForm::Use>(m, "Use", "What an output of a program is to a call.")
      .value("RESULT", CallForm::Use::kResult)
      .value("STATE_UPDATE", CallForm::Use::kStateUpdate)
      .value("INPUT_UPDATE", CallForm::Use::kInputUpdate)
      .value("STATE_GRADIENT", CallForm::Use::kStateGradient)
      .value("INPUT_GRADIENT", CallForm::Use::kInputGradient)
      .value("NOTHING", CallForm::Use::kNothing);
  py::class_<CallForm::Given>(m, "Given")
      .def(py::init(&make_given), py::arg("source"), py::arg("index"), py::arg("changes") = false,
           py::arg("local") = false);
  py::class_<CallForm::Made>(m, "Made").def(
      py::init(&make_made), py::arg("use"), py::arg("index"), py::arg("borrowed"), py::arg("shape"),
      py::arg("tangents") = std::vector<int>{}, py::arg("local") = false);
  py::class_<Call, std::shared_ptr<Call>>(
      m, "Call", "A captured call's program with the tiles of the model's state.")
      .def(py::init(&make_call), py::arg("executor"), py::arg("given"), py::arg("made"),
           py::arg("constants"), py::arg("differentiable"), py::arg("draws"), py::arg("state"),
           py::arg("shard_tensors"), py::arg("shards"), py::arg("watched"), py::arg("net"))
      .def("run", &run, py::arg("inputs"),
           "Runs the forward program through autograd; returns the whole results and the session.")
      .def("export", &export_call, py::arg("path"), py::arg("inputs"), py::arg("outputs"),
           py::arg("plan"), "Writes a file for C++; inputs and outputs are (name, shape, dtype).");
  py::class_<PlainArguments>(m, "PlainArguments",
                             "The kind of a call: the shapes and types of its tensors, the modes.")
      .def(py::init<const py::tuple&, const py::dict&>(), py::arg("args"), py::arg("kwargs"))
      .def("take", &PlainArguments::take, py::arg("args"), py::arg("kwargs"),
           "Returns the tensors of another call of this kind; None where it is of another.");
}

}  // namespace smex::bindings
