// smex::tree_lstm: the element-wise part of LSTM cells as one operator (cells.h).
#include "kernels/vertex/cells.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <vector>

#include "kernels/message/dispatch.h"

#ifdef SMEX_WITH_CUDA
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/vertex/cuda/cells.h"
#endif

namespace smex::kernels {
namespace {

using Two = std::tuple<at::Tensor, at::Tensor>;

// Elements that are worth a thread; each takes several exponentials.
constexpr int64_t kGrainSize = 4096;

constexpr const char* kForward = "smex::tree_lstm";
constexpr const char* kBackward = "smex::tree_lstm_backward";

c10::SymInt width_of(const at::Tensor& gates, size_t children) {
  return gates.sym_size(1) / static_cast<int64_t>(3 + children);
}

void check_rows(const char* op, const char* name, const at::Tensor& x, const at::Tensor& gates,
                const c10::SymInt& width) {
  TORCH_CHECK_VALUE(x.dim() == 2 && x.sym_size(0) == gates.sym_size(0) && x.sym_size(1) == width,
                    op, ": expected ", name, " [", gates.sym_size(0), ", ", width, "], found ",
                    x.sym_sizes());
  TORCH_CHECK_TYPE(x.scalar_type() == gates.scalar_type(), op, ": expected ", name, " of type ",
                   gates.scalar_type(), " as the gates, found ", x.scalar_type());
  TORCH_CHECK_VALUE(x.device() == gates.device(), op, ": expected ", name, " on ", gates.device(),
                    " as the gates, found ", x.device());
}

void check(const char* op, const at::Tensor& gates, at::TensorList cells, at::IntArrayRef places) {
  TORCH_CHECK_TYPE(gates.is_floating_point(), op,
                   ": expected gates of a floating point type, found ", gates.scalar_type());
  const auto blocks = static_cast<int64_t>(3 + cells.size());
  TORCH_CHECK_VALUE(gates.dim() == 2 && gates.sym_size(1) % blocks == 0, op,
                    ": expected gates [rows, ", blocks, " * width] for ", cells.size(),
                    " cells, found ", gates.sym_sizes());
  std::vector<int64_t> sorted(places.begin(), places.end());
  std::sort(sorted.begin(), sorted.end());
  bool is_order = static_cast<int64_t>(sorted.size()) == blocks;
  for (size_t i = 0; i < sorted.size(); ++i) is_order &= sorted[i] == static_cast<int64_t>(i);
  TORCH_CHECK_VALUE(is_order, op, ": expected the places of ", blocks,
                    " gates, each number below it once, found ", places);
  for (const at::Tensor& cell : cells)
    check_rows(op, "cells", cell, gates, width_of(gates, cells.size()));
}

// ---- by ATen's operators, for any device and type ----

std::vector<at::Tensor> blocks_of(const at::Tensor& gates, at::IntArrayRef places) {
  const std::vector<at::Tensor> chunks = gates.chunk(static_cast<int64_t>(places.size()), 1);
  std::vector<at::Tensor> blocks;
  for (const int64_t place : places) blocks.push_back(chunks[place]);
  return blocks;
}

Two forward(const at::Tensor& gates, at::TensorList cells, at::IntArrayRef places) {
  check(kForward, gates, cells, places);
  const auto gate = blocks_of(gates, places);
  at::Tensor c = gate[0].sigmoid() * gate[2].tanh();
  for (size_t j = 0; j < cells.size(); ++j) c = c + gate[3 + j].sigmoid() * cells[j];
  return {gate[1].sigmoid() * c.tanh(), c};
}

Two backward(const at::Tensor& grad_h, const at::Tensor& grad_c, const at::Tensor& gates,
             at::TensorList cells, const at::Tensor& c, at::IntArrayRef places) {
  check(kBackward, gates, cells, places);
  const auto gate = blocks_of(gates, places);
  const at::Tensor input = gate[0].sigmoid(), output = gate[1].sigmoid(), update = gate[2].tanh();
  const at::Tensor shown = c.tanh();
  const at::Tensor grad = grad_c + grad_h * output * (1 - shown * shown);
  std::vector<at::Tensor> grads(places.size()), of_cells;
  grads[places[0]] = grad * update * input * (1 - input);
  grads[places[1]] = grad_h * shown * output * (1 - output);
  grads[places[2]] = grad * input * (1 - update * update);
  for (size_t j = 0; j < cells.size(); ++j) {
    const at::Tensor forget = gate[3 + j].sigmoid();
    grads[places[3 + j]] = grad * cells[j] * forget * (1 - forget);
    of_cells.push_back(grad * forget);
  }
  const at::Tensor grad_cells =
      cells.empty() ? at::empty_symint({gates.sym_size(0), 0, c.sym_size(1)}, gates.options())
                    : at::stack(of_cells, 1);
  return {at::cat(grads, 1), grad_cells};
}

void forward_into(const at::Tensor& gates, at::TensorList cells, at::IntArrayRef places,
                  at::Tensor& h, at::Tensor& c) {
  const auto [new_h, new_c] = forward(gates, cells, places);
  h.copy_(new_h);
  c.copy_(new_c);
}

at::Tensor backward_into(const at::Tensor& grad_h, const at::Tensor& grad_c,
                         const at::Tensor& gates, at::TensorList cells, const at::Tensor& c,
                         at::IntArrayRef places, at::Tensor& grad_gates) {
  const auto [new_gates, grad_cells] = backward(grad_h, grad_c, gates, cells, c, places);
  grad_gates.copy_(new_gates);
  return grad_cells;
}

// ---- by kernels of the CPU and of CUDA ----

bool has_kernel(const at::Tensor& gates, [[maybe_unused]] at::TensorList cells) {
  const at::ScalarType type = gates.scalar_type();
  const bool is_wide = type == at::kFloat || type == at::kDouble;
#ifdef SMEX_WITH_CUDA
  if (gates.is_cuda())
    return (is_wide || type == at::kHalf || type == at::kBFloat16) &&
           static_cast<int64_t>(cells.size()) <= kMostDeviceChildren;
#endif
  return is_wide;
}

at::Tensor in_rows(const at::Tensor& x) { return x.stride(1) == 1 ? x : x.contiguous(); }

/// The cells with pointers to their rows.
template <typename T>
struct Cells {
  std::vector<at::Tensor> kept;
  std::vector<const T*> data;
  std::vector<int64_t> strides;

  explicit Cells(at::TensorList cells) {
    for (const at::Tensor& cell : cells) {
      kept.push_back(in_rows(cell));
      data.push_back(data_of<T>(kept.back()));
      strides.push_back(kept.back().stride(0));
    }
  }
};

/// Calls `on_cpu(begin, end)` for parts of the rows, or `on_cuda(stream)`, where the gates are.
template <typename OnCpu, typename OnCuda>
void for_rows(const at::Tensor& gates, int64_t width, const OnCpu& on_cpu,
              [[maybe_unused]] const OnCuda& on_cuda) {
#ifdef SMEX_WITH_CUDA
  if (gates.is_cuda()) {
    const c10::cuda::CUDAGuard guard(gates.device());
    on_cuda(c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return;
  }
#endif
  const int64_t grain = std::max<int64_t>(1, kGrainSize / std::max<int64_t>(1, width));
  at::parallel_for(0, gates.size(0), grain, on_cpu);
}

void forward_into_by_kernel(const at::Tensor& gates, at::TensorList cells, at::IntArrayRef places,
                            at::Tensor& h, at::Tensor& c) {
  if (!has_kernel(gates, cells) || h.stride(1) != 1 || c.stride(1) != 1)
    return forward_into(gates, cells, places, h, c);
  check(kForward, gates, cells, places);
  const int64_t width = gates.size(1) / static_cast<int64_t>(places.size());
  check_rows(kForward, "h", h, gates, width);
  check_rows(kForward, "c", c, gates, width);
  const at::Tensor dense = in_rows(gates);
  dispatch_features(kForward, gates.scalar_type(), [&](auto feature) {
    using T = typename decltype(feature)::type;
    const Cells<T> of(cells);
    CellForward<T> task;
    task.width = width;
    task.children = static_cast<int64_t>(cells.size());
    task.places = places.data();
    task.gates = data_of<T>(dense);
    task.gates_stride = dense.stride(0);
    task.cells = of.data.data();
    task.cell_strides = of.strides.data();
    task.h = mutable_data_of<T>(h);
    task.h_stride = h.stride(0);
    task.c = mutable_data_of<T>(c);
    task.c_stride = c.stride(0);
    for_rows(
        gates, width,
        [&](int64_t begin, int64_t end) {
          if constexpr (std::is_floating_point_v<T>) SMEX_PICK(cell_forward<T>)(task, begin, end);
        },
        [&](auto stream) { cell_forward_cuda(task, gates.size(0), stream); });
  });
}

Two forward_by_kernel(const at::Tensor& gates, at::TensorList cells, at::IntArrayRef places) {
  check(kForward, gates, cells, places);
  const at::SymInt width = width_of(gates, cells.size());
  at::Tensor h = at::empty_symint({gates.sym_size(0), width}, gates.options());
  at::Tensor c = at::empty_like(h);
  forward_into_by_kernel(gates, cells, places, h, c);
  return {h, c};
}

at::Tensor backward_into_by_kernel(const at::Tensor& grad_h, const at::Tensor& grad_c,
                                   const at::Tensor& gates, at::TensorList cells,
                                   const at::Tensor& c, at::IntArrayRef places,
                                   at::Tensor& grad_gates) {
  if (!has_kernel(gates, cells) || grad_gates.stride(1) != 1)
    return backward_into(grad_h, grad_c, gates, cells, c, places, grad_gates);
  check(kBackward, gates, cells, places);
  const int64_t width = gates.size(1) / static_cast<int64_t>(places.size());
  check_rows(kBackward, "grad_h", grad_h, gates, width);
  check_rows(kBackward, "grad_c", grad_c, gates, width);
  check_rows(kBackward, "c", c, gates, width);
  check_rows(kBackward, "grad_gates", grad_gates, gates, gates.sym_size(1));
  const auto children = static_cast<int64_t>(cells.size());
  at::Tensor grad_cells = at::empty({gates.size(0), children, width}, gates.options());
  const at::Tensor dense = in_rows(gates), of_h = in_rows(grad_h), of_c = in_rows(grad_c);
  const at::Tensor own = in_rows(c);
  dispatch_features(kBackward, gates.scalar_type(), [&](auto feature) {
    using T = typename decltype(feature)::type;
    const Cells<T> of(cells);
    CellBackward<T> task;
    task.width = width;
    task.children = children;
    task.places = places.data();
    task.grad_h = data_of<T>(of_h);
    task.grad_h_stride = of_h.stride(0);
    task.grad_c = data_of<T>(of_c);
    task.grad_c_stride = of_c.stride(0);
    task.gates = data_of<T>(dense);
    task.gates_stride = dense.stride(0);
    task.cells = of.data.data();
    task.cell_strides = of.strides.data();
    task.c = data_of<T>(own);
    task.c_stride = own.stride(0);
    task.grad_gates = mutable_data_of<T>(grad_gates);
    task.grad_gates_stride = grad_gates.stride(0);
    task.grad_cells = mutable_data_of<T>(grad_cells);
    for_rows(
        gates, width,
        [&](int64_t begin, int64_t end) {
          if constexpr (std::is_floating_point_v<T>) SMEX_PICK(cell_backward<T>)(task, begin, end);
        },
        [&](auto stream) { cell_backward_cuda(task, gates.size(0), stream); });
  });
  return grad_cells;
}

Two backward_by_kernel(const at::Tensor& grad_h, const at::Tensor& grad_c, const at::Tensor& gates,
                       at::TensorList cells, const at::Tensor& c, at::IntArrayRef places) {
  at::Tensor grad_gates = at::empty(gates.sizes(), gates.options());
  at::Tensor grad_cells =
      backward_into_by_kernel(grad_h, grad_c, gates, cells, c, places, grad_gates);
  return {grad_gates, grad_cells};
}

// ---- shapes only ----

Two forward_meta(const at::Tensor& gates, at::TensorList cells, at::IntArrayRef places) {
  check(kForward, gates, cells, places);
  const at::SymInt width = width_of(gates, cells.size());
  const at::Tensor h = at::empty_symint({gates.sym_size(0), width}, gates.options());
  return {h, at::empty_like(h)};
}

Two backward_meta(const at::Tensor& grad_h, const at::Tensor& grad_c, const at::Tensor& gates,
                  at::TensorList cells, const at::Tensor& c, at::IntArrayRef places) {
  check(kBackward, gates, cells, places);
  const at::SymInt width = width_of(gates, cells.size());
  check_rows(kBackward, "grad_h", grad_h, gates, width);
  check_rows(kBackward, "grad_c", grad_c, gates, width);
  check_rows(kBackward, "c", c, gates, width);
  const auto children = static_cast<int64_t>(cells.size());
  return {at::empty_symint(gates.sym_sizes(), gates.options()),
          at::empty_symint({gates.sym_size(0), children, width}, gates.options())};
}

void forward_into_meta(const at::Tensor& gates, at::TensorList cells, at::IntArrayRef places,
                       at::Tensor&, at::Tensor&) {
  check(kForward, gates, cells, places);
}

at::Tensor backward_into_meta(const at::Tensor& grad_h, const at::Tensor& grad_c,
                              const at::Tensor& gates, at::TensorList cells, const at::Tensor& c,
                              at::IntArrayRef places, at::Tensor&) {
  return std::get<1>(backward_meta(grad_h, grad_c, gates, cells, c, places));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def("tree_lstm(Tensor gates, Tensor[] cells, int[] places) -> (Tensor h, Tensor c)");
  m.def(
      "tree_lstm_backward(Tensor grad_h, Tensor grad_c, Tensor gates, Tensor[] cells, Tensor c, "
      "int[] places) -> (Tensor grad_gates, Tensor grad_cells)");
  m.def(
      "tree_lstm_into(Tensor gates, Tensor[] cells, int[] places, Tensor(a!) h, Tensor(b!) c) -> "
      "()");
  m.def(
      "tree_lstm_backward_into(Tensor grad_h, Tensor grad_c, Tensor gates, Tensor[] cells, "
      "Tensor c, int[] places, Tensor(a!) grad_gates) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) {
  m.impl("tree_lstm", forward);
  m.impl("tree_lstm_backward", backward);
  m.impl("tree_lstm_into", forward_into);
  m.impl("tree_lstm_backward_into", backward_into);
}

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("tree_lstm", forward_by_kernel);
  m.impl("tree_lstm_backward", backward_by_kernel);
  m.impl("tree_lstm_into", forward_into_by_kernel);
  m.impl("tree_lstm_backward_into", backward_into_by_kernel);
}

#ifdef SMEX_WITH_CUDA
TORCH_LIBRARY_IMPL(smex, CUDA, m) {
  m.impl("tree_lstm", forward_by_kernel);
  m.impl("tree_lstm_backward", backward_by_kernel);
  m.impl("tree_lstm_into", forward_into_by_kernel);
  m.impl("tree_lstm_backward_into", backward_into_by_kernel);
}
#endif

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("tree_lstm", forward_meta);
  m.impl("tree_lstm_backward", backward_meta);
  m.impl("tree_lstm_into", forward_into_meta);
  m.impl("tree_lstm_backward_into", backward_into_meta);
}

}  // namespace smex::kernels
