// smex::spmm and smex::spmm_extremum: messages along edges, reduced at their destinations, without
// storing a message.
#include "kernels/spmm/spmm.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <limits>

#include "kernels/cpu/large_pages.h"
#include "kernels/message/dispatch.h"
#include "kernels/message/gradients.h"
#include "kernels/message/operands.h"
#include "kernels/message/parallel.h"
#include "kernels/message/unfused.h"
#include "kernels/numbers.h"
#include "kernels/spmm/checks.h"
#include "kernels/spmm/partials.h"
#include "kernels/spmm/winner.h"

namespace smex::kernels {

Reduce reduce_of(const char* op, c10::string_view name, bool extremum) {
  if (extremum && name == "max") return Reduce::kMax;
  if (extremum && name == "min") return Reduce::kMin;
  if (!extremum && name == "sum") return Reduce::kSum;
  if (!extremum && name == "mean") return Reduce::kMean;
  TORCH_CHECK_VALUE(false, op, ": reduce is ", extremum ? "'max' or 'min'" : "'sum' or 'mean'",
                    ", found '", name, "'");
}

double empty_value(Reduce reduce, bool zero_empty) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return zero_empty ? 0 : reduce == Reduce::kMax ? -kInfinity : kInfinity;
}

void check_sums_at_root(const char* op, const Message& message, bool at_root) {
  TORCH_CHECK_VALUE(at_root || message->op != MessageOp::kSumLast, op,
                    ": max and min take dot and sum_last as the whole message only");
  if (message->a) check_sums_at_root(op, message->a, false);
  if (message->b) check_sums_at_root(op, message->b, false);
}

namespace {

constexpr const char* kSpmm = "smex::spmm";
constexpr const char* kExtremum = "smex::spmm_extremum";

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// ---- CPU ----

template <typename T, typename I>
void run_on_cpu(SpmmTask<T, I>& task, const at::TensorOptions& options) {
  const int64_t n = task.program->out_elements;
  task.num_pieces =
      num_pieces(task.rows.num_rows, task.rows.num_edges, std::max(n, task.program->elements));
  const Partials partials(task, options);
  const auto pieces = SMEX_PICK(spmm_pieces<T, I>);
  for_pieces(task.num_pieces, [&](int64_t begin, int64_t end) { pieces(task, begin, end); });
  if (task.num_pieces > 1) SMEX_PICK(spmm_finish<T, I>)(task);
}

/// Fills `out` and, where it is defined, `winner`.
void spmm_into(const EdgeTensors& edges, const Message& message, const Program& program,
               Reduce reduce, double empty, at::TensorList operands, const at::Tensor& out,
               const at::Tensor& winner) {
  if (!program.is_fused && out.numel() > 0) {
    const at::Tensor values = unfused_message(edges, message, operands);
    const Message copy = operand(Target::kEdge, 0);
    EdgeTensors positions = edges;
    positions.eids = at::Tensor();
    return spmm_into(positions, copy, compile_for(kSpmm, copy, {values}), reduce, empty, {values},
                     out, winner);
  }
  dispatch_types(kSpmm, out.scalar_type(), edges.indptr.scalar_type(), [&](auto feature, auto id) {
    using T = typename decltype(feature)::type;
    using I = typename decltype(id)::type;
    const DenseOperands<T> dense(operands);
    SpmmTask<T, I> task;
    task.rows = edges.rows<I>();
    task.program = &program;
    task.operands = dense.rows();
    task.reduce = reduce;
    narrow(static_cast<accumulate_t<T>>(empty), task.empty);
    task.out = mutable_data_of<T>(out);
    if (winner.defined()) task.winner = mutable_data_of<I>(winner);
    run_on_cpu(task, out.options());
  });
}

at::Tensor spmm_cpu(at::TensorList in_edges, at::TensorList out_edges, c10::string_view message,
                    c10::string_view reduce, at::TensorList operands) {
  const EdgeTensors edges(kSpmm, in_edges);
  const Message parsed = message_of(kSpmm, std::string(message));
  check_operands(kSpmm, parsed, in_edges, out_edges, operands);
  const Program program = compile_for(kSpmm, parsed, operands);
  std::vector<int64_t> shape = {edges.num_rows()};
  shape.insert(shape.end(), program.out_shape.begin(), program.out_shape.end());
  const at::Tensor out = empty_result(shape, operands[0].options());
  spmm_into(edges, parsed, program, reduce_of(kSpmm, reduce, false), 0, operands, out,
            at::Tensor());
  return out;
}

std::tuple<at::Tensor, at::Tensor> spmm_extremum_cpu(
    at::TensorList in_edges, at::TensorList out_edges, c10::string_view message,
    c10::string_view reduce, at::TensorList operands, bool zero_empty, bool need_winner) {
  const EdgeTensors edges(kExtremum, in_edges);
  const Message parsed = message_of(kExtremum, std::string(message));
  check_operands(kExtremum, parsed, in_edges, out_edges, operands);
  check_sums_at_root(kExtremum, parsed);
  const Program program = compile_for(kExtremum, parsed, operands);
  std::vector<int64_t> shape = {edges.num_rows()};
  shape.insert(shape.end(), program.out_shape.begin(), program.out_shape.end());
  const at::Tensor out = empty_result(shape, operands[0].options());
  const auto ids = edges.indptr.options();
  const at::Tensor winner = need_winner ? empty_result(shape, ids) : at::empty({0}, ids);
  const Reduce kind = reduce_of(kExtremum, reduce, true);
  spmm_into(edges, parsed, program, kind, empty_value(kind, zero_empty), operands, out,
            need_winner ? winner : at::Tensor());
  return {out, winner};
}

// ---- shapes only ----

at::SymDimVector out_shape(const char* op, at::TensorList in_edges, const Message& message,
                           at::TensorList operands) {
  at::SymDimVector shape = symbolic_shape(op, message, operands);
  shape.insert(shape.begin(), in_edges[0].sym_size(0) - 1);
  return shape;
}

at::Tensor spmm_meta(at::TensorList in_edges, at::TensorList out_edges, c10::string_view message,
                     c10::string_view reduce, at::TensorList operands) {
  reduce_of(kSpmm, reduce, false);
  const Message parsed = message_of(kSpmm, std::string(message));
  check_operands(kSpmm, parsed, in_edges, out_edges, operands);
  return at::empty_symint(out_shape(kSpmm, in_edges, parsed, operands), operands[0].options());
}

std::tuple<at::Tensor, at::Tensor> spmm_extremum_meta(
    at::TensorList in_edges, at::TensorList out_edges, c10::string_view message,
    c10::string_view reduce, at::TensorList operands, bool, bool need_winner) {
  reduce_of(kExtremum, reduce, true);
  const Message parsed = message_of(kExtremum, std::string(message));
  check_operands(kExtremum, parsed, in_edges, out_edges, operands);
  check_sums_at_root(kExtremum, parsed);
  const at::SymDimVector shape = out_shape(kExtremum, in_edges, parsed, operands);
  const auto ids = in_edges[0].options();
  return {at::empty_symint(shape, operands[0].options()),
          need_winner ? at::empty_symint(shape, ids) : at::empty({0}, ids)};
}

// ---- gradients ----

using SpmmType = at::Tensor(at::TensorList, at::TensorList, c10::string_view, c10::string_view,
                            at::TensorList);
using ExtremumType = std::tuple<at::Tensor, at::Tensor>(at::TensorList, at::TensorList,
                                                        c10::string_view, c10::string_view,
                                                        at::TensorList, bool, bool);

const auto& spmm_op() {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow(kSpmm, "").typed<SpmmType>();
  return op;
}

const auto& extremum_op() {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow(kExtremum, "").typed<ExtremumType>();
  return op;
}

class SpmmFunction : public torch::autograd::Function<SpmmFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, at::TensorList operands, at::TensorList in_edges,
                            at::TensorList out_edges, const std::string& message,
                            const std::string& reduce) {
    at::AutoDispatchBelowADInplaceOrView guard;
    save_call(ctx, kSpmm, message_of(kSpmm, message), operands, in_edges, out_edges,
              /*others=*/2, /*needs_out_edges=*/true);
    ctx->saved_data["mean"] = reduce == "mean";
    return spmm_op().call(in_edges, out_edges, message, reduce, operands);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const SavedMessage saved = saved_call(ctx);
    at::Tensor grad = grads[0];
    if (ctx->saved_data["mean"].toBool()) {
      // A degree may be more than a half can hold.
      const at::Tensor degrees =
          saved.in_edges[0].diff().clamp_min(1).to(sum_type(grad.scalar_type()));
      std::vector<c10::SymInt> shape(grad.dim(), 1);
      shape[0] = grad.sym_size(0);
      const at::Tensor divisor = degrees.view_symint(shape);
      if (is_source_copy(saved.message) && degrees.scalar_type() == grad.scalar_type())
        return input_gradients(ctx, saved,
                               [&](int) { return gradient_of_copied_mean(saved, grad, divisor); });
      grad = (grad / divisor).to(grad.scalar_type());
    }
    return input_gradients(
        ctx, saved, [&](int i) { return operand_gradient(saved, i, Target::kDestination, grad); });
  }

 private:
  static bool is_source_copy(const Message& message) {
    return message->op == MessageOp::kOperand && message->target == Target::kSource;
  }

  /// The division is part of the kernel: no gradient is stored for it.
  static at::Tensor gradient_of_copied_mean(const SavedMessage& saved, const at::Tensor& grad,
                                            const at::Tensor& divisor) {
    const Message back =
        call(MessageOp::kMul, operand(Target::kSource, 0), operand(Target::kSource, 1));
    return call_spmm(saved.out_edges, saved.in_edges, to_string(back), "sum",
                     {grad, divisor.reciprocal()});
  }
};

class ExtremumFunction : public torch::autograd::Function<ExtremumFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, at::TensorList operands,
                               at::TensorList in_edges, const std::string& message,
                               const std::string& reduce, bool zero_empty) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto [out, winner] = extremum_op().call(in_edges, {}, message, reduce, operands,
                                                  zero_empty, /*need_winner=*/true);
    save_call(ctx, kExtremum, message_of(kExtremum, message), operands, in_edges, {}, /*others=*/3,
              /*needs_out_edges=*/false, winner);
    ctx->saved_data["sources"] = num_sources(message_of(kExtremum, message), operands);
    return {out, winner};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const SavedMessage saved = saved_call(ctx);
    const c10::SymInt sources = ctx->saved_data["sources"].toSymInt();
    return input_gradients(ctx, saved, [&](int i) {
      return winner_gradient(saved, i, saved.extra, sources, grads[0]);
    });
  }

 private:
  // Rows of the operands that belong to sources; 0 where there is none.
  static c10::SymInt num_sources(const Message& message, at::TensorList operands) {
    for (const Message& read : operands_of(message))
      if (read->target == Target::kSource) return operands[read->operand].sym_size(0);
    return 0;
  }
};

at::Tensor spmm_autograd(at::TensorList in_edges, at::TensorList out_edges,
                         c10::string_view message, c10::string_view reduce,
                         at::TensorList operands) {
  refuse_tangents(kSpmm, operands);
  if (wants_gradient(operands))
    return SpmmFunction::apply(operands, in_edges, out_edges, std::string(message),
                               std::string(reduce));
  at::AutoDispatchBelowADInplaceOrView guard;
  return spmm_op().call(in_edges, out_edges, message, reduce, operands);
}

std::tuple<at::Tensor, at::Tensor> extremum_autograd(
    at::TensorList in_edges, at::TensorList out_edges, c10::string_view message,
    c10::string_view reduce, at::TensorList operands, bool zero_empty, bool need_winner) {
  refuse_tangents(kExtremum, operands);
  if (wants_gradient(operands)) {
    const variable_list result = ExtremumFunction::apply(operands, in_edges, std::string(message),
                                                         std::string(reduce), zero_empty);
    return {result[0], result[1]};
  }
  at::AutoDispatchBelowADInplaceOrView guard;
  return extremum_op().call(in_edges, out_edges, message, reduce, operands, zero_empty,
                            need_winner);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "spmm(Tensor[] in_edges, Tensor[] out_edges, str message, str reduce, Tensor[] operands) -> "
      "Tensor");
  m.def(
      "spmm_extremum(Tensor[] in_edges, Tensor[] out_edges, str message, str reduce, "
      "Tensor[] operands, bool zero_empty=False, bool need_winner=True) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("spmm", spmm_cpu);
  m.impl("spmm_extremum", spmm_extremum_cpu);
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("spmm", spmm_meta);
  m.impl("spmm_extremum", spmm_extremum_meta);
}

TORCH_LIBRARY_IMPL(smex, Autograd, m) {
  m.impl("spmm", spmm_autograd);
  m.impl("spmm_extremum", extremum_autograd);
}

}  // namespace smex::kernels
