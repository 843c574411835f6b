// By the operators that store numbers for every edge.
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include <string>

#include "kernels/gat/operator.h"
#include "kernels/message/dispatch.h"
#include "kernels/message/gradients.h"
#include "kernels/spmm/operator.h"

namespace smex::kernels {
namespace {

// leaky_relu(left + right), or with another name its slope; `of_left` and `of_right` are operands
// such as "u0".
std::string of_sum(const char* name, const std::string& of_left, const std::string& of_right,
                   double slope) {
  return std::string(name) + "(" + of_left + " + " + of_right + ", " + to_string(constant(slope)) +
         ")";
}

Two gat(at::TensorList in_edges, at::TensorList, const at::Tensor& left, const at::Tensor& right,
        const at::Tensor& value, double slope) {
  check_gat(in_edges, left, right, value);
  const at::Tensor score = call_sddmm(in_edges, {}, of_sum("leaky_relu", "u0", "v1", slope),
                                      {left, right}, std::nullopt);
  const at::Tensor top = std::get<0>(call_extremum(in_edges, {}, "e0", "max", {score},
                                                   /*zero_empty=*/true, /*need_winner=*/false));
  const at::Tensor weight = call_sddmm(in_edges, {}, "exp(e0 - v1)", {score, top}, std::nullopt);
  const at::Tensor total = call_spmm(in_edges, {}, "e0", "sum", {weight});
  const at::Tensor sum = call_spmm(in_edges, {}, "u0 * e1", "sum", {value, weight.unsqueeze(-1)});
  // The greatest of a row weighs 1: less than that only rows without edges have.
  return {sum / total.clamp_min(1).unsqueeze(-1),
          (total.log() + top).to(sum_type(value.scalar_type()))};
}

// What belongs to the edges of a structure: weights, and the gradients of left + right.
struct OfEdges {
  at::Tensor share, of_score;
};

// `source` and `destination` are the letters of the ends: "u" and "v" of edges by destination.
OfEdges of_edges(at::TensorList edges, const std::string& source, const std::string& destination,
                 const at::Tensor& left, const at::Tensor& right, const at::Tensor& value,
                 const at::Tensor& log_sum, const at::Tensor& change, const at::Tensor& grad,
                 double slope) {
  const auto type = value.scalar_type();
  const std::string score = of_sum("leaky_relu", source + "0", destination + "1", slope);
  const at::Tensor share = call_sddmm(edges, {}, "exp(" + score + " - " + destination + "2)",
                                      {left, right, log_sum.to(type)}, std::nullopt);
  const at::Tensor product = call_sddmm(
      edges, {}, "sum_last(" + source + "0 * " + destination + "1)", {value, grad}, std::nullopt);
  const std::string step = of_sum("leaky_step", source + "3", destination + "4", slope);
  return {share,
          call_sddmm(edges, {}, "e0 * (e1 - " + destination + "2) * " + step,
                     {share, product.squeeze(-1), change.to(type), left, right}, std::nullopt)};
}

Two gat_by_source(at::TensorList out_edges, const at::Tensor& left, const at::Tensor& right,
                  const at::Tensor& value, const at::Tensor& log_sum, const at::Tensor& change,
                  const at::Tensor& grad, double slope) {
  check_gat_part(kGatBySource, out_edges, left, right, value, log_sum, change, grad);
  const OfEdges of =
      of_edges(out_edges, "v", "u", left, right, value, log_sum, change, grad, slope);
  return {call_spmm(out_edges, {}, "e0", "sum", {of.of_score}),
          call_spmm(out_edges, {}, "u0 * e1", "sum", {grad, of.share.unsqueeze(-1)})};
}

at::Tensor gat_by_destination(at::TensorList in_edges, const at::Tensor& left,
                              const at::Tensor& right, const at::Tensor& value,
                              const at::Tensor& log_sum, const at::Tensor& change,
                              const at::Tensor& grad, double slope) {
  check_gat_part(kGatByDestination, in_edges, left, right, value, log_sum, change, grad);
  const OfEdges of = of_edges(in_edges, "u", "v", left, right, value, log_sum, change, grad, slope);
  return call_spmm(in_edges, {}, "e0", "sum", {of.of_score});
}

Three gat_backward(at::TensorList in_edges, at::TensorList out_edges, const at::Tensor& left,
                   const at::Tensor& right, const at::Tensor& value, const at::Tensor& out,
                   const at::Tensor& log_sum, const at::Tensor& grad, double slope) {
  check_gat(in_edges, left, right, value);
  const at::Tensor change = (out * grad).sum(-1);
  const auto [of_left, of_value] =
      gat_by_source(out_edges, left, right, value, log_sum, change, grad, slope);
  return {of_left, gat_by_destination(in_edges, left, right, value, log_sum, change, grad, slope),
          of_value};
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) {
  m.impl("gat_attention", gat);
  m.impl("gat_attention_backward", gat_backward);
  m.impl("gat_gradient_by_source", gat_by_source);
  m.impl("gat_gradient_by_destination", gat_by_destination);
}

}  // namespace smex::kernels
