#include "runtime/iteration.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <unordered_set>

namespace smex::runtime {
namespace {

bool is_whole(const Region& box, c10::IntArrayRef shape) {
  for (size_t d = 0; d < box.rank(); ++d) {
    if (box.dims[d].lo != 0 || box.dims[d].hi != shape[d]) return false;
  }
  return true;
}

at::Tensor box_of(at::Tensor whole, const Region& box) {
  for (size_t d = 0; d < box.rank(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    const Interval& range = box.dims[d];
    if (range.lo != 0 || range.hi != whole.size(dim)) {
      whole = whole.narrow(dim, range.lo, range.size());
    }
  }
  return whole;
}

int64_t new_seed() {
  return at::empty({}, at::TensorOptions().dtype(at::kLong)).random_().item<int64_t>();
}

}  // namespace

Iteration::Iteration(std::shared_ptr<const CallForm> form,
                     const std::shared_ptr<Executor>& executor, std::vector<WorkerTensors> state,
                     const std::vector<at::Tensor>& inputs)
    : form_(std::move(form)), executor_(executor), state_(std::move(state)) {
  int64_t seed = form_->draws ? new_seed() : 0;
  if (form_->draws && executor_->communicator()) {
    const c10::Device device = executor_->device(executor_->workers()[0]);
    seed = executor_->communicator()->of_first(seed, device, executor_->hooks().check_interrupt);
  }
  std::vector<WorkerTensors> bound;
  bound.reserve(form_->given.size());
  for (size_t n = 0; n < form_->given.size(); ++n) {
    bound.push_back(tiles_of(form_->given[n], n, inputs));
  }
  session_ = executor_->start(bound, seed, form_->net);
}

WorkerTensors Iteration::tiles_of(const CallForm::Given& given, size_t position,
                                  const std::vector<at::Tensor>& inputs) const {
  WorkerTensors tiles;
  switch (given.source) {
    case CallForm::Source::kTangent:
      return tiles;
    case CallForm::Source::kState:
      tiles = state_.at(given.index);
      break;
    case CallForm::Source::kConstant:
      tiles = scatter(position, form_->constants.at(given.index));
      break;
    case CallForm::Source::kInput:
      tiles =
          scatter(position, inputs.at(given.index), given.local ? local_rows(given.index).lo : 0);
      break;
  }
  if (!given.changes) return tiles;
  const WorkerTensors held = tiles;
  for (size_t w = 0; w < tiles.size(); ++w) {
    if (!held[w].defined()) continue;
    size_t first = 0;  // replicas stay replicas
    while (!held[first].is_same(held[w])) ++first;
    tiles[w] = first < w ? tiles[first] : held[w].detach().clone();
  }
  return tiles;
}

Interval Iteration::local_rows(int input) const {
  Interval rows;
  for (size_t n = 0; n < form_->given.size(); ++n) {
    const CallForm::Given& given = form_->given[n];
    if (given.source != CallForm::Source::kInput || given.index != input) continue;
    const std::vector<Region>& regions = executor_->program().inputs[n].regions;
    const std::vector<int>& workers = executor_->workers();
    rows = {regions[workers.front()].dims.at(0).lo, regions[workers.back()].dims.at(0).hi};
  }
  return rows;
}

WorkerTensors Iteration::scatter(size_t position, const at::Tensor& given,
                                 int64_t first_row) const {
  const Binding& binding = executor_->program().inputs[position];
  // Its own TensorImpl: the caller may change the shape of the one that was given.
  const at::Tensor plain = given.detach().resolve_conj().resolve_neg();
  WorkerTensors tiles(binding.slots.size());
  for (size_t w = 0; w < tiles.size(); ++w) {
    if (binding.slots[w] == kNoSlot || !executor_->is_here(static_cast<int>(w))) continue;
    const Region& box = binding.regions[w];
    const c10::Device device = executor_->home(static_cast<int>(w));
    for (size_t v = 0; v < w && !tiles[w].defined(); ++v) {
      const bool is_same = tiles[v].defined() && binding.regions[v] == box &&
                           executor_->home(static_cast<int>(v)) == device;
      if (is_same) tiles[w] = tiles[v];
    }
    if (tiles[w].defined()) continue;
    Region inside = box;
    if (first_row != 0) inside.dims[0] = {box.dims[0].lo - first_row, box.dims[0].hi - first_row};
    tiles[w] = box_of(plain, inside).to(device).contiguous();
  }
  return tiles;
}

at::Tensor Iteration::gather(size_t position) const {
  const Binding& binding = executor_->program().outputs[position];
  const CallForm::Made& made = form_->made[position];
  const WorkerTensors tiles = session_->outputs(static_cast<int>(position));
  at::Tensor whole;
  std::vector<const Region*> done;
  for (size_t w = 0; w < tiles.size(); ++w) {
    if (!tiles[w].defined() || !is_whole(binding.regions[w], made.shape)) continue;
    if (made.local) {
      const Interval rows = local_rows(made.index);
      return tiles[w].narrow(0, rows.lo, rows.size()).clone();
    }
    // Not the slot's own: what autograd adds to a result would keep the session alive.
    return made.borrowed ? tiles[w].clone() : tiles[w].detach();
  }
  for (size_t w = 0; w < tiles.size(); ++w) {
    if (!tiles[w].defined()) continue;
    const Region& box = binding.regions[w];
    if (!whole.defined()) whole = at::zeros(made.shape, tiles[w].options());
    const auto is_same = [&](const Region* other) { return *other == box; };
    if (std::any_of(done.begin(), done.end(), is_same)) continue;
    done.push_back(&box);
    box_of(whole, box).copy_(tiles[w]);
  }
  return whole;
}

std::vector<at::Tensor> Iteration::run_forward(std::vector<at::Tensor>& inputs) {
  session_->run_forward();
  std::vector<at::Tensor> results(form_->num_results);
  for (size_t n = 0; n < form_->made.size(); ++n) {
    if (form_->made[n].use == CallForm::Use::kResult) results[form_->made[n].index] = gather(n);
  }
  for (const at::Tensor& result : results) {
    results_.emplace_back(result.sizes().vec(), result.scalar_type());
  }
  write_updates(inputs);
  return results;
}

void Iteration::write_updates(std::vector<at::Tensor>& inputs) {
  // All values are there before one is written: they may be made of what others were.
  std::vector<std::pair<at::Tensor, at::Tensor>> found;
  std::unordered_set<const void*> known;
  for (size_t n = 0; n < form_->made.size(); ++n) {
    const CallForm::Made& made = form_->made[n];
    if (made.use == CallForm::Use::kInputUpdate) {
      found.emplace_back(inputs.at(made.index), gather(n));
    } else if (made.use == CallForm::Use::kStateUpdate) {
      const WorkerTensors tiles = session_->outputs(static_cast<int>(n));
      for (size_t w = 0; w < tiles.size(); ++w) {
        const at::Tensor& tile = state_.at(made.index)[w];
        if (!tile.defined() || !known.insert(tile.unsafeGetTensorImpl()).second) continue;
        found.emplace_back(tile, made.borrowed ? tiles[w].clone() : tiles[w]);
      }
    }
  }
  for (auto& [tensor, value] : found) tensor.copy_(value);
}

void Iteration::run_backward(const std::vector<at::Tensor>& grads) {
  for (size_t n = 0; n < form_->given.size(); ++n) {
    const CallForm::Given& given = form_->given[n];
    if (given.source != CallForm::Source::kTangent) continue;
    const at::Tensor& grad = grads.at(given.index);
    const auto& [shape, dtype] = results_.at(given.index);
    session_->set_input(static_cast<int>(n),
                        scatter(n, grad.defined() ? grad : at::zeros(shape, dtype)));
  }
  session_->run_backward();
}

std::vector<at::Tensor> Iteration::gradients(const std::vector<at::Tensor>& grads,
                                             const std::vector<c10::Device>& input_devices,
                                             const std::vector<Shard>& shards) {
  std::vector<int> of_input(input_devices.size(), -1), of_state(state_.size(), -1);
  for (size_t n = 0; n < form_->made.size(); ++n) {
    const CallForm::Made& made = form_->made[n];
    const bool is_read = std::any_of(made.tangents.begin(), made.tangents.end(),
                                     [&](int result) { return grads.at(result).defined(); });
    if (!is_read) continue;
    if (made.use == CallForm::Use::kInputGradient) of_input.at(made.index) = static_cast<int>(n);
    if (made.use == CallForm::Use::kStateGradient) of_state.at(made.index) = static_cast<int>(n);
  }
  std::vector<at::Tensor> found;
  for (size_t i = 0; i < of_input.size(); ++i) {
    found.push_back(of_input[i] < 0 ? at::Tensor() : gather(of_input[i]).to(input_devices[i]));
  }
  int last = -1;
  WorkerTensors tiles;
  for (const auto& [index, worker] : shards) {
    const int position = of_state.at(index);
    if (index != last) tiles = position < 0 ? WorkerTensors{} : session_->take_outputs(position);
    last = index;
    at::Tensor& gradient = found.emplace_back(position < 0 ? at::Tensor() : tiles.at(worker));
    const at::Tensor& tile = state_.at(index).at(worker);
    // A shard of nothing, which the program knows nothing of, takes part in the optimiser's steps.
    if (position >= 0 && !gradient.defined() && tile.numel() == 0) gradient = at::empty_like(tile);
  }
  return found;
}

}  // namespace smex::runtime
