// Interval analysis: which part of every input a tile of the output reads (Tofu §4.2).
#include <algorithm>

#include "ir/error.h"
#include "tdl/linear.h"
#include "tdl/spec.h"

namespace smex::tdl {
namespace {

Interval clamp(const Interval& range, int64_t size) {
  const int64_t lo = std::clamp<int64_t>(range.lo, 0, size);
  return {lo, std::max(lo, std::clamp<int64_t>(range.hi, 0, size))};
}

Interval hull(const Interval& a, const Interval& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
}

Region hull(const Region& a, const Region& b) {
  Region result;
  for (size_t dim = 0; dim < a.rank(); ++dim) result.dims.push_back(hull(a.dims[dim], b.dims[dim]));
  return result;
}

class Needs {
 public:
  Needs(const Spec& spec, const IndexRanges& ranges)
      : spec_(spec),
        ranges_(ranges),
        needs_(spec.input_shapes.size()),
        seen_(needs_.size(), false) {}

  std::vector<InputNeed> take() {
    for (const Statement& statement : spec_.outputs) {
      if (statement.body) visit(*statement.body, /*content=*/true);
    }
    for (size_t input = 0; input < needs_.size(); ++input) {
      if (seen_[input]) continue;
      needs_[input].region = needs_[input].unclamped = Region::whole(spec_.input_shapes[input]);
    }
    return std::move(needs_);
  }

 private:
  void visit(const Expr& expr, bool content) {
    if (expr.kind == ExprKind::kRead) add_read(expr, content);
    const bool like = expr.kind == ExprKind::kCall && expr.name == "like";
    for (size_t arg = 0; arg < expr.args.size(); ++arg) {
      visit(*expr.args[arg], content && !(like && arg == 1));
    }
  }

  Interval touched(const Expr& index, int64_t size) const {
    if (index.kind == ExprKind::kWhole) return {0, size};
    const auto linear = linear_form(index, spec_.indices);
    return linear ? range_of(*linear, ranges_) : Interval{0, size};
  }

  void add_read(const Expr& read, bool content) {
    const Shape& shape = spec_.input_shapes.at(read.input);
    if (read.args.size() != shape.size()) {
      throw UserError("input_needs: read of input " + std::to_string(read.input) + ": expected " +
                      std::to_string(shape.size()) + " indices, found " +
                      std::to_string(read.args.size()));
    }
    Region region, unclamped;
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      const Interval range = touched(*read.args[dim], shape[dim]);
      region.dims.push_back(clamp(range, shape[dim]));
      unclamped.dims.push_back(read.pad ? range : region.dims.back());
    }
    InputNeed& need = needs_[read.input];
    need.used = need.used || content;
    need.region = seen_[read.input] ? hull(need.region, region) : region;
    need.unclamped = seen_[read.input] ? hull(need.unclamped, unclamped) : unclamped;
    seen_[read.input] = true;
  }

  const Spec& spec_;
  const IndexRanges& ranges_;
  std::vector<InputNeed> needs_;
  std::vector<bool> seen_;
};

}  // namespace

std::vector<InputNeed> input_needs(const Spec& spec, const IndexRanges& ranges) {
  if (ranges.size() != spec.indices.size()) {
    throw UserError("input_needs: expected " + std::to_string(spec.indices.size()) +
                    " index ranges, found " + std::to_string(ranges.size()));
  }
  return Needs(spec, ranges).take();
}

Region output_region(const Spec& spec, int output, const IndexRanges& ranges) {
  if (output < 0 || output >= static_cast<int>(spec.outputs.size())) {
    throw UserError("output_region: expected an output below " +
                    std::to_string(spec.outputs.size()) + ", found " + std::to_string(output));
  }
  if (ranges.size() != spec.indices.size()) {
    throw UserError("output_region: expected " + std::to_string(spec.indices.size()) +
                    " index ranges, found " + std::to_string(ranges.size()));
  }
  Region region;
  for (int axis : spec.outputs[output].axes) region.dims.push_back(ranges[axis]);
  return region;
}

IndexRanges full_ranges(const Spec& spec) {
  IndexRanges ranges;
  for (const Index& index : spec.indices) ranges.push_back({0, index.extent});
  return ranges;
}

}  // namespace smex::tdl
