#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/region.h"
#include "tdl/table.h"

namespace smex::tdl {

/// An index of a Spec's iteration space, with its extent for this operator call.
struct Index {
  std::string name;
  int64_t extent = 0;
  bool whole = false;  ///< never divided: a kernel window, a dimension the kernel must see entirely
};

enum class ReduceKind {
  kSum,
  kMax,
  kMin,
  kProd,
  kLogSumExp,    ///< log Σ exp(x)
  kSoftmaxMean,  ///< Σ exp(s) x / Σ exp(s) of values x and scores s: args[0] and args[1]
};

enum class ExprKind {
  kConst,  ///< value
  kIndex,  ///< index: used as an index, or as a number
  kRead,   ///< input[args…]; out of range reads give `pad` when it is set, otherwise are an error
  kCall,   ///< name(args…): a scalar function, "add", "exp", "where", "floordiv", "mod", "lt" …
           ///< "like"(value, read) is value; the read's shape matters to the kernel, not its
  ///< content. "lands"(index, position) is equality; as the condition of a "where" it tells
  ///< which windows reach a tile of the index. "told"(index) is the index as a number that the
  ///< kernel learns where its tile begins: by a LocalRule
  kReduce,  ///< reduce over `bound` of args[0]; of kSoftmaxMean with the weights of args[1]
  kOpaque,  ///< name(args…): reads whose kWhole dimensions are whole; unknown inside
  kWhole,   ///< ":" as an index of a Read inside kOpaque
};

struct Expr;
using ExprPtr = std::shared_ptr<const Expr>;

/// A node of a tensor-as-lambda expression (Tofu §4). Immutable, shared.
struct Expr {
  ExprKind kind = ExprKind::kConst;
  double value = 0;
  int index = -1;  ///< kIndex: position in Spec::indices
  int input = -1;  ///< kRead: position among the op's tensor operands (Op::inputs)
  std::string name;
  ReduceKind reduce = ReduceKind::kSum;
  std::vector<int> bound;  ///< kReduce: positions in Spec::indices
  std::vector<ExprPtr> args;
  std::optional<double> pad;  ///< kRead
};

/// One output: `output[i, j] = body`.
struct Statement {
  std::vector<int> axes;  ///< the index of each output dimension, positions in Spec::indices
  ExprPtr body;  ///< null: the output is not used, and does not restrict how the op is split
};

/// What an operator call means: one statement per output; equal names are equal indices across
/// outputs.
struct Spec {
  std::vector<Index> indices;
  std::vector<Shape> input_shapes;
  std::vector<Statement> outputs;
  /// By input what is known of its content; null, or none at all, where nothing is.
  std::vector<std::shared_ptr<const Table>> tables = {};

  const Table* table(int input) const {
    return static_cast<size_t>(input) < tables.size() ? tables[input].get() : nullptr;
  }
  std::string str() const;  ///< `([i,k],[k,j]) -> [i,j]  sum{k}`
};

/// The range of every index of a spec: what one worker computes of an op.
using IndexRanges = std::vector<Interval>;

/// What one input must provide for a tile.
struct InputNeed {
  bool used = false;  ///< false: only its shape matters; any tensor of `region`'s shape will do
  Region region;      ///< clamped to the input's shape; the whole input when nothing reads it
  Region unclamped;   ///< what padded reads would touch; equals region without padding
};

/// Interval analysis (Tofu §4.2): the region of each input read when the indices run over `ranges`.
/// Exact for affine indices and aligned div/mod; where a table tells the index, the numbers that
/// the table has at its places, as a list of one dimension; otherwise the whole dimension. Never
/// too small.
std::vector<InputNeed> input_needs(const Spec& spec, const IndexRanges& ranges);

/// The ranges with the places of rows among them (see "in_row") narrowed to those of the rows, and
/// the rows, where they are no dimension of an output, to those that have the places.
IndexRanges with_rows(const Spec& spec, IndexRanges ranges);

/// An index whose range is narrowed by that of another one.
struct RowPlaces {
  int place = -1, row = -1;
  const Table* bounds = nullptr;
  bool rows_follow = false;  ///< the rows are no dimension of an output

  /// Of those of `rows` the ones from the first to the last that has some of the places.
  Interval rows_of(const Interval& rows, const Interval& places) const;
  Interval of(const Interval& rows) const {
    return {(*bounds)[rows.lo], rows.empty() ? (*bounds)[rows.lo] : (*bounds)[rows.hi]};
  }
};

/// The places of rows whose bounds are known.
std::vector<RowPlaces> row_places(const Spec& spec);

/// Whether a compressed matrix has rows of its own in it ("in_row").
bool has_rows(const Spec& spec);

/// The inputs that are read as indices of others or as bounds of rows, and nowhere as numbers:
/// their content may be made a table.
std::vector<int> table_inputs(const Spec& spec);

/// Whether all numbers of a table are indices of what it is an index of, or bounds of rows.
bool fits(const Spec& spec, int input, const Table& table);

/// What decides a dimension of an input's need.
struct NeedSource {
  /// Those whose ranges, as `with_rows` narrows them, input_needs reads for it, ascending.
  std::vector<int> indices;
  bool plain = false;  ///< the need is the range of the one index
};

/// By input and dimension of it.
std::vector<std::vector<NeedSource>> need_sources(const Spec& spec);

/// The region of output `output` that the ranges compute.
Region output_region(const Spec& spec, int output, const IndexRanges& ranges);

/// By output dimension the range that the windows at the places of `input_needs` cover: what a
/// kernel of transposed windows computes without padding, of which the output region is a part.
/// Nothing for a dimension that no "lands" names.
std::vector<std::optional<Interval>> landings(const Spec& spec, int output,
                                              const IndexRanges& ranges);

/// Whether an output element is found by where windows land (a transposed convolution).
bool has_landings(const Spec& spec);

/// Scalar operations (a multiplication and an addition are two) that the outputs take when the
/// indices have these extents. What an opaque function does inside is not known and not counted.
double arithmetic(const Spec& spec, const std::vector<int64_t>& extents);

/// Bytes of the cache lines that rows take which a table names one by one, as a graph's edges do
/// their sources, when the indices have these extents; by input its bytes of a number.
double gathered_bytes(const Spec& spec, const std::vector<int64_t>& extents,
                      const std::vector<int>& itemsizes);

/// All indices at full extent.
IndexRanges full_ranges(const Spec& spec);

/// How an op may be divided along one index.
struct Split {
  int index = -1;
  int64_t granule = 1;  ///< cuts must be multiples of this (div/mod alignment)
  /// By output: how its partial results are reduced; nothing where workers make tiles of it, or
  /// where each makes the whole of it.
  std::vector<std::optional<ReduceKind>> reduces;
  bool any_reduces() const;
};

/// The splits under which running the same kernel on the needed regions gives exactly the tile
/// (Tofu §4.2, case 1 and 2): an output index that is never used as a number, whose reads agree on
/// what they need; a reduction index of an outermost reduction, which for a weighted mean needs the
/// sum of its weights among the outputs. It may be the one for some outputs
/// and the other for others; an output that has nothing of it is made whole by every worker.
std::vector<Split> derive_splits(const Spec& spec);

/// The sets of inputs, as bits, in which every output is linear: there the sum of the inputs,
/// element by element, gives the sum of the outputs. Addition is so in both inputs together, a
/// product in either.
std::vector<uint64_t> linear_sets(const Spec& spec);

/// By output that is a softmax-weighted mean, the output that is the logarithm of the sum of its
/// weights, element by element of its first dimensions; -1 elsewhere. Means of parts merge by these
/// sums: each times its share of the sum of all adds up to the mean of all, and so in any order, as
/// in ring attention (Liu et al., 2023) and flash decoding.
std::vector<int> weight_sums(const Spec& spec);

/// By output that is a sum divided by a number, a mean: the number, which is taken away. A kernel
/// that is given a part of the tensors divides by a number of its own.
std::vector<std::optional<double>> take_divisors(Spec& spec);

}  // namespace smex::tdl
