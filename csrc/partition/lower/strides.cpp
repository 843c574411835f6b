#include "partition/lower/strides.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "partition/plan/coarsen.h"

namespace smex {

namespace {

Strides contiguous(const Shape& shape) {
  Strides strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) {
    strides[d - 1] = strides[d] * std::max<int64_t>(shape[d], 1);
  }
  return strides;
}

Strides strides_of(const LocalTensor& tensor) {
  return tensor.strides.empty() ? contiguous(tensor.shape) : tensor.strides;
}

/// Nothing where the tensor is contiguous: dimensions of one element lie anywhere.
Strides simplified(const Shape& shape, Strides strides) {
  const Strides dense = contiguous(shape);
  bool same = true;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return {};
    same = same && (shape[d] == 1 || strides[d] == dense[d]);
  }
  return same ? Strides{} : strides;
}

/// Arguments that are numbers, by position; `missing` where there is none.
int64_t number(const std::vector<Attr>& args, size_t position, int64_t missing) {
  if (position >= args.size()) return missing;
  const auto* found = std::get_if<int64_t>(&args[position]);
  return found ? *found : missing;
}

size_t dim_at(const std::vector<Attr>& args, size_t position, size_t rank) {
  const int64_t dim = number(args, position, 0);
  return static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(rank) : dim);
}

/// The strides of a view by the call's arguments, the strides of what it views, and shapes.
using View = std::function<Strides(const std::vector<Attr>& args, const LocalTensor& base,
                                   Strides strides, const Shape& shape)>;

Strides exchanged(Strides strides, size_t a, size_t b) {
  std::swap(strides.at(a), strides.at(b));
  return strides;
}

Strides permuted(const std::vector<Attr>& args, const Strides& strides) {
  Strides made;
  for (int64_t dim : std::get<std::vector<int64_t>>(args.at(1))) {
    const auto rank = static_cast<int64_t>(strides.size());
    made.push_back(strides.at(static_cast<size_t>(dim < 0 ? dim + rank : dim)));
  }
  return made;
}

Strides expanded(const LocalTensor& base, const Strides& strides, const Shape& shape) {
  Strides made(shape.size(), 0);
  const size_t more = shape.size() - strides.size();
  for (size_t d = 0; d < strides.size(); ++d) {
    if (base.shape[d] == shape[d + more]) made[d + more] = strides[d];
  }
  return made;
}

/// Without the dimensions of one element that the shape lacks; they are dropped from the front.
Strides squeezed(const LocalTensor& base, const Strides& strides, const Shape& shape) {
  Strides made;
  size_t surplus = base.shape.size() - std::min(shape.size(), base.shape.size());
  for (size_t d = 0; d < strides.size(); ++d) {
    const bool differs = made.size() >= shape.size() || shape[made.size()] != base.shape[d];
    if (surplus > 0 && base.shape[d] == 1 && differs) {
      --surplus;
    } else {
      made.push_back(strides[d]);
    }
  }
  made.resize(shape.size(), 1);
  return made;
}

/// One line for each operator, in alphabetical order.
const std::map<std::string, View>& views() {
  static const std::map<std::string, View> table = {
      {"aten::alias", [](const auto&, const auto&, Strides s, const auto&) { return s; }},
      {"aten::detach", [](const auto&, const auto&, Strides s, const auto&) { return s; }},
      {"aten::expand", [](const auto&, const auto& base, const Strides& s,
                          const auto& shape) { return expanded(base, s, shape); }},
      {"aten::permute", [](const auto& args, const auto&, const Strides& s,
                           const auto&) { return permuted(args, s); }},
      {"aten::select.int",
       [](const auto& args, const auto&, Strides s, const auto&) {
         s.erase(s.begin() + static_cast<std::ptrdiff_t>(dim_at(args, 1, s.size())));
         return s;
       }},
      {"aten::slice.Tensor",
       [](const auto& args, const auto&, Strides s, const auto&) {
         s.at(dim_at(args, 1, s.size())) *= number(args, 4, 1);
         return s;
       }},
      {"aten::squeeze", [](const auto&, const auto& base, const Strides& s,
                           const auto& shape) { return squeezed(base, s, shape); }},
      {"aten::squeeze.dim",
       [](const auto& args, const auto& base, Strides s, const auto& shape) {
         if (shape.size() == base.shape.size()) return s;
         s.erase(s.begin() + static_cast<std::ptrdiff_t>(dim_at(args, 1, s.size())));
         return s;
       }},
      {"aten::squeeze.dims", [](const auto&, const auto& base, const Strides& s,
                                const auto& shape) { return squeezed(base, s, shape); }},
      {"aten::t", [](const auto&, const auto&, Strides s,
                     const auto&) { return s.size() < 2 ? s : exchanged(s, 0, 1); }},
      {"aten::transpose.int",
       [](const auto& args, const auto&, Strides s, const auto&) {
         const size_t rank = s.size();
         return rank == 0 ? s : exchanged(s, dim_at(args, 1, rank), dim_at(args, 2, rank));
       }},
      {"aten::unsqueeze",
       [](const auto& args, const auto&, Strides s, const auto&) {
         const size_t dim = dim_at(args, 1, s.size() + 1);
         s.insert(s.begin() + static_cast<std::ptrdiff_t>(dim), 1);
         return s;
       }},
  };
  return table;
}

/// Whether a copy is told to be contiguous: torch numbers the formats, 0 is that one.
bool to_contiguous(const Op& op, const std::vector<Attr>& args) {
  if (op.target == "aten::clone") return number(args, 1, 1) == 0;
  return op.target == "aten::_to_copy" && number(args, 6, 1) == 0;
}

/// As attention lays its results out: the heads of a query, before dimension `length`, beside each
/// other.
Strides heads_inside(const Shape& shape, size_t length) {
  if (length >= shape.size()) return {};
  Shape laid = shape;
  std::rotate(laid.begin() + 1, laid.begin() + static_cast<std::ptrdiff_t>(length),
              laid.begin() + static_cast<std::ptrdiff_t>(length) + 1);
  Strides strides = contiguous(laid);
  std::rotate(strides.begin() + 1, strides.begin() + 2,
              strides.begin() + static_cast<std::ptrdiff_t>(length) + 1);
  return simplified(shape, std::move(strides));
}

bool is_reshape(const std::string& target) {
  return target == "aten::_unsafe_view" || target == "aten::reshape" || target == "aten::view";
}

}  // namespace

Strides dense_like(const Shape& shape, const Strides& strides) {
  if (std::count(strides.begin(), strides.end(), 0)) return {};
  std::vector<size_t> order(shape.size());  // the slowest first
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  Strides made(shape.size(), 1);
  int64_t step = 1;
  for (size_t n = order.size(); n-- > 0;) {
    made[order[n]] = step;
    step *= shape[order[n]];
  }
  return simplified(shape, made);
}

std::optional<Strides> reshaped(const LocalTensor& tensor, const Shape& shape) {
  if (tensor.strides.empty()) return Strides{};
  // torch's computeStride: dimensions that lie one after the other are a chunk, which is divided.
  const Strides& strides = tensor.strides;
  Strides made(shape.size(), 1);
  auto next = static_cast<std::ptrdiff_t>(shape.size()) - 1;
  int64_t base = strides.back(), had = 1, given = 1;
  for (size_t d = tensor.shape.size(); d-- > 0;) {
    had *= tensor.shape[d];
    const bool ends = d == 0 || (tensor.shape[d - 1] != 1 && strides[d - 1] != had * base);
    if (!ends) continue;
    for (; next >= 0 && (given < had || shape[next] == 1); --next) {
      made[next] = given * base;
      given *= shape[next];
    }
    if (given != had) return std::nullopt;
    if (d > 0) base = strides[d - 1], had = given = 1;
  }
  if (next >= 0) return std::nullopt;
  return simplified(shape, std::move(made));
}

Strides of_box(const LocalTensor& tensor, const Shape& box) {
  return simplified(box, strides_of(tensor));
}

MadeTensor made_by(const Op& op, const std::vector<Attr>& args,
                   const std::vector<LocalTensor>& operands, const Shape& shape, size_t output) {
  if (operands.empty() || operands.front().shape.empty()) return {};
  const LocalTensor& base = operands.front();
  if (op.target.starts_with("smex::scaled_dot_product")) {
    if (output == 3) return {};  // the gradient of a mask
    const bool of_query = output == 0 || op.outputs.size() == 2;
    return {heads_inside(shape, of_query ? base.shape.size() - 2 : 2)};
  }
  if (output > 0) return {};
  if (is_reshape(op.target)) {
    auto strides = reshaped(base, shape);
    return {strides.value_or(Strides{}), /*copies=*/!strides};
  }
  const auto view = views().find(op.target);
  if (view != views().end()) {
    return {simplified(shape, view->second(args, base, strides_of(base), shape))};
  }
  if (!op.spec || !is_pointwise(*op.spec) || to_contiguous(op, args)) return {};
  for (const LocalTensor& operand : operands) {
    if (operand.shape != shape) continue;
    return {operand.strides.empty() ? Strides{} : dense_like(shape, operand.strides)};
  }
  return {};
}

}  // namespace smex
