#include "kernels/typed/pairs.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "edges/by_torch.h"

namespace smex::kernels {
namespace {

constexpr int64_t kEdgesOfRange = 1 << 16;

void check_edge(const TypedCall& call, int64_t eid, int64_t source, int64_t type, int64_t num_edges,
                int64_t num_types) {
  TORCH_CHECK_INDEX(eid >= 0 && eid < num_edges, call.op, ": expected numbers of edges below ",
                    num_edges, ", found ", eid);
  TORCH_CHECK_INDEX(source >= 0 && source < call.x.size(0), call.op, ": expected sources below ",
                    call.x.size(0), ", found ", source);
  TORCH_CHECK_INDEX(type >= 0 && type < num_types, call.op, ": expected types below ", num_types,
                    ", found ", type);
}

template <typename I>
TypedPairs pairs_on_cpu(const TypedCall& call, const EdgeTensors& tensors, int64_t num_types,
                        int64_t first_row, int64_t last_row) {
  const EdgeRows<I> edges = tensors.rows<I>();
  for (int64_t row = first_row; row < last_row; ++row)
    check_indptr(call.op, edges.is_valid(row), edges.num_edges);
  const at::Tensor types = call.types.contiguous();
  const int64_t* const type_of = types.const_data_ptr<int64_t>();
  const int64_t first = edges.begin(first_row), count = edges.begin(last_row) - first;

  // How many edges and pairs each type has. Which type comes next is as good as random: no branch.
  std::vector<int32_t> type_at(count);
  std::vector<int64_t> next_edge(num_types + 1, 0), next_pair(num_types + 1, 0);
  std::vector<int64_t> last(num_types, -1);  // by type the row that it was seen in
  std::vector<int64_t> pairs_of_row(last_row - first_row + 1, 0);
  for (int64_t row = first_row; row < last_row; ++row) {
    int64_t pairs = 0;
    for (int64_t place = edges.begin(row); place < edges.end(row); ++place) {
      const I eid = edges.eid(place);
      const bool exists = eid >= 0 && eid < edges.num_edges;
      const int64_t type = exists ? type_of[eid] : -1;
      const I source = edges.indices[place];
      if (type < 0 || type >= num_types || source < 0 || source >= call.x.size(0))
        check_edge(call, eid, source, type, edges.num_edges, num_types);
      type_at[place - first] = static_cast<int32_t>(type);
      const bool is_new = last[type] != row;
      last[type] = row;
      ++next_edge[type + 1];
      next_pair[type + 1] += is_new;
      pairs += is_new;
    }
    pairs_of_row[row - first_row + 1] = pairs_of_row[row - first_row] + pairs;
  }
  TypedPairs made;
  made.pairs_by_type.assign(next_pair.begin() + 1, next_pair.end());
  for (int64_t type = 0; type < num_types; ++type) {
    next_edge[type + 1] += next_edge[type];
    next_pair[type + 1] += next_pair[type];
  }

  const int64_t size = next_pair[num_types];
  made.begin = empty_ids(size + 1, tensors.indptr);
  made.sources = empty_ids(count, tensors.indptr);
  made.eids = empty_ids(count, tensors.indptr);
  made.rows = at::empty({size}, types.options());
  made.row_begin = empty_ids(last_row - first_row + 1, tensors.indptr);
  made.of_rows = empty_ids(size, tensors.indptr);
  I* const begin = made.begin.mutable_data_ptr<I>();
  I* const sources = made.sources.mutable_data_ptr<I>();
  I* const eids = made.eids.mutable_data_ptr<I>();
  int64_t* const rows = made.rows.mutable_data_ptr<int64_t>();
  I* const of_rows = made.of_rows.mutable_data_ptr<I>();
  std::copy(pairs_of_row.begin(), pairs_of_row.end(), made.row_begin.mutable_data_ptr<I>());
  begin[size] = static_cast<I>(count);
  std::fill(last.begin(), last.end(), -1);
  for (int64_t row = first_row; row < last_row; ++row) {
    int64_t own = pairs_of_row[row - first_row];
    for (int64_t place = edges.begin(row); place < edges.end(row); ++place) {
      const int64_t type = type_at[place - first];
      const int64_t at = next_edge[type]++;
      if (last[type] != row) {
        last[type] = row;
        const int64_t pair = next_pair[type]++;
        begin[pair] = static_cast<I>(at);
        rows[pair] = row;
        of_rows[own++] = static_cast<I>(pair);
      }
      sources[at] = edges.indices[place];
      eids[at] = edges.eid(place);
    }
  }
  return made;
}

at::Tensor with_zero(const at::Tensor& ends) {
  return at::cat({at::zeros({1}, ends.options()), ends});
}

TypedPairs pairs_by_torch(const TypedCall& call, const EdgeTensors& edges, int64_t num_types) {
  const at::ScalarType ids = edges.indptr.scalar_type();
  const int64_t count = edges.num_edges(), num_rows = edges.num_rows();
  const at::Tensor numbers = eids_at(edges, at::arange(count, call.types.options())).to(at::kLong);
  const at::Tensor row = rows_of_positions(edges).to(at::kLong);
  const at::Tensor key = call.types.index_select(0, numbers) * num_rows + row;
  const auto [sorted, order] = key.sort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
  const auto [keys, inverse, edges_of] =
      at::unique_consecutive(sorted, /*return_inverse=*/false, /*return_counts=*/true);
  TypedPairs made;
  made.begin = with_zero(edges_of.cumsum(0)).to(ids);
  made.sources = edges.indices.index_select(0, order);
  made.eids = numbers.index_select(0, order).to(ids);
  made.rows = keys.remainder(std::max<int64_t>(num_rows, 1));
  const auto [own_rows, own] = made.rows.sort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
  made.of_rows = own.to(ids);
  made.row_begin =
      at::searchsorted(own_rows, at::arange(num_rows + 1, call.types.options())).to(ids);
  const at::Tensor firsts = at::arange(num_types + 1, call.types.options()) * num_rows;
  const at::Tensor by_type = at::searchsorted(keys, firsts).diff().cpu();
  made.pairs_by_type.assign(by_type.const_data_ptr<int64_t>(),
                            by_type.const_data_ptr<int64_t>() + by_type.numel());
  int64_t known = 0;
  for (const int64_t pairs : made.pairs_by_type) known += pairs;
  TORCH_CHECK_INDEX(known == made.size(), call.op, ": expected types below ", num_types,
                    ", found others");
  return made;
}

}  // namespace

std::vector<int64_t> row_ranges(const EdgeTensors& edges, int64_t num_types) {
  if (!edges.indptr.is_cpu()) return {0, edges.num_rows()};
  const int64_t size = std::max(kEdgesOfRange, 64 * num_types);  // each range visits all types
  return dispatch_index(edges.indptr, [&]<typename I>(I) {
    const EdgeRows<I> rows = edges.rows<I>();
    std::vector<int64_t> ends = {0};
    while (ends.back() < rows.num_rows) {
      const int64_t upto = rows.begin(ends.back()) + size;
      const I* const end =
          std::upper_bound(rows.indptr + ends.back() + 1, rows.indptr + rows.num_rows + 1, upto);
      ends.push_back(std::clamp<int64_t>(end - rows.indptr - 1, ends.back() + 1, rows.num_rows));
    }
    return ends;
  });
}

TypedPairs typed_pairs(const TypedCall& call, const EdgeTensors& edges, int64_t num_types,
                       int64_t first, int64_t last) {
  if (!edges.indptr.is_cpu()) return pairs_by_torch(call, edges, num_types);
  return dispatch_index(edges.indptr, [&]<typename I>(I) {
    return pairs_on_cpu<I>(call, edges, num_types, first, last);
  });
}

}  // namespace smex::kernels
