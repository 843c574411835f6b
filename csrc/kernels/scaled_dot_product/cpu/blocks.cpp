// Attention block by block, in the manner of Dao et al., "FlashAttention-2" (2023): scores of some
// queries for some keys, their softmax relative to the largest so far, and the product with the
// values. The backward pass makes the weights again by the log-sum-exp of each query.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "kernels/scaled_dot_product/operator.h"
#include "kernels/scaled_dot_product/score_block.h"

namespace smex::kernels {
namespace {

// A block's scores, and their gradients, fit the second-level cache, and its products are large
// enough that calling them takes no time. Few queries take more keys at a time.
constexpr int64_t kBlockQueries = 128;
constexpr int64_t kBlockScores = kBlockQueries * 512;

/// A head of queries: that of keys and values, and its number among those that share it.
struct Head {
  int64_t n, g, m;
};

/// A tensor [N, G, M, rows, columns], along which those of size 1 are repeated.
template <typename C>
class Matrices {
 public:
  Matrices() = default;
  explicit Matrices(const at::Tensor& x) : x_(x), data_(static_cast<C*>(x.data_ptr())) {
    for (int d = 0; d < 5; ++d) strides_[d] = x.size(d) == 1 ? 0 : x.stride(d);
  }

  C* row(Head head, int64_t i) const {
    return data_ + head.n * strides_[0] + head.g * strides_[1] + head.m * strides_[2] +
           i * strides_[3];
  }
  at::Tensor rows(Head head, int64_t first, int64_t count) const {
    return at::from_blob(row(head, first), {count, x_.size(4)}, {x_.stride(3), 1},
                         at::TensorOptions().dtype(x_.dtype()));
  }
  int64_t size(int64_t dim) const { return x_.size(dim); }
  int64_t row_stride() const { return strides_[3]; }
  int64_t column_stride() const { return strides_[4]; }

 private:
  at::Tensor x_;
  C* data_ = nullptr;
  std::array<int64_t, 5> strides_{};
};

/// Adds a product to a matrix, or writes it there.
void multiply(at::Tensor out, bool add, const at::Tensor& a, const at::Tensor& b, double scale) {
  at::cpu::addmm_out(out, out, a, b, add ? 1 : 0, scale);
}

at::Tensor with_dense_rows(const at::Tensor& x, at::ScalarType type) {
  const at::Tensor made = x.to(type);
  return made.size(-1) == 1 || made.stride(-1) == 1 ? made : made.contiguous();
}

/// With the heads that share keys in a dimension of their own: queries, and what lies as they do.
at::Tensor of_queries(const at::Tensor& x, int64_t rank) { return rank == 4 ? x.unsqueeze(2) : x; }

at::Tensor of_mask(at::Tensor mask, int64_t rank) {
  while (mask.dim() < rank) mask = mask.unsqueeze(0);
  return of_queries(mask, rank);
}

/// Numbers that a thread works on.
template <typename C>
struct Scratch {
  std::unique_ptr<C[]> score, change, largest, total, rescale;
  std::unique_ptr<uint32_t[]> words;

  Scratch(int64_t queries, int64_t keys, bool backward)
      : score(new C[queries * keys]),
        change(new C[backward ? queries * keys : 0]),
        largest(new C[queries]),
        total(new C[queries]),
        rescale(new C[queries]),
        words(new uint32_t[keys + kWordsBeyond]) {}
};

/// One call's operands, and how they are cut into blocks.
template <typename C>
class Attention {
 public:
  static constexpr at::ScalarType kType = sizeof(C) == 8 ? at::kDouble : at::kFloat;

  Attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
            const AttentionOptions& options, const AttentionTile& tile)
      : rank(query.dim()),
        query(of_queries(with_dense_rows(query, kType), rank)),
        key(with_dense_rows(key, kType).unsqueeze(2)),
        value(with_dense_rows(value, kType).unsqueeze(2)),
        scale(options.scale_of(query)),
        options_(options),
        tile_(tile) {
    if (options.mask) mask = Matrices<C>(of_mask(with_rows_or_numbers(*options.mask), rank));
    batch = this->query.size(0);
    heads = this->query.size(1);
    shared = this->query.size(2);
    queries = this->query.size(3);
    keys = this->key.size(3);
    block_queries = std::clamp<int64_t>(queries, 1, kBlockQueries);
    block_keys = std::clamp<int64_t>(keys, 1, kBlockScores / block_queries);
    query_blocks = (queries + block_queries - 1) / block_queries;
    const AttentionDropout& dropout = options.dropout;
    dropout_.drops = dropout.p > 0;
    dropout_.random = {static_cast<uint64_t>(dropout.seed), static_cast<uint64_t>(dropout.stream)};
    const auto threshold = static_cast<uint64_t>(std::llround(std::ldexp(dropout.p, 32)));
    dropout_.threshold = static_cast<uint32_t>(std::min<uint64_t>(threshold, UINT32_MAX));
    dropout_.kept = static_cast<C>(dropout.kept());
  }

  Scratch<C> scratch(bool backward) const { return {block_queries, block_keys, backward}; }

  int64_t rows_of(int64_t block) const {
    return std::min(block_queries, queries - block * block_queries);
  }

  /// The scores of a block of queries for keys from `j` on, as products; none where no query sees
  /// any of them, nor any later one.
  std::optional<ScoreBlock<C>> scores(Head head, int64_t i, int64_t rows, int64_t j,
                                      C* buffer) const {
    ScoreBlock<C> block;
    block.score = buffer;
    block.rows = rows;
    block.columns = std::min(block_keys, keys - j);
    block.scale = static_cast<C>(scale);
    block.causal = options_.causal;
    block.visible = tile_.first_query() + i - tile_.first_key() - j + 1;
    if (block.columns <= 0 || block.seen(rows - 1) == 0) return std::nullopt;
    if (options_.mask) {
      block.mask = mask.row(head, i) + j * mask.column_stride();
      block.mask_row = mask.row_stride();
      block.mask_column = mask.column_stride();
    }
    block.dropout = dropout_;
    if (dropout_.drops) {
      block.row_step = static_cast<uint64_t>(options_.dropout.global_shape.back());
      block.first = place(head, i, j);
    }
    multiply(matrix(buffer, block), false, query.rows(head, i, rows),
             key.rows(head, j, block.columns).t(), 1);
    return block;
  }

  /// The buffer of a block as a matrix.
  at::Tensor matrix(C* buffer, const ScoreBlock<C>& block) const {
    return at::from_blob(buffer, {block.rows, block.columns}, at::TensorOptions().dtype(kType));
  }

  const int64_t rank;
  Matrices<C> query, key, value, mask;
  double scale;
  int64_t batch, heads, shared, queries, keys, block_queries, block_keys, query_blocks;

 private:
  /// As a block reads it: with columns beside each other, or the same number in all of them.
  at::Tensor with_rows_or_numbers(const at::Tensor& x) const {
    const at::Tensor made = x.to(kType);
    return made.size(-1) == 1 || made.stride(-1) <= 1 ? made : made.contiguous();
  }

  /// The number of a weight among all weights, row by row.
  uint64_t place(Head head, int64_t i, int64_t j) const {
    const at::IntArrayRef shape = options_.dropout.global_shape;
    const bool grouped = rank == 5;
    int64_t at = head.n + tile_.first(0);
    at = at * shape[1] + head.g + tile_.first(1);
    if (grouped) at = at * shape[2] + head.m + tile_.first(2);
    at = at * shape[grouped ? 3 : 2] + tile_.first_query() + i;
    return static_cast<uint64_t>(at * shape.back() + tile_.first_key() + j);
  }

  const AttentionOptions& options_;
  const AttentionTile& tile_;
  WeightDropout<C> dropout_;
};

/// The head with a number among all.
template <typename C>
Head head_of(const Attention<C>& x, int64_t number) {
  return {number / (x.heads * x.shared), number / x.shared % x.heads, number % x.shared};
}

/// The first block, the last, the second, ...: threads are given equal work of causal calls.
int64_t from_both_ends(int64_t k, int64_t blocks) {
  return k % 2 == 0 ? k / 2 : blocks - 1 - k / 2;
}

template <typename C>
void forward_block(const Attention<C>& x, Head head, int64_t block, const Matrices<C>& output,
                   const Matrices<C>& logsumexp, Scratch<C>& scratch) {
  const int64_t i = block * x.block_queries, rows = x.rows_of(block);
  const at::Tensor out = output.rows(head, i, rows);
  std::fill_n(scratch.largest.get(), rows, static_cast<C>(kUnseen));
  std::fill_n(scratch.total.get(), rows, C(0));
  const int64_t columns = output.size(4);
  const auto scale_rows = [&](const auto& factor) {
    for (int64_t r = 0; r < rows; ++r) {
      C* const row = output.row(head, i + r);
      const C by = factor(r);
      if (by == 1) continue;
      for (int64_t e = 0; e < columns; ++e) row[e] *= by;
    }
  };
  bool any = false;
  for (int64_t j = 0; j < x.keys; j += x.block_keys) {
    const auto scores = x.scores(head, i, rows, j, scratch.score.get());
    if (!scores) break;
    SMEX_PICK(softmax_block<C>)
    (*scores, scratch.largest.get(), scratch.total.get(), scratch.rescale.get(),
     scratch.words.get());
    if (any) scale_rows([&](int64_t r) { return scratch.rescale[r]; });
    multiply(out, any, x.matrix(scratch.score.get(), *scores),
             x.value.rows(head, j, scores->columns), 1);
    any = true;
  }
  if (!any) out.zero_();
  // Queries that see nothing give 0, as torch's softmax of attention does.
  scale_rows([&](int64_t r) { return scratch.total[r] == 0 ? C(0) : 1 / scratch.total[r]; });
  for (int64_t r = 0; r < rows; ++r)
    *logsumexp.row(head, i + r) = scratch.largest[r] + std::log(scratch.total[r]);
}

template <typename C>
AttentionResult forward_by_blocks(const at::Tensor& query, const at::Tensor& key,
                                  const at::Tensor& value, const AttentionOptions& options,
                                  const AttentionTile& tile) {
  const Attention<C> x(query, key, value, options, tile);
  const at::Tensor output = heads_inside(query, x.rank, Attention<C>::kType, value.sym_size(3));
  const at::Tensor logsumexp = heads_inside(query, x.rank - 1, Attention<C>::kType);
  const Matrices<C> outputs(of_queries(output, x.rank));
  const Matrices<C> sums(of_queries(logsumexp, x.rank).unsqueeze(-1));
  at::parallel_for(0, x.batch * x.heads * x.shared * x.query_blocks, /*grain_size=*/1,
                   [&](int64_t begin, int64_t end) {
                     Scratch<C> scratch = x.scratch(/*backward=*/false);
                     for (int64_t task = begin; task < end; ++task) {
                       const int64_t block = from_both_ends(task % x.query_blocks, x.query_blocks);
                       forward_block(x, head_of(x, task / x.query_blocks), block, outputs, sums,
                                     scratch);
                     }
                   });
  return {output.to(query.scalar_type()), logsumexp};
}

/// The tensors to which the blocks of one chunk of the queries add.
template <typename C>
struct Sums {
  at::Tensor key, value, mask;
  Matrices<C> keys, values, masks;
};

template <typename C>
class Backward {
 public:
  Backward(const AttentionTensors& given, const AttentionOptions& options,
           const AttentionTile& tile, bool mask_gradient)
      : x_(given.query, given.key, given.value, options, tile),
        grad_(of_queries(with_dense_rows(given.grad, Attention<C>::kType), x_.rank)),
        output_(of_queries(with_dense_rows(given.output, Attention<C>::kType), x_.rank)),
        logsumexp_(of_queries(given.logsumexp.to(Attention<C>::kType), x_.rank).unsqueeze(-1)),
        grad_query(heads_inside(given.query, x_.rank, Attention<C>::kType)),
        grad_queries_(of_queries(grad_query, x_.rank)) {
    if (mask_gradient) mask_ = of_mask(*options.mask, x_.rank);
    const auto is_own = [&](int64_t dim, int64_t size) {
      return !mask_.defined() || mask_.size(dim) > 1 || size == 1;
    };
    own_batch_ = is_own(0, x_.batch);
    own_heads_ = is_own(1, x_.heads);
    has_rows_ = mask_.defined() && mask_.size(3) > 1;
    units_ = (own_batch_ ? x_.batch : 1) * (own_heads_ ? x_.heads : 1);
    if (x_.batch * x_.heads == 0) units_ = 0;
    const int64_t threads = at::get_num_threads();
    chunks_ = std::clamp<int64_t>((threads + units_ - 1) / std::max<int64_t>(units_, 1), 1,
                                  std::max<int64_t>(x_.query_blocks, 1));
    for (int64_t c = 0; c < chunks_; ++c) sums_.push_back(make_sums(given, options, c));
  }

  /// Units have heads whose gradients are added to tensors of their own; of a unit the queries are
  /// shared out only where there are fewer units than threads.
  AttentionGradients run() {
    at::parallel_for(0, units_ * chunks_, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
      Scratch<C> scratch = x_.scratch(/*backward=*/true);
      for (int64_t task = begin; task < end; ++task)
        run_unit(task / chunks_, task % chunks_, scratch);
    });
    Sums<C>& all = sums_[0];
    for (int64_t c = 1; c < chunks_; ++c) {
      all.key.add_(sums_[c].key);
      all.value.add_(sums_[c].value);
      if (all.mask.defined() && !has_rows_) all.mask.add_(sums_[c].mask);
    }
    return {grad_query, all.key, all.value, all.mask};
  }

 private:
  Sums<C> make_sums(const AttentionTensors& given, const AttentionOptions& options,
                    int64_t chunk) const {
    Sums<C> made;
    made.key = heads_inside(given.key, 4, Attention<C>::kType).zero_();
    made.value = heads_inside(given.value, 4, Attention<C>::kType).zero_();
    made.keys = Matrices<C>(made.key.unsqueeze(2));
    made.values = Matrices<C>(made.value.unsqueeze(2));
    if (mask_.defined()) {
      made.mask = chunk > 0 && has_rows_
                      ? sums_[0].mask  // whose rows are each of one chunk
                      : at::zeros(options.mask->sizes(),
                                  options.mask->options().dtype(Attention<C>::kType));
      made.masks = Matrices<C>(of_mask(made.mask, x_.rank));
    }
    return made;
  }

  void run_unit(int64_t unit, int64_t chunk, Scratch<C>& scratch) {
    const int64_t heads = own_heads_ ? x_.heads : 1;
    const int64_t n = own_batch_ ? unit / heads : 0, g = own_heads_ ? unit % heads : 0;
    for (int64_t a = n; a < (own_batch_ ? n + 1 : x_.batch); ++a) {
      for (int64_t b = g; b < (own_heads_ ? g + 1 : x_.heads); ++b) {
        for (int64_t m = 0; m < x_.shared; ++m) {
          for (int64_t block = chunk; block < x_.query_blocks; block += chunks_)
            run_block({a, b, m}, block, sums_[chunk], scratch);
        }
      }
    }
  }

  void run_block(Head head, int64_t block, Sums<C>& sums, Scratch<C>& scratch) {
    const int64_t i = block * x_.block_queries, rows = x_.rows_of(block);
    const at::Tensor query = x_.query.rows(head, i, rows), grad = grad_.rows(head, i, rows);
    const at::Tensor grad_query = grad_queries_.rows(head, i, rows);
    C *const delta = scratch.largest.get(), *const logsumexp = scratch.total.get();
    for (int64_t r = 0; r < rows; ++r) {
      delta[r] = dot(grad_.row(head, i + r), output_.row(head, i + r), output_.size(4));
      logsumexp[r] = *logsumexp_.row(head, i + r);
    }
    bool any = false;
    for (int64_t j = 0; j < x_.keys; j += x_.block_keys) {
      const auto scores = x_.scores(head, i, rows, j, scratch.score.get());
      if (!scores) break;
      const int64_t columns = scores->columns;
      const at::Tensor weights = x_.matrix(scratch.score.get(), *scores);
      const at::Tensor change = x_.matrix(scratch.change.get(), *scores);
      multiply(change, false, grad, x_.value.rows(head, j, columns).t(), 1);
      SMEX_PICK(gradient_block<C>)
      (*scores, scratch.change.get(), logsumexp, delta, scratch.words.get());
      multiply(sums.values.rows(head_of_keys(head), j, columns), true, weights.t(), grad, 1);
      multiply(sums.keys.rows(head_of_keys(head), j, columns), true, change.t(), query, x_.scale);
      multiply(grad_query, any, change, x_.key.rows(head, j, columns), x_.scale);
      if (mask_.defined()) add_to_mask(*scores, head, i, j, sums.masks, scratch.change.get());
      any = true;
    }
    if (!any) grad_query.zero_();
  }

  static void add_to_mask(ScoreBlock<C> block, Head head, int64_t i, int64_t j,
                          const Matrices<C>& masks, const C* change) {
    block.mask_row = masks.row_stride();
    block.mask_column = masks.column_stride();
    SMEX_PICK(add_mask_gradient<C>)(block, change, masks.row(head, i) + j * block.mask_column);
  }

  static Head head_of_keys(Head head) { return {head.n, head.g, 0}; }

  static C dot(const C* a, const C* b, int64_t count) {
    C sum = 0;
    for (int64_t e = 0; e < count; ++e) sum += a[e] * b[e];
    return sum;
  }

  const Attention<C> x_;
  const Matrices<C> grad_, output_, logsumexp_;
  at::Tensor grad_query;
  const Matrices<C> grad_queries_;
  at::Tensor mask_;  ///< undefined where its gradient is not wanted
  bool own_batch_, own_heads_, has_rows_;
  int64_t units_, chunks_;
  std::vector<Sums<C>> sums_;
};

}  // namespace

AttentionResult attend_by_blocks(const at::Tensor& query, const at::Tensor& key,
                                 const at::Tensor& value, const AttentionOptions& options,
                                 const AttentionTile& tile) {
  const bool wide = query.scalar_type() == at::kDouble;
  return wide ? forward_by_blocks<double>(query, key, value, options, tile)
              : forward_by_blocks<float>(query, key, value, options, tile);
}

AttentionGradients attend_by_blocks_backward(const AttentionTensors& given,
                                             const AttentionOptions& options,
                                             const AttentionTile& tile, bool mask_gradient) {
  const bool wide = given.query.scalar_type() == at::kDouble;
  auto [query, key, value, mask] = wide
                                       ? Backward<double>(given, options, tile, mask_gradient).run()
                                       : Backward<float>(given, options, tile, mask_gradient).run();
  const at::ScalarType type = given.query.scalar_type();
  if (mask.defined()) mask = mask.to(options.mask->scalar_type());
  return {query.to(type), key.to(type), value.to(type), mask};
}

}  // namespace smex::kernels
