#include "partition/lower/window.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tdl/local_tables.h"

namespace smex {

namespace {

/// The crop of a tile on which windows land (a transposed convolution).
void find_crop(const Op& op, const tdl::IndexRanges& ranges,
               const std::vector<tdl::InputNeed>& needs, Window& window) {
  if (!tdl::has_landings(*op.spec)) return;
  int output = -1;
  for (size_t o = 0; o < op.spec->outputs.size(); ++o) {
    if (!op.spec->outputs[o].body) continue;
    if (output >= 0) return;  // several outputs: their common splits leave the windows whole
    output = static_cast<int>(o);
  }
  if (output < 0) return;
  window.tile = tdl::output_region(*op.spec, output, ranges);
  const auto landings = tdl::landings(*op.spec, output, ranges);
  const auto& axes = op.spec->outputs[output].axes;
  const auto is_cut = [&](size_t d) {
    return landings[d] && window.tile.dims[d].size() != op.spec->indices[axes[d]].extent;
  };
  bool any = false;
  for (size_t d = 0; d < axes.size(); ++d) any = any || is_cut(d);
  if (any) {
    window.padded |= std::any_of(needs.begin(), needs.end(), [](const tdl::InputNeed& need) {
      return need.used && !(need.unclamped == need.region);
    });
  }
  if (!any && !window.padded) return;
  window.computed = window.tile.shape();
  window.rest.assign(axes.size(), std::nullopt);
  std::vector<Interval> crop = Region::whole(window.computed).dims;
  for (size_t d = 0; d < axes.size(); ++d) {
    if (!landings[d] || !(window.padded || is_cut(d))) continue;
    const Interval& tile = window.tile.dims[d];
    window.rest[d] = std::max<int64_t>(0, tile.hi - landings[d]->hi);
    window.computed[d] = landings[d]->size() + *window.rest[d];
    crop[d] = {tile.lo - landings[d]->lo, tile.hi - landings[d]->lo};
  }
  window.crop = std::move(crop);
}

/// True when some input must be padded by hand because the tile cuts its windows.
bool cuts_windows(const tdl::Spec& spec, const std::vector<tdl::InputNeed>& needs) {
  const auto full = tdl::input_needs(spec, tdl::full_ranges(spec));
  for (size_t i = 0; i < needs.size(); ++i) {
    if (!needs[i].used) continue;
    const Shape& shape = spec.input_shapes[i];
    for (size_t d = 0; d < shape.size(); ++d) {
      const Interval& reach = full[i].unclamped.dims[d];
      const bool windowed = !(reach == full[i].region.dims[d]);
      const bool whole =
          needs[i].unclamped.dims[d] == reach && needs[i].region.dims[d].size() == shape[d];
      if (windowed && !whole) return true;
    }
  }
  return false;
}

/// Rewrites padding (or `rest`, output padding): a list for the last dimensions, or one number
/// for all of them.
void localise_window(const Window& window, bool rest, std::vector<int64_t>& list) {
  if (window.padded) std::fill(list.begin(), list.end(), 0);
  if (window.crop.empty()) return;
  const size_t rank = window.rest.size();
  const size_t spatial = list.size() == 1 ? rank - 2 : list.size();
  list.resize(spatial, list.front());
  for (size_t i = 0; i < spatial; ++i) {
    const auto& beyond = window.rest[rank - spatial + i];
    if (beyond) list[i] = rest ? *beyond : 0;
  }
}

std::optional<double> find_pad(const tdl::ExprPtr& expr, int input) {
  if (expr->kind == tdl::ExprKind::kRead && expr->input == input && expr->pad) return expr->pad;
  for (const tdl::ExprPtr& arg : expr->args) {
    if (const auto pad = find_pad(arg, input)) return pad;
  }
  return std::nullopt;
}

}  // namespace

Window find_window(const Op& op, const tdl::IndexRanges& ranges,
                   const std::vector<tdl::InputNeed>& needs) {
  Window window;
  const bool has_window = std::any_of(op.local.begin(), op.local.end(), [](const LocalArg& arg) {
    return arg.rule == LocalRule::kWindow;
  });
  if (!has_window || !op.spec) return window;
  window.padded = cuts_windows(*op.spec, needs);
  find_crop(op, ranges, needs, window);
  return window;
}

void localise(const Op& op, const tdl::IndexRanges& ranges,
              const std::vector<tdl::InputNeed>& needs, const Window& window,
              std::vector<Attr>& args) {
  const Region first = tdl::output_region(*op.spec, 0, ranges);
  for (const LocalArg& rule : op.local) {
    Attr& arg = args.at(rule.arg);
    switch (rule.rule) {
      case LocalRule::kOutputShape:
        arg = first.shape();
        break;
      case LocalRule::kZero:
        arg = int64_t{0};
        break;
      case LocalRule::kMaxInt:
        arg = std::numeric_limits<int64_t>::max();
        break;
      case LocalRule::kWindow:
      case LocalRule::kWindowRest:
        if (auto* list = std::get_if<std::vector<int64_t>>(&arg)) {
          localise_window(window, rule.rule == LocalRule::kWindowRest, *list);
        }
        break;
      case LocalRule::kRows:
        arg = needs.front().region.dims.at(0).size();
        break;
      case LocalRule::kOffset: {
        std::vector<int64_t> corner;
        for (const Interval& dim : first.dims) corner.push_back(dim.lo);
        arg = std::move(corner);
        break;
      }
      case LocalRule::kDiagonal: {
        const size_t columns = first.dims.size() - 1;
        arg = std::get<int64_t>(arg) + first.dims[columns - 1].lo - first.dims[columns].lo;
        break;
      }
      case LocalRule::kFeatures:
        if (auto* list = std::get_if<std::vector<int64_t>>(&arg)) {
          const Shape shape = first.shape();
          list->assign(shape.begin() + 1, shape.end());
        }
        break;
      case LocalRule::kBegin:
        arg = std::vector<int64_t>{tdl::with_rows(*op.spec, ranges).at(rule.index).lo};
        break;
    }
  }
}

double pad_value(const tdl::Spec& spec, int input) {
  for (const tdl::Statement& statement : spec.outputs) {
    if (!statement.body) continue;
    if (const auto pad = find_pad(statement.body, input)) return *pad;
  }
  return 0;
}

Shape shape_only(const Region& wanted, const Window& window) {
  return !window.crop.empty() && wanted == window.tile ? window.computed : wanted.shape();
}

std::vector<std::optional<std::vector<int64_t>>> own_tables(
    const Op& op, const tdl::IndexRanges& ranges, const std::vector<tdl::InputNeed>& needs) {
  std::vector<Region> frames;
  for (const tdl::InputNeed& need : needs) frames.push_back(need.region);
  return tdl::local_tables(*op.spec, ranges, frames);
}

TileCall tile_call(const Op& op, const tdl::IndexRanges& ranges) {
  const std::vector<tdl::InputNeed> needs = tdl::input_needs(*op.spec, ranges);
  const Window window = find_window(op, ranges, needs);
  TileCall call{{}, op.args, window.crop};
  for (size_t i = 0; i < needs.size(); ++i) {
    const tdl::InputNeed& need = needs[i];
    TileCall::Operand operand{need.used, need.region, 0};
    if (need.used && window.padded && !(need.unclamped == need.region)) {
      operand.box = need.unclamped;
      operand.fill = pad_value(*op.spec, static_cast<int>(i));
    } else if (!need.used) {
      const Shape shape = shape_only(need.region, window);
      for (size_t d = 0; d < shape.size(); ++d) {
        operand.box.dims[d].hi = operand.box.dims[d].lo + shape[d];
      }
    }
    call.operands.push_back(std::move(operand));
  }
  if (!op.spec->tables.empty()) {
    auto tables = own_tables(op, ranges, needs);
    for (size_t i = 0; i < needs.size(); ++i) {
      if (op.spec->table(static_cast<int>(i))) call.operands[i].table = std::move(tables[i]);
    }
  }
  localise(op, ranges, needs, window, call.args);
  return call;
}

}  // namespace smex
