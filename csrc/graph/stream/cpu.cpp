#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "edges/parallel.h"
#include "edges/tensors.h"
#include "graph/stream/stream.h"

namespace smex::graph {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

constexpr const char* kAddCounts = "smex::add_counts_";
constexpr const char* kAssign = "smex::assign_stream_";
constexpr const char* kBucket = "smex::bucket_edges";
constexpr const char* kOrder = "smex::order_bucket";
constexpr const char* kParse = "smex::parse_numbers";

void check_vector(const char* op, const char* name, const at::Tensor& vector, at::ScalarType type,
                  int64_t size) {
  TORCH_CHECK_VALUE(vector.scalar_type() == type && vector.dim() == 1 && vector.is_contiguous() &&
                        (size < 0 || vector.size(0) == size),
                    op, ": ", name, " must be a contiguous vector of ", type, ", of ", size,
                    " numbers where that is not negative, found ", vector.scalar_type(),
                    " of shape ", vector.sizes());
}

int64_t add_counts_on_cpu(const at::Tensor& counts, const at::Tensor& ids) {
  check_vector(kAddCounts, "counts", counts, at::kLong, -1);
  check_ids(kAddCounts, "ids", ids, ids);
  const at::Tensor dense = ids.contiguous();
  return dispatch_index(ids, [&]<typename Index>(Index) {
    return add_counts(dense.const_data_ptr<Index>(), dense.size(0), counts.size(0),
                      counts.mutable_data_ptr<int64_t>());
  });
}

Three bucket_on_cpu(const at::Tensor& rows, const at::Tensor& columns,
                    const OptionalTensor& new_rows, const OptionalTensor& new_columns,
                    int64_t num_rows, int64_t num_columns, const at::Tensor& bounds,
                    int64_t first_id) {
  check_ids(kBucket, "rows", rows, rows);
  check_ids(kBucket, "columns", columns, rows);
  const int64_t size = rows.size(0);
  TORCH_CHECK_VALUE(columns.size(0) == size, kBucket, ": rows and columns must have one length");
  check_vector(kBucket, "bounds", bounds, at::kLong, -1);
  if (new_rows) check_vector(kBucket, "new_rows", *new_rows, at::kLong, num_rows);
  if (new_columns) check_vector(kBucket, "new_columns", *new_columns, at::kLong, num_columns);
  const auto* const bound = bounds.const_data_ptr<int64_t>();
  const std::vector<int64_t> all(bound, bound + bounds.size(0));
  TORCH_CHECK_VALUE(all.size() >= 2 && all.front() == 0 && all.back() == num_rows, kBucket,
                    ": bounds must go from 0 to ", num_rows);
  TORCH_CHECK_VALUE(num_columns <= EdgeRecord::kMaxColumns, kBucket, ": at most ",
                    EdgeRecord::kMaxColumns, " columns, found ", num_columns);
  for (size_t b = 0; b + 1 < all.size(); ++b) {
    const int64_t extent = all[b + 1] - all[b];
    TORCH_CHECK_VALUE(extent >= 0 && extent <= EdgeRecord::kMaxBucketRows, kBucket, ": bucket ", b,
                      " must have 0 to ", EdgeRecord::kMaxBucketRows, " rows, found ", extent);
  }
  const auto options = at::TensorOptions(at::kLong);
  const Three result{at::empty({size, 2}, options), at::empty({size}, options),
                     at::empty({bounds.size(0) - 1}, options)};
  const at::Tensor from = rows.contiguous(), to = columns.contiguous();
  dispatch_index(rows, [&]<typename Index>(Index) {
    const EdgeBlock<Index> block{from.const_data_ptr<Index>(),
                                 to.const_data_ptr<Index>(),
                                 size,
                                 num_rows,
                                 num_columns,
                                 new_rows ? new_rows->const_data_ptr<int64_t>() : nullptr,
                                 new_columns ? new_columns->const_data_ptr<int64_t>() : nullptr,
                                 first_id};
    const int64_t invalid =
        bucket_edges(block, all, static_cast<EdgeRecord*>(std::get<0>(result).mutable_data_ptr()),
                     std::get<1>(result).mutable_data_ptr<int64_t>(),
                     std::get<2>(result).mutable_data_ptr<int64_t>(), torch_workers());
    TORCH_CHECK_VALUE(invalid < 0, kBucket, ": edge ", first_id + invalid, " joins row ",
                      block.rows[invalid], " and column ", block.columns[invalid], ", expected ",
                      num_rows, " rows and ", num_columns, " columns");
  });
  return result;
}

Three order_on_cpu(const at::Tensor& records, const at::Tensor& indptr, bool with_order) {
  TORCH_CHECK_VALUE(records.scalar_type() == at::kLong && records.dim() == 2 &&
                        records.size(1) == 2 && records.is_contiguous(),
                    kOrder, ": records must be int64 [n, 2], found ", records.scalar_type(),
                    " of shape ", records.sizes());
  check_vector(kOrder, "indptr", indptr, at::kLong, -1);
  const int64_t count = records.size(0), num_rows = indptr.size(0) - 1;
  const auto* const starts = indptr.const_data_ptr<int64_t>();
  TORCH_CHECK_VALUE(num_rows >= 0 && starts[num_rows] - starts[0] == count, kOrder,
                    ": indptr must bound ", count, " records");
  const Three result{at::empty({count}, records.options()), at::empty({count}, records.options()),
                     at::empty({with_order ? count : 0}, records.options())};
  const int64_t invalid =
      order_bucket(static_cast<const EdgeRecord*>(records.const_data_ptr()), count, starts,
                   num_rows, std::get<0>(result).mutable_data_ptr<int64_t>(),
                   std::get<1>(result).mutable_data_ptr<int64_t>(),
                   with_order ? std::get<2>(result).mutable_data_ptr<int64_t>() : nullptr);
  TORCH_CHECK_VALUE(invalid < 0, kOrder, ": record ", invalid,
                    " is of a row that has no place for it");
  return result;
}

int64_t assign_on_cpu(const at::Tensor& parts, const at::Tensor& loads, const at::Tensor& indptr,
                      const at::Tensor& neighbors, int64_t first, const OptionalTensor& kinds,
                      const at::Tensor& capacities, std::string_view method, double alpha,
                      bool weighs_edges) {
  check_vector(kAssign, "parts", parts, at::kInt, -1);
  check_vector(kAssign, "indptr", indptr, at::kLong, -1);
  check_vector(kAssign, "capacities", capacities, at::kLong, loads.size(0));
  check_ids(kAssign, "neighbors", neighbors, neighbors);
  if (kinds) check_vector(kAssign, "kinds", *kinds, at::kInt, parts.size(0));
  TORCH_CHECK_VALUE(loads.scalar_type() == at::kLong && loads.dim() == 2 && loads.is_contiguous(),
                    kAssign, ": loads must be int64 [kinds, parts], found ", loads.sizes());
  TORCH_CHECK_VALUE(method == "ldg" || method == "fennel", kAssign,
                    ": method must be ldg or fennel, found ", method);
  const int64_t num_nodes = indptr.size(0) - 1;
  const auto* const starts = indptr.const_data_ptr<int64_t>();
  TORCH_CHECK_VALUE(num_nodes >= 0 && first >= 0 && first + num_nodes <= parts.size(0) &&
                        starts[num_nodes] - starts[0] == neighbors.size(0),
                    kAssign, ": indptr must bound ", neighbors.size(0), " neighbors of nodes from ",
                    first, " on, below ", parts.size(0));
  const StreamRule rule{method == "ldg",
                        alpha,
                        weighs_edges,
                        loads.size(1),
                        kinds ? kinds->const_data_ptr<int32_t>() : nullptr,
                        capacities.const_data_ptr<int64_t>()};
  const at::Tensor dense = neighbors.contiguous();
  return dispatch_index(neighbors, [&]<typename Index>(Index) {
    return assign_stream(starts, dense.const_data_ptr<Index>(), first, num_nodes, rule,
                         parts.mutable_data_ptr<int32_t>(), loads.mutable_data_ptr<int64_t>());
  });
}

std::tuple<at::Tensor, int64_t> parse_on_cpu(const at::Tensor& text, int64_t columns,
                                             std::string_view delimiter) {
  check_vector(kParse, "text", text, at::kByte, -1);
  TORCH_CHECK_VALUE(columns >= 1 && delimiter.size() == 1, kParse,
                    ": expected columns and a delimiter of one character");
  // The shortest line has a digit and a character behind it for each column.
  const int64_t most = text.size(0) / (2 * columns) + 1;
  const at::Tensor numbers = at::empty({most, columns}, at::TensorOptions(at::kLong));
  const ParsedText found =
      parse_numbers(static_cast<const char*>(text.const_data_ptr()), text.size(0), delimiter[0],
                    columns, numbers.mutable_data_ptr<int64_t>());
  return {numbers.narrow(0, 0, found.num_lines), found.bad_place};
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("add_counts_", add_counts_on_cpu);
  m.impl("assign_stream_", assign_on_cpu);
  m.impl("bucket_edges", bucket_on_cpu);
  m.impl("order_bucket", order_on_cpu);
  m.impl("parse_numbers", parse_on_cpu);
}

}  // namespace smex::graph
