#include "smex/model.h"

#include <ATen/ATen.h>

#include <map>
#include <mutex>

#include "ir/error.h"
#include "library/ranks_impl.h"
#include "partition/lower/gather.h"
#include "runtime/dtype.h"
#include "runtime/executor.h"
#include "runtime/iteration.h"
#include "runtime/model/model_file.h"

namespace smex {

using runtime::CallForm;
using runtime::Executor;
using runtime::ModelFile;
using runtime::WorkerTensors;

struct Model::Impl {
  std::shared_ptr<Ranks::Impl> ranks;  ///< outlives the executor; null: one process runs all
  std::string path;
  std::vector<InputInfo> inputs;
  std::vector<std::string> outputs;
  std::vector<c10::Device> devices;
  std::string plan;
  std::shared_ptr<const CallForm> form;
  std::shared_ptr<Executor> executor;
  std::vector<WorkerTensors> state;
  std::mutex mutex;  ///< of the state

  void check(const std::vector<at::Tensor>& given) const;
};

namespace {

/// By worker the tiles on its home; what workers of one device share stays shared.
std::vector<WorkerTensors> at_home(const std::vector<WorkerTensors>& state,
                                   const Executor& executor) {
  std::map<std::pair<const void*, std::string>, at::Tensor> moved;
  std::vector<WorkerTensors> found;
  for (const WorkerTensors& tiles : state) {
    WorkerTensors& held = found.emplace_back(tiles.size());
    for (size_t w = 0; w < tiles.size(); ++w) {
      if (!tiles[w].defined() || !executor.is_here(static_cast<int>(w))) continue;
      const c10::Device home = executor.home(static_cast<int>(w));
      at::Tensor& tile = moved[{tiles[w].unsafeGetTensorImpl(), home.str()}];
      if (!tile.defined()) tile = tiles[w].to(home);
      held[w] = tile;
    }
  }
  return found;
}

/// By worker the rank that runs it. Gives the program what all ranks need of its results.
std::vector<int> divide(const std::string& path, const Ranks& ranks,
                        const std::vector<c10::Device>& devices, ModelFile& file) {
  const auto where = c10::str("Model::load of \"", path, "\": ");
  const int workers = file.program.num_workers;
  if (workers % ranks.size() != 0) {
    throw UserError(c10::str(where, "expected ranks over which ", workers,
                             " workers divide evenly, found ", ranks.size()));
  }
  for (const c10::Device device : devices) {
    if (device.is_cpu()) continue;
    throw UserError(c10::str(where, "ranks run workers on the CPU, found ", device,
                             "; pass ModelOptions{.devices = ...} of the CPU"));
  }
  std::vector<int> found;
  for (int w = 0; w < workers; ++w) found.push_back(w * ranks.size() / workers);
  gather_outputs(returned_of(file), found, file.program);
  return found;
}

std::shared_ptr<Executor> make_executor(const std::string& path, ModelFile& file,
                                        const ModelOptions& options,
                                        const std::vector<c10::Device>& devices,
                                        std::shared_ptr<runtime::Communicator> communicator,
                                        std::vector<int> ranks) {
  runtime::ExecutorOptions wanted;
  wanted.threads_per_worker = options.threads_per_worker;
  wanted.devices = devices;
  wanted.communicator = std::move(communicator);
  wanted.ranks = std::move(ranks);
  try {
    return Executor::create(std::move(file.program), std::move(wanted));
  } catch (const InternalError& error) {
    throw UserError("Model::load: the program of \"" + path +
                    "\" does not run here: " + error.what());
  }
}

}  // namespace

Model::Model(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Model Model::load(const std::string& path, const ModelOptions& options) {
  return load(path, nullptr, options);
}

Model Model::load(const std::string& path, const Ranks& ranks, const ModelOptions& options) {
  return load(path, &ranks, options);
}

Model Model::load(const std::string& path, const Ranks* ranks, const ModelOptions& options) {
  const at::NoGradGuard no_gradients;
  ModelFile file = runtime::read_model(path);
  auto impl = std::make_shared<Impl>();
  impl->path = path;
  impl->devices = options.devices;
  if (impl->devices.empty()) {
    for (const std::string& device : file.devices) impl->devices.emplace_back(device);
  }
  std::vector<int> by_worker;
  if (ranks != nullptr && ranks->size() > 1) {
    impl->ranks = ranks->impl_;
    by_worker = divide(path, *ranks, impl->devices, file);
  }
  for (runtime::ModelTensor& input : file.inputs) {
    impl->inputs.push_back(
        {std::move(input.name), std::move(input.shape), runtime::parse_dtype(input.dtype)});
  }
  for (runtime::ModelTensor& output : file.outputs) impl->outputs.push_back(std::move(output.name));
  impl->plan = std::move(file.plan);
  impl->executor =
      make_executor(path, file, options, impl->devices,
                    impl->ranks ? impl->ranks->communicator : nullptr, std::move(by_worker));
  impl->state = at_home(file.state, *impl->executor);
  impl->form = std::make_shared<CallForm>(std::move(file.form));
  return Model(std::move(impl));
}

void Model::Impl::check(const std::vector<at::Tensor>& given) const {
  const std::string where = "Model::forward of \"" + path + "\": ";
  if (given.size() != inputs.size()) {
    throw UserError(c10::str(where, "expected ", inputs.size(), " inputs, found ", given.size()));
  }
  for (size_t n = 0; n < given.size(); ++n) {
    const InputInfo& wanted = inputs[n];
    const auto name = c10::str(where, "input ", n, " \"", wanted.name, "\" ");
    if (!given[n].defined()) throw UserError(name + "is undefined");
    if (given[n].sizes() != c10::IntArrayRef(wanted.shape)) {
      throw UserError(
          c10::str(name, "is ", given[n].sizes(), ", expected ", c10::IntArrayRef(wanted.shape)));
    }
    if (given[n].scalar_type() != wanted.dtype) {
      throw UserError(
          c10::str(name, "is of type ", given[n].scalar_type(), ", expected ", wanted.dtype));
    }
  }
}

std::vector<at::Tensor> Model::forward(std::vector<at::Tensor> inputs) const {
  impl_->check(inputs);
  const at::NoGradGuard no_gradients;
  const std::lock_guard lock(impl_->mutex);
  runtime::Iteration iteration(impl_->form, impl_->executor, impl_->state, inputs);
  return iteration.run_forward(inputs);
}

const std::vector<InputInfo>& Model::inputs() const { return impl_->inputs; }
const std::vector<std::string>& Model::outputs() const { return impl_->outputs; }
const std::string& Model::plan() const { return impl_->plan; }
int Model::workers() const { return impl_->executor->program().num_workers; }
const std::vector<c10::Device>& Model::devices() const { return impl_->devices; }

}  // namespace smex
