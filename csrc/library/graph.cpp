#include "smex/graph.h"

#include <ATen/ATen.h>

#include "kernels/operator_of.h"

namespace smex {
namespace {

using kernels::operator_of;
using OptionalTensor = std::optional<at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

OptionalTensor optional(const at::Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : std::nullopt;
}

/// As Python draws it.
int64_t draw_seed() {
  return at::randint(int64_t{1} << 62, {}, at::TensorOptions().dtype(at::kLong)).item<int64_t>();
}

}  // namespace

Graph::Graph(at::Tensor indptr, at::Tensor indices, at::Tensor eids)
    : indptr_(std::move(indptr)), indices_(std::move(indices)), eids_(std::move(eids)) {}

Graph Graph::from_edges(const at::Tensor& source, const at::Tensor& target, int64_t num_nodes) {
  static const auto compress =
      operator_of<Three(const at::Tensor&, const at::Tensor&, const OptionalTensor&, c10::SymInt,
                        c10::SymInt)>("smex::compress_edges");
  auto [indptr, indices, eids] = compress.call(target, source, std::nullopt, num_nodes, num_nodes);
  return Graph(std::move(indptr), std::move(indices), std::move(eids));
}

at::Tensor Graph::in_degrees() const { return indptr_.diff(); }

Block Graph::sample(const at::Tensor& nodes, int64_t fanout, const SampleOptions& options) const {
  static const auto draw = operator_of<Three(
      const at::Tensor&, const at::Tensor&, const OptionalTensor&, const at::Tensor&, int64_t, bool,
      const OptionalTensor&, const OptionalTensor&, int64_t)>("smex::sample_neighbors");
  static const auto relabel = operator_of<std::tuple<at::Tensor, std::vector<at::Tensor>>(
      at::TensorList, std::optional<int64_t>)>("smex::relabel_ids");
  const int64_t seed = options.seed ? *options.seed : draw_seed();
  Block block;
  at::Tensor sources;
  std::tie(block.indptr, sources, block.eids) =
      draw.call(indptr_, indices_, optional(eids_), nodes, fanout, options.replace,
                optional(options.weights), std::nullopt, seed);
  std::vector<at::Tensor> numbers;
  std::tie(block.nodes, numbers) = relabel.call({nodes, sources}, num_nodes());
  block.indices = numbers.at(1);
  return block;
}

std::vector<Block> Graph::sample_layers(const at::Tensor& nodes,
                                        const std::vector<int64_t>& fanouts,
                                        const SampleOptions& options) const {
  std::vector<Block> blocks(fanouts.size());
  SampleOptions of_layer = options;
  at::Tensor targets = nodes;
  for (size_t n = fanouts.size(); n-- > 0;) {
    blocks[n] = sample(targets, fanouts[n], of_layer);
    targets = blocks[n].nodes;
    if (of_layer.seed) ++*of_layer.seed;
  }
  return blocks;
}

}  // namespace smex
