// Graphs, operands and a slow, plain evaluation of messages, for tests of kernels on messages.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "edges/rows.h"
#include "kernels/message/program.h"
#include "kernels/numbers.h"

namespace smex::kernels::cuda_samples {

/// Edges grouped by row, with shuffled edge ids.
template <typename I>
struct SampleGraph {
  int64_t num_sources = 11;
  std::vector<I> indptr, indices, eids;

  explicit SampleGraph(const std::vector<int64_t>& degrees, bool has_eids = true) {
    indptr.push_back(0);
    std::mt19937 random(7);
    for (const int64_t degree : degrees) {
      for (int64_t i = 0; i < degree; ++i)
        indices.push_back(static_cast<I>(random() % static_cast<uint32_t>(num_sources)));
      indptr.push_back(static_cast<I>(indices.size()));
    }
    if (!has_eids) return;
    eids.resize(indices.size());
    std::iota(eids.begin(), eids.end(), I(0));
    std::shuffle(eids.begin(), eids.end(), random);
  }

  EdgeRows<I> rows() const {
    return {static_cast<int64_t>(indptr.size()) - 1, static_cast<int64_t>(indices.size()),
            indptr.data(), indices.data(), eids.empty() ? nullptr : eids.data()};
  }
  int64_t eid(int64_t k) const { return eids.empty() ? k : int64_t{eids[k]}; }
  int64_t count(Target target) const {
    return target == Target::kSource        ? num_sources
           : target == Target::kDestination ? rows().num_rows
                                            : rows().num_edges;
  }
};

/// A hub, empty rows at both ends and in between, and short rows.
inline std::vector<int64_t> hub_degrees() { return {0, 3, 0, 0, 1, 300, 2, 0, 5, 7, 0}; }

inline int64_t product_of(const FeatureShape& shape) {
  int64_t result = 1;
  for (const int64_t size : shape) result *= size;
  return result;
}

/// Operands of a message, as T and as what T can hold of them in double.
template <typename T>
struct SampleOperands {
  std::vector<FeatureShape> shapes;
  std::vector<std::vector<T>> values;

  template <typename I>
  SampleOperands(const Message& message, const SampleGraph<I>& graph,
                 const std::vector<FeatureShape>& shapes)
      : shapes(shapes), values(shapes.size()) {
    std::mt19937 random(3);
    std::uniform_real_distribution<float> uniform(0.25f, 1.75f);
    for (const Message& read : operands_of(message)) {
      const int64_t rows = graph.count(read->target);
      std::vector<T>& to = values[read->operand];
      to.resize(rows * product_of(shapes[read->operand]));
      for (T& x : to) narrow(static_cast<accumulate_t<T>>(uniform(random)), x);
    }
  }

  std::vector<const T*> pointers() const {
    std::vector<const T*> result;
    for (const auto& x : values) result.push_back(x.data());
    return result;
  }
};

/// The message of one edge as a dense array of the shape `whole`; dimension by dimension.
template <typename T>
class PlainMessage {
 public:
  PlainMessage(const Message& message, const SampleOperands<T>& operands)
      : message_(message), operands_(operands) {
    std::vector<FeatureShape> shapes;
    for (const Message& read : operands_of(message))
      shapes.push_back(operands.shapes[read->operand]);
    whole_ = broadcast_shapes(shapes);
  }

  const FeatureShape& whole() const { return whole_; }

  std::vector<double> of(int64_t source, int64_t destination, int64_t edge) const {
    const int64_t ids[] = {source, destination, edge};
    return evaluate(message_, ids);
  }

 private:
  std::vector<double> evaluate(const Message& m, const int64_t* ids) const {
    const int64_t n = product_of(whole_);
    if (m->op == MessageOp::kOperand) return load(m, ids[static_cast<int>(m->target)]);
    if (m->op == MessageOp::kConstant) return std::vector<double>(n, m->value);
    const std::vector<double> a = evaluate(m->a, ids);
    const std::vector<double> b = m->b ? evaluate(m->b, ids) : a;
    if (m->op == MessageOp::kSumLast) return sums(m->a, a);
    std::vector<double> result(n);
    for (int64_t i = 0; i < n; ++i) result[i] = one(m->op, a[i], b[i]);
    return result;
  }

  std::vector<double> sums(const Message& argument, const std::vector<double>& a) const {
    const FeatureShape shape = shape_of(argument, operands_.shapes);
    if (shape.empty() || shape.back() == 1) return a;
    std::vector<double> result(a.size());
    const size_t last = static_cast<size_t>(whole_.back());
    for (size_t i = 0; i < a.size(); ++i) result[i / last * last] += a[i];
    for (size_t i = 0; i < a.size(); ++i) result[i] = result[i / last * last];
    return result;
  }

  std::vector<double> load(const Message& m, int64_t row) const {
    const FeatureShape& part = operands_.shapes[m->operand];
    std::vector<double> result(product_of(whole_));
    for (size_t i = 0; i < result.size(); ++i) {
      int64_t rest = static_cast<int64_t>(i), at = 0, stride = 1;
      for (size_t d = whole_.size(); d-- > 0;) {
        const int64_t coordinate = rest % whole_[d];
        rest /= whole_[d];
        const size_t shift = whole_.size() - part.size();
        if (d < shift) continue;
        if (part[d - shift] != 1) at += coordinate * stride;
        stride *= part[d - shift];
      }
      result[i] = widen(operands_.values[m->operand][row * product_of(part) + at]);
    }
    return result;
  }

  static double one(MessageOp op, double a, double b) {
    switch (op) {
      case MessageOp::kAdd:
        return a + b;
      case MessageOp::kSub:
        return a - b;
      case MessageOp::kMul:
        return a * b;
      case MessageOp::kDiv:
        return a / b;
      case MessageOp::kMaximum:
        return std::fmax(a, b);
      case MessageOp::kLeakyRelu:
        return a > 0 ? a : a * b;
      case MessageOp::kExp:
        return std::exp(a);
      case MessageOp::kSigmoid:
        return 1 / (1 + std::exp(-a));
      case MessageOp::kTanh:
        return std::tanh(a);
      default:
        throw std::invalid_argument("not needed by these tests");
    }
  }

  Message message_;
  const SampleOperands<T>& operands_;
  FeatureShape whole_;
};

/// A message's elements summed down to `shape`, all of them a row-major array.
inline std::vector<double> summed_to(const std::vector<double>& x, const FeatureShape& whole,
                                     const FeatureShape& full, const FeatureShape& shape) {
  std::vector<double> result(product_of(shape));
  for (size_t i = 0; i < x.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i), at = 0, stride = 1;
    bool is_repeated = false;  // elements that a smaller message repeats
    for (size_t d = whole.size(); d-- > 0;) {
      const int64_t coordinate = rest % whole[d];
      rest /= whole[d];
      const size_t in_full = d + full.size() - whole.size();
      const bool is_one = d + full.size() < whole.size() || full[in_full] == 1;
      is_repeated = is_repeated || (is_one && coordinate > 0);
      if (d + shape.size() < whole.size()) continue;
      const int64_t size = shape[d + shape.size() - whole.size()];
      if (size != 1) at += coordinate * stride;
      stride *= size;
    }
    if (!is_repeated) result[at] += x[i];
  }
  return result;
}

/// How far results of T may be from those of double, relative to the largest number in a sum.
template <typename T>
constexpr double kTolerance = 1e-5;
template <>
inline constexpr double kTolerance<double> = 1e-12;
template <>
inline constexpr double kTolerance<BFloat16> = 8e-3;
template <>
inline constexpr double kTolerance<Half> = 1e-3;

}  // namespace smex::kernels::cuda_samples
