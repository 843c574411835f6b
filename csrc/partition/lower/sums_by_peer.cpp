#include "partition/lower/sums_by_peer.h"

#include <algorithm>

#include "partition/lower/window.h"
#include "tdl/expr.h"

namespace smex {

namespace {

/// How the inputs of a sum of messages are read.
class Reads {
 public:
  explicit Reads(const Op& op) : spec_(*op.spec), kinds_(op.inputs.size(), Kind::kNone) {
    const auto& in_edges = std::get<std::vector<ValueRef>>(op.args[0]);
    for (const ValueRef& ref : in_edges) {
      const auto input = std::find(op.inputs.begin(), op.inputs.end(), ref.id);
      structure_.push_back(static_cast<int>(input - op.inputs.begin()));
    }
    for (const tdl::Statement& statement : spec_.outputs) {
      if (statement.body) visit(*statement.body);
    }
  }

  enum class Kind { kNone, kSource, kValue, kOther, kMixed };
  Kind kind(size_t input) const { return kinds_[input]; }
  int bounds() const { return structure_[0]; }
  int sources() const { return structure_[1]; }
  /// The numbers of edges; -1 for none.
  int numbers() const { return structure_.size() > 2 ? structure_[2] : -1; }
  bool are_known() const {
    return std::all_of(structure_.begin(), structure_.end(),
                       [&](int input) { return spec_.table(input) != nullptr; });
  }

 private:
  void visit(const tdl::Expr& expr) {
    // A place is the index of which rows have a range.
    if (expr.kind == tdl::ExprKind::kCall && expr.name == "in_row") place_ = expr.args[0]->index;
    // Conditions come before what they let through.
    for (const tdl::ExprPtr& arg : expr.args) visit(*arg);
    if (expr.kind != tdl::ExprKind::kRead || spec_.table(expr.input)) return;
    Kind& kind = kinds_[expr.input];
    const Kind found = kind_of(expr);
    kind = kind == Kind::kNone || kind == found ? found : Kind::kMixed;
  }

  Kind kind_of(const tdl::Expr& read) const {
    if (read.args.empty()) return Kind::kOther;
    const tdl::Expr& row = *read.args[0];
    if (row.kind == tdl::ExprKind::kRead && row.input == sources()) return Kind::kSource;
    if (row.kind == tdl::ExprKind::kRead && row.input == numbers()) return Kind::kValue;
    if (row.kind == tdl::ExprKind::kIndex && row.index == place_) return Kind::kValue;
    return Kind::kOther;
  }

  const tdl::Spec& spec_;
  std::vector<int> structure_;
  std::vector<Kind> kinds_;
  int place_ = -1;
};

/// The rows that workers have of a value, in order; none where they overlap.
std::vector<Interval> blocks_of(const Layout& home) {
  std::vector<Interval> blocks;
  for (const Tile& tile : home.tiles) {
    if (!tile.held || tile.region.empty()) continue;
    if (tile.region.list) return {};
    if (std::find(blocks.begin(), blocks.end(), tile.region.dims[0]) == blocks.end()) {
      blocks.push_back(tile.region.dims[0]);
    }
  }
  std::sort(blocks.begin(), blocks.end(),
            [](const Interval& a, const Interval& b) { return a.lo < b.lo; });
  for (size_t b = 1; b < blocks.size(); ++b) {
    if (blocks[b].lo != blocks[b - 1].hi) return {};
  }
  return blocks;
}

class Parts {
 public:
  Parts(const Graph& graph, const Op& op, const OpTiles& tiles, const std::vector<Layout>& homes,
        const Reads& reads)
      : graph_(graph), op_(op), tiles_(tiles), homes_(homes), reads_(reads) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (reads.kind(i) == Reads::Kind::kSource) sums_.sources.push_back(i);
      if (reads.kind(i) == Reads::Kind::kValue) sums_.values.push_back(i);
    }
  }

  std::optional<PeerSums> take() {
    if (sums_.sources.empty()) return std::nullopt;
    find_blocks();
    sums_.turns = blocks_.size();
    if (blocks_.size() < 2) return std::nullopt;
    const size_t workers = tiles_.active.size();
    sums_.parts.resize(workers);
    sums_.degrees.resize(workers);
    int64_t at_once = 0, by_parts = 0;
    for (size_t w = 0; w < workers; ++w) {
      sums_.parts[w].resize(blocks_.size());
      if (!tiles_.active[w]) continue;
      divide(w);
      at_once = std::max(at_once, all_bytes(w));
      by_parts = std::max(by_parts, part_bytes(w));
    }
    if (by_parts >= at_once) return std::nullopt;
    return std::move(sums_);
  }

 private:
  /// Of the largest of the sources that are cut by rows; others may lie otherwise.
  void find_blocks() {
    int64_t most = -1;
    for (const size_t i : sums_.sources) {
      const int64_t bytes = graph_.value(op_.inputs[i]).bytes();
      std::vector<Interval> blocks = blocks_of(homes_[i]);
      if (homes_[i].num_partials > 1 || blocks.size() < 2 || bytes <= most) continue;
      most = bytes;
      largest_ = i;
      blocks_ = std::move(blocks);
    }
  }

  void divide(size_t w) {
    const auto tables = own_tables(op_, tiles_.ranges[w], tiles_.needs[w]);
    const std::vector<int64_t>&bounds = *tables[reads_.bounds()], &from = *tables[reads_.sources()];
    const std::vector<int64_t>* const numbers =
        reads_.numbers() < 0 || sums_.values.empty() ? nullptr : &*tables[reads_.numbers()];
    const std::vector<int64_t> rows = needed_rows(w);
    std::vector<size_t> turn_of(rows.size());
    const size_t first = first_block(w), count = blocks_.size();
    for (size_t n = 0, b = 0; n < rows.size(); ++n) {
      while (rows[n] >= blocks_[b].hi) ++b;
      turn_of[n] = (b + count - first) % count;
    }
    auto& parts = sums_.parts[w];
    const auto part = [&](size_t turn) -> PeerSum& {
      if (!parts[turn]) {
        parts[turn].emplace();
        parts[turn]->block = blocks_[(first + turn) % count];
        parts[turn]->own = turn == 0 && has_block(w, parts[turn]->block);
      }
      return *parts[turn];
    };
    const size_t num_rows = bounds.size() - 1;
    for (size_t v = 0; v < num_rows; ++v) {
      for (auto& some : parts) {
        if (some) some->bounds.push_back(static_cast<int64_t>(some->sources.size()));
      }
      for (int64_t e = bounds[v]; e < bounds[v + 1]; ++e) {
        PeerSum& into = part(turn_of[from[e]]);
        into.bounds.resize(v + 1, 0);  // of one that begins here
        into.sources.push_back(rows[from[e]]);
        into.edges.push_back(numbers ? (*numbers)[e] : e);
      }
      sums_.degrees[w].push_back(std::max<int64_t>(1, bounds[v + 1] - bounds[v]));
    }
    if (std::none_of(parts.begin(), parts.end(), [](const auto& some) { return some; })) {
      part(0).bounds.resize(num_rows, 0);  // a sum of nothing
    }
    for (auto& some : parts) {
      if (!some) continue;
      some->bounds.push_back(static_cast<int64_t>(some->sources.size()));
      count_in_block(*some);
    }
  }

  /// Turns the sources of a part into positions in its rows.
  static void count_in_block(PeerSum& part) {
    if (part.own) {
      part.rows = IndexList::of(part.block);
      for (int64_t& source : part.sources) source -= part.block.lo;
      return;
    }
    std::vector<int64_t> position(part.block.size(), -1), rows;
    for (const int64_t source : part.sources) position[source - part.block.lo] = 0;
    for (int64_t n = 0; n < part.block.size(); ++n) {
      if (position[n] < 0) continue;
      position[n] = static_cast<int64_t>(rows.size());
      rows.push_back(part.block.lo + n);
    }
    part.rows = IndexList(rows);
    for (int64_t& source : part.sources) source = position[source - part.block.lo];
  }

  std::vector<int64_t> needed_rows(size_t w) const {
    const Region& region = tiles_.needs[w][largest_].region;
    return region.is_listed(0) ? region.list->indices() : IndexList::of(region.dims[0]).indices();
  }

  /// The block that the worker has, or begins with.
  size_t first_block(size_t w) const {
    const Tile& own = homes_[largest_].tiles[w];
    const auto found = std::find(blocks_.begin(), blocks_.end(), own.region.dims[0]);
    return own.held && found != blocks_.end() ? found - blocks_.begin() : w % blocks_.size();
  }

  /// Whether the worker has all that it needs of a block of each source.
  bool has_block(size_t w, const Interval& block) const {
    return std::all_of(sums_.sources.begin(), sums_.sources.end(), [&](size_t i) {
      const Tile& own = homes_[i].tiles[w];
      Region wanted{tiles_.needs[w][i].region.dims};
      wanted.dims[0] = block;
      return own.held && own.region.contains(wanted);
    });
  }

  int64_t row_bytes(size_t w, size_t i) const {
    const Region& region = tiles_.needs[w][i].region;
    int64_t numel = 1;
    for (size_t d = 1; d < region.rank(); ++d) numel *= region.size(d);
    return numel * graph_.value(op_.inputs[i]).itemsize;
  }

  int64_t made_bytes(size_t w) const {
    return tiles_.outputs[0].tiles[w].region.numel() * graph_.value(op_.outputs[0]).itemsize;
  }

  /// What the worker has beside its tiles where all rows come at once: them and the result.
  int64_t all_bytes(size_t w) const {
    int64_t bytes = made_bytes(w);
    for (const size_t i : sums_.sources) {
      const Region& wanted = tiles_.needs[w][i].region;
      const Tile& own = homes_[i].tiles[w];
      if (!own.held || !own.region.contains(wanted)) bytes += wanted.size(0) * row_bytes(w, i);
    }
    return bytes;
  }

  /// And where they come by parts: the rows of one, what it adds, and the sum so far.
  int64_t part_bytes(size_t w) const {
    int64_t most = 0, parts = 0;
    for (const auto& part : sums_.parts[w]) {
      if (!part) continue;
      int64_t bytes = 0;
      for (const size_t i : sums_.sources) {
        if (!part->own) bytes += part->rows.size() * row_bytes(w, i);
      }
      for (const size_t i : sums_.values) {
        bytes += static_cast<int64_t>(part->edges.size()) * row_bytes(w, i);
      }
      most = std::max(most, bytes + std::min<int64_t>(parts++, 1) * made_bytes(w));
    }
    constexpr int64_t kAdded = 3;  // a sum, what is added to it, and both together
    return std::max(most + made_bytes(w), (parts > 1 ? kAdded : 1) * made_bytes(w));
  }

  const Graph& graph_;
  const Op& op_;
  const OpTiles& tiles_;
  const std::vector<Layout>& homes_;
  const Reads& reads_;
  size_t largest_ = 0;
  std::vector<Interval> blocks_;
  PeerSums sums_;
};

}  // namespace

bool is_sum_of_messages(const Op& op) {
  constexpr size_t kArgs = 5;
  if (op.target != "smex::spmm" || !op.spec || op.args.size() != kArgs) return false;
  const auto* const in_edges = std::get_if<std::vector<ValueRef>>(&op.args[0]);
  return in_edges && in_edges->size() >= 2 && op.outputs.size() == 1 && op.outputs[0] != kNoValue;
}

std::optional<PeerSums> sums_by_peer(const Graph& graph, const Op& op, const OpTiles& tiles,
                                     const std::vector<Layout>& homes) {
  if (tiles.whole || !is_sum_of_messages(op)) return std::nullopt;
  const Reads reads(op);
  if (!reads.are_known()) return std::nullopt;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (reads.kind(i) == Reads::Kind::kMixed) return std::nullopt;
  }
  return Parts(graph, op, tiles, homes, reads).take();
}

}  // namespace smex
