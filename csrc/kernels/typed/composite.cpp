// For any device: sums of rows along the edges of each pair of row and type, a matrix product for
// each type, and sums over the pairs of each row.
#include <ATen/Functions.h>
#include <torch/library.h>

#include "kernels/message/gradients.h"
#include "kernels/typed/operator.h"
#include "kernels/typed/pairs.h"

namespace smex::kernels {
namespace {

/// Calls `body(type, first pair, pairs)` for the types that there are.
template <typename Body>
void for_types(const TypedPairs& pairs, const Body& body) {
  int64_t begin = 0, type = 0;
  for (const int64_t count : pairs.pairs_by_type) {
    if (count > 0) body(type, begin, count);
    begin += count;
    ++type;
  }
}

/// For each pair the sum of its sources' rows times factors.
at::Tensor sums_of_sources(const TypedPairs& pairs, const TypedCall& call) {
  if (!call.factor.defined())
    return call_spmm({pairs.begin, pairs.sources}, {}, "u0", "sum", {call.x});
  return call_spmm({pairs.begin, pairs.sources, pairs.eids}, {}, "u0 * e1", "sum",
                   {call.x, call.factor.unsqueeze(-1)});
}

/// Each pair's row `[pairs, blocks, k]` times the matrices of its type `[types, blocks, k, n]`.
at::Tensor multiplied(const TypedPairs& pairs, const at::Tensor& rows, const at::Tensor& weight) {
  at::Tensor out = at::empty({pairs.size(), weight.size(1), weight.size(3)}, rows.options());
  for_types(pairs, [&](int64_t type, int64_t begin, int64_t count) {
    const at::Tensor from = rows.narrow(0, begin, count), matrices = weight.select(0, type);
    at::Tensor to = out.narrow(0, begin, count);
    for (int64_t block = 0; block < weight.size(1); ++block) {
      at::Tensor product = to.select(1, block);
      at::mm_out(product, from.select(1, block), matrices.select(0, block));
    }
  });
  return out;
}

/// Calls `body(pairs, first row, rows)` range by range.
template <typename Body>
void for_ranges(const TypedCall& call, int64_t num_types, const Body& body) {
  check_typed(call);
  const EdgeTensors edges(call.in_edges);
  const std::vector<int64_t> ends = row_ranges(edges, num_types);
  for (size_t range = 0; range + 1 < ends.size(); ++range) {
    const TypedPairs pairs = typed_pairs(call, edges, num_types, ends[range], ends[range + 1]);
    body(pairs, ends[range], ends[range + 1] - ends[range]);
  }
}

at::Tensor typed_spmm(at::TensorList in_edges, at::TensorList, const at::Tensor& x,
                      const at::Tensor& weight, const at::Tensor& types, const Factor& factor) {
  const TypedCall call{kTypedSpmm, in_edges, x, weight, {}, types, factor.value_or(at::Tensor())};
  std::vector<at::Tensor> parts;
  for_ranges(call, weight.size(0), [&](const TypedPairs& pairs, int64_t, int64_t) {
    const at::Tensor products = multiplied(pairs, sums_of_sources(pairs, call), weight);
    parts.push_back(call_spmm({pairs.row_begin, pairs.of_rows}, {}, "u0", "sum", {products}));
  });
  if (parts.empty()) return at::zeros({0, x.size(1), weight.size(3)}, x.options());
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

at::Tensor typed_sddmm(at::TensorList in_edges, at::TensorList, const at::Tensor& x,
                       const at::Tensor& weight, const at::Tensor& y, const at::Tensor& types) {
  const TypedCall call{kTypedSddmm, in_edges, x, weight, y, types, {}};
  at::Tensor out = at::zeros({types.size(0), x.size(1)}, x.options());
  const at::Tensor back = weight.transpose(2, 3);
  for_ranges(call, weight.size(0), [&](const TypedPairs& pairs, int64_t, int64_t) {
    const at::Tensor rows = multiplied(pairs, y.index_select(0, pairs.rows), back);
    const at::Tensor dots =
        call_sddmm({pairs.begin, pairs.sources}, {}, "sum_last(u0 * v1)", {x, rows}, std::nullopt);
    out.index_copy_(0, pairs.eids.to(at::kLong), dots.squeeze(-1));
  });
  return out;
}

at::Tensor typed_outer(at::TensorList in_edges, at::TensorList, const at::Tensor& x,
                       const at::Tensor& y, const at::Tensor& types, const Factor& factor,
                       int64_t num_types) {
  const TypedCall call{kTypedOuter, in_edges, x, {}, y, types, factor.value_or(at::Tensor())};
  at::Tensor out = at::zeros({num_types, x.size(1), x.size(2), y.size(2)}, x.options());
  for_ranges(call, num_types, [&](const TypedPairs& pairs, int64_t, int64_t) {
    const at::Tensor a = sums_of_sources(pairs, call), b = y.index_select(0, pairs.rows);
    for_types(pairs, [&](int64_t type, int64_t begin, int64_t count) {
      const at::Tensor sums = out.select(0, type);
      for (int64_t block = 0; block < x.size(1); ++block) {
        at::Tensor sum = sums.select(0, block);
        sum.addmm_(a.narrow(0, begin, count).select(1, block).t(),
                   b.narrow(0, begin, count).select(1, block));
      }
    });
  });
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) {
  m.impl("typed_spmm", typed_spmm);
  m.impl("typed_sddmm", typed_sddmm);
  m.impl("typed_outer", typed_outer);
}

}  // namespace smex::kernels
