#include "partition/lower.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "ir/error.h"

namespace smex {

namespace {

/// An op as it will run: itself, or the fused call of a whole fusion.
struct Call {
  const Op* op = nullptr;
  Choices choices;
};

class Lowering {
 public:
  Lowering(const Graph& graph, const Plan& plan)
      : graph_(graph), plan_(plan), classes_(graph), workers_(mesh_size(plan.mesh)) {
    program_.num_workers = workers_;
    program_.workers.resize(workers_);
    home_slots_.assign(graph.values().size(), std::vector<Slot>(workers_, kNoSlot));
    homes_.resize(graph.values().size());
  }

  Program run() {
    bind_inputs();
    std::vector<Call> calls = select_calls();
    std::stable_partition(calls.begin(), calls.end(),
                          [](const Call& call) { return !call.op->backward; });
    find_last_uses(calls);
    for (size_t position = 0; position < calls.size(); ++position) {
      backward_ = calls[position].op->backward;
      lower_call(calls[position]);
      for (ValueId dead : dying_[position]) free_home(dead);
    }
    bind_outputs();
    return std::move(program_);
  }

 private:
  // ---- which calls run ----

  /// The choices under which the fused op makes exactly its members' output tiles, if there are
  /// any.
  std::optional<Choices> fused_choices(const Fusion& fusion) const {
    if (!fusion.fused.spec) return std::nullopt;
    const std::set<OpId> members(fusion.members.begin(), fusion.members.end());
    const std::set<ValueId> made(fusion.fused.outputs.begin(), fusion.fused.outputs.end());
    for (OpId member : fusion.members) {
      for (ValueId output : graph_.op(member).outputs) {
        if (output == kNoValue || made.count(output)) continue;
        if (is_graph_output(output)) return std::nullopt;
        for (OpId user : graph_.value(output).users) {
          if (!members.count(user)) return std::nullopt;
        }
      }
    }
    const auto splits = tdl::derive_splits(*fusion.fused.spec);
    bool reduces = false;
    std::vector<std::vector<int>> candidates;  // by step
    for (size_t step = 0; step < plan_.mesh.size(); ++step) {
      candidates.push_back(step_candidates(fusion, splits, step, reduces));
      if (candidates.back().empty()) return std::nullopt;
    }
    int64_t bytes = 0;
    for (OpId member : fusion.members) bytes += op_bytes(graph_, classes_, plan_, member);
    if (!reduces) {  // one candidate a step: an output's dimension tells which index is cut
      Choices choices;
      for (const auto& step : candidates) choices.push_back(step.front());
      if (op_bytes(graph_, classes_, plan_, fusion.fused, choices) > bytes) return std::nullopt;
      return choices;
    }
    return same_bytes(fusion.fused, candidates, bytes, {});
  }

  /// The indices of the fused op that cut every output as its member does in this step. Of a split
  /// reduction any index will do that reduces alike: the partial results have the same sum.
  std::vector<int> step_candidates(const Fusion& fusion, const std::vector<tdl::Split>& splits,
                                   size_t step, bool& reduces) const {
    std::optional<std::vector<int>> agreed;
    for (size_t o = 0; o < fusion.fused.outputs.size(); ++o) {
      const ValueId output = fusion.fused.outputs[o];
      if (output == kNoValue) continue;
      const Op& member = graph_.op(graph_.value(output).producer);
      std::vector<int> found = translate(member, output, fusion.fused, splits, o, step);
      reduces = reduces || found.size() > 1 || is_reduction(splits, found);
      if (agreed) {
        std::erase_if(found, [&](int index) {
          return std::find(agreed->begin(), agreed->end(), index) == agreed->end();
        });
      }
      agreed = std::move(found);
    }
    return agreed.value_or(std::vector<int>{});
  }

  static bool is_reduction(const std::vector<tdl::Split>& splits, const std::vector<int>& indices) {
    return std::any_of(splits.begin(), splits.end(), [&](const tdl::Split& split) {
      return split.reduction && !indices.empty() && split.index == indices.front();
    });
  }

  /// The fused op's indices that cut `output` as its member does in this step.
  std::vector<int> translate(const Op& member, ValueId output, const Op& fused,
                             const std::vector<tdl::Split>& splits, size_t position,
                             size_t step) const {
    const int choice = plan_.ops[member.id][step];
    if (choice == kReplicate) return {kReplicate};
    const int member_output = graph_.value(output).output_index;
    const auto& axes = member.spec->outputs[member_output].axes;
    const auto axis = std::find(axes.begin(), axes.end(), choice);
    const bool reduction = axis == axes.end();
    const auto& fused_axes = fused.spec->outputs.at(position).axes;
    if (fused_axes.size() != axes.size()) return {};
    const int wanted = reduction ? -1 : fused_axes[axis - axes.begin()];
    std::vector<int> found;
    for (const tdl::Split& split : splits) {
      if (split.reduction == reduction && (reduction || split.index == wanted)) {
        found.push_back(split.index);
      }
    }
    return found;
  }

  /// The first choices of the candidates under which the fused op moves just `bytes`.
  std::optional<Choices> same_bytes(const Op& fused,
                                    const std::vector<std::vector<int>>& candidates, int64_t bytes,
                                    const Choices& chosen) const {
    if (chosen.size() == candidates.size()) {
      if (op_bytes(graph_, classes_, plan_, fused, chosen) != bytes) return std::nullopt;
      return chosen;
    }
    for (int index : candidates[chosen.size()]) {
      Choices more = chosen;
      more.push_back(index);
      if (auto found = same_bytes(fused, candidates, bytes, more)) return found;
    }
    return std::nullopt;
  }

  bool is_graph_output(ValueId id) const {
    return std::any_of(graph_.outputs().begin(), graph_.outputs().end(),
                       [id](const GraphOutput& output) { return output.value == id; });
  }

  std::vector<Call> select_calls() const {
    std::vector<const Fusion*> chosen(graph_.ops().size(), nullptr);
    std::map<const Fusion*, Choices> choices;
    // A fusion may lie in a larger one, which goes first.
    std::vector<const Fusion*> candidates;
    for (const Fusion& fusion : graph_.fusions()) candidates.push_back(&fusion);
    std::stable_sort(candidates.begin(), candidates.end(), [](const Fusion* a, const Fusion* b) {
      return a->members.size() > b->members.size();
    });
    for (const Fusion* fusion : candidates) {
      const auto& members = fusion->members;
      if (std::any_of(members.begin(), members.end(), [&](OpId id) { return chosen[id]; }))
        continue;
      const std::optional<Choices> found =
          plan_.mesh.empty() && fusable_unsplit(*fusion) ? Choices{} : fused_choices(*fusion);
      if (!found) continue;
      choices[fusion] = *found;
      for (OpId member : members) chosen[member] = fusion;
    }
    std::vector<Call> calls;
    for (const Op& op : graph_.ops()) {
      const Fusion* fusion = chosen[op.id];
      if (!fusion) {
        calls.push_back({&op, plan_.ops[op.id]});
      } else if (op.id == fusion->members.front()) {
        calls.push_back({&fusion->fused, choices[fusion]});
      }
    }
    return calls;
  }

  /// Without a split a fusion needs no spec, only that nobody looks inside.
  bool fusable_unsplit(const Fusion& fusion) const {
    Fusion any = fusion;
    if (any.fused.spec) return false;
    const std::set<OpId> members(fusion.members.begin(), fusion.members.end());
    const std::set<ValueId> made(fusion.fused.outputs.begin(), fusion.fused.outputs.end());
    for (OpId member : fusion.members) {
      for (ValueId output : graph_.op(member).outputs) {
        if (output == kNoValue || made.count(output)) continue;
        if (is_graph_output(output)) return false;
        for (OpId user : graph_.value(output).users) {
          if (!members.count(user)) return false;
        }
      }
    }
    return true;
  }

  // ---- slots and lifetimes ----

  Slot new_slot(int worker, const Value& value) {
    WorkerProgram& program = program_.workers[worker];
    program.remote_reads.push_back(0);
    program.slot_names.push_back(value.name);
    program.slot_itemsizes.push_back(value.itemsize);
    return program.num_slots++;
  }

  void emit(int worker, Instr instr) {
    WorkerProgram& program = program_.workers[worker];
    (backward_ ? program.backward : program.forward).push_back(std::move(instr));
  }

  void emit_free(int worker, Slot slot) {
    Instr instr;
    instr.kind = InstrKind::kFree;
    instr.free.slot = slot;
    emit(worker, std::move(instr));
  }

  const Layout& home(ValueId id) {
    if (homes_[id].tiles.empty()) {
      homes_[id] = home_layout(graph_, classes_, plan_.mesh, id, plan_.values[id]);
    }
    return homes_[id];
  }

  void bind_inputs() {
    for (const Value& value : graph_.values()) {
      if (value.role == Role::kIntermediate) continue;
      Binding binding{value.id, {}, {}};
      for (int w = 0; w < workers_; ++w) {
        const Tile& tile = home(value.id).tiles[w];
        const Slot slot = tile.held ? new_slot(w, value) : kNoSlot;
        home_slots_[value.id][w] = slot;
        binding.slots.push_back(slot);
        binding.regions.push_back(tile.region);
      }
      program_.inputs.push_back(std::move(binding));
    }
  }

  void bind_outputs() {
    for (const GraphOutput& output : graph_.outputs()) {
      Binding binding{output.value, {}, {}};
      for (int w = 0; w < workers_; ++w) {
        if (output.value == kNoValue) {  // a parameter that the loss does not depend on
          binding.slots.push_back(kNoSlot);
          binding.regions.emplace_back();
          continue;
        }
        binding.slots.push_back(home_slots_[output.value][w]);
        binding.regions.push_back(home(output.value).tiles[w].region);
      }
      program_.outputs.push_back(std::move(binding));
    }
  }

  void find_last_uses(const std::vector<Call>& calls) {
    dying_.resize(calls.size());
    std::vector<int> last(graph_.values().size(), -1);
    for (size_t position = 0; position < calls.size(); ++position) {
      const Op& op = *calls[position].op;
      for (ValueId id : op.inputs) last[id] = static_cast<int>(position);
      for (ValueId id : op.outputs) {
        if (id != kNoValue) last[id] = std::max(last[id], static_cast<int>(position));
      }
    }
    for (const GraphOutput& output : graph_.outputs()) {
      if (output.value != kNoValue) last[output.value] = -1;
    }
    for (const Value& value : graph_.values()) {
      if (last[value.id] >= 0 && !outlives_run(value.role)) {
        dying_[last[value.id]].push_back(value.id);
      }
    }
  }

  /// The module holds these tiles before and after; giving up a reference would free nothing.
  static bool outlives_run(Role role) {
    return role == Role::kParameter || role == Role::kBuffer || role == Role::kConstant;
  }

  void free_home(ValueId id) {
    for (int w = 0; w < workers_; ++w) {
      if (home_slots_[id][w] != kNoSlot) emit_free(w, home_slots_[id][w]);
    }
  }

  // ---- one call ----

  /// A view of a box of a local slot.
  Slot emit_view(int worker, const Value& value, Slot slot, const Region& held,
                 const Region& wanted) {
    FetchInstr fetch;
    fetch.value = value.id;
    fetch.dest = new_slot(worker, value);
    fetch.shape = wanted.shape();
    fetch.dtype = value.dtype;
    fetch.view = true;
    fetch.kind = "view";
    fetch.parts.push_back(
        {worker, slot, wanted.relative_to(held).dims, Region::whole(wanted.shape()).dims});
    Instr instr;
    instr.kind = InstrKind::kFetch;
    instr.fetch = std::move(fetch);
    const Slot dest = instr.fetch.dest;
    emit(worker, std::move(instr));
    return dest;
  }

  /// Assembles `frame` (coordinates of the value) from the copies that are meant for `worker`.
  Slot emit_fetch(int worker, const Value& value, const Region& frame,
                  const std::vector<Copy>& copies, const Layout& have,
                  const std::vector<Slot>& slots, std::optional<tdl::ReduceKind> reduce,
                  double fill, const std::string& kind) {
    FetchInstr fetch;
    fetch.value = value.id;
    fetch.dest = new_slot(worker, value);
    fetch.shape = frame.shape();
    fetch.dtype = value.dtype;
    fetch.reducing = reduce.has_value();
    fetch.reduce = reduce.value_or(tdl::ReduceKind::kSum);
    fetch.fill = fill;
    fetch.kind = kind;
    std::set<int> peers;
    for (const Copy& copy : copies) {
      if (copy.dest != worker) continue;
      fetch.parts.push_back({copy.source, slots[copy.source],
                             copy.region.relative_to(have.tiles[copy.source].region).dims,
                             copy.region.relative_to(frame).dims});
      if (copy.source != worker) peers.insert(copy.source);
    }
    for (int peer : peers) ++program_.workers[peer].remote_reads[slots[peer]];
    Instr instr;
    instr.kind = InstrKind::kFetch;
    const Slot dest = fetch.dest;
    instr.fetch = std::move(fetch);
    emit(worker, std::move(instr));
    return dest;
  }

  /// How one worker's kernel call differs from the tile it is for.
  struct Window {
    bool padded = false;         ///< its inputs are padded by hand
    std::vector<Interval> crop;  ///< of what it computes; empty: nothing is cropped
    Shape computed;              ///< the shape before the crop
    Region tile;                 ///< of the cropped output
    /// By dimension of the output, where it is cropped: how far the tile reaches beyond what the
    /// windows cover.
    std::vector<std::optional<int64_t>> rest;
  };

  /// The crop of a tile on which windows land (a transposed convolution).
  static void find_crop(const Op& op, const tdl::IndexRanges& ranges,
                        const std::vector<tdl::InputNeed>& needs, Window& window) {
    if (!op.spec || !tdl::has_landings(*op.spec)) return;
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
  bool cuts_windows(const Call& call, const std::vector<tdl::InputNeed>& needs) const {
    const auto full = tdl::input_needs(*call.op->spec, tdl::full_ranges(*call.op->spec));
    for (size_t i = 0; i < needs.size(); ++i) {
      if (!needs[i].used) continue;
      const Shape& shape = graph_.value(call.op->inputs[i]).shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        if (full[i].region.dims[d] == full[i].unclamped.dims[d] &&
            full[i].region.dims[d] == needs[i].unclamped.dims[d]) {
          continue;  // an ordinary dimension, or not padded
        }
        const bool window = !(full[i].region.dims[d] == full[i].unclamped.dims[d]);
        if (window && !(needs[i].unclamped.dims[d] == full[i].unclamped.dims[d] &&
                        needs[i].region.dims[d].size() == shape[d])) {
          return true;
        }
      }
    }
    return false;
  }

  void lower_call(const Call& call) {
    const Op& op = *call.op;
    const auto splits = op.spec ? tdl::derive_splits(*op.spec) : std::vector<tdl::Split>{};
    const OpTiles tiles = op_tiles(graph_, classes_, op, splits, call.choices, plan_.mesh);
    std::vector<std::vector<Slot>> operands(workers_, std::vector<Slot>(op.inputs.size(), kNoSlot));
    std::vector<std::vector<Slot>> temporary(workers_);
    std::vector<Window> windows(workers_);
    const bool has_window = std::any_of(op.local.begin(), op.local.end(), [](const LocalArg& arg) {
      return arg.rule == LocalRule::kWindow;
    });
    for (int w = 0; w < workers_; ++w) {
      if (!has_window || tiles.whole || !tiles.active[w]) continue;
      windows[w].padded = cuts_windows(call, tiles.needs[w]);
      find_crop(op, tiles.ranges[w], tiles.needs[w], windows[w]);
    }
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      fetch_input(op, tiles, i, windows, operands, temporary);
    }
    std::vector<std::vector<Slot>> made(op.outputs.size(), std::vector<Slot>(workers_, kNoSlot));
    for (int w = 0; w < workers_; ++w) {
      if (!tiles.active[w]) continue;
      emit_compute(op, tiles, w, windows[w], operands[w], made);
      for (Slot slot : temporary[w]) emit_free(w, slot);
    }
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      if (op.outputs[o] != kNoValue) store(graph_.value(op.outputs[o]), tiles, o, made[o]);
    }
  }

  void fetch_input(const Op& op, const OpTiles& tiles, size_t i, const std::vector<Window>& windows,
                   std::vector<std::vector<Slot>>& operands,
                   std::vector<std::vector<Slot>>& temporary) {
    const Value& value = graph_.value(op.inputs[i]);
    const Layout& have = home(value.id);
    const std::vector<Tile> need = needed_tiles(tiles, i);
    const std::vector<Copy> copies = relayout(have, need);
    for (int w = 0; w < workers_; ++w) {
      if (!tiles.active[w]) continue;
      const tdl::InputNeed& asked = tiles.needs[w][i];
      const bool shaped = asked.region.rank() == value.shape.size();
      const Region wanted =
          shaped ? asked.region : Region::whole(Shape(value.shape.size(), 0));  // reads nothing
      const bool pad = windows[w].padded && asked.used && !(asked.unclamped == asked.region);
      const Tile& own = have.tiles[w];
      if (!asked.used) {
        operands[w][i] = stand_in(value, w, own, shape_of(wanted, windows[w]), temporary[w]);
        continue;
      }
      if (!pad && own.held && own.region.contains(wanted)) {
        if (own.region == wanted) {
          operands[w][i] = home_slots_[value.id][w];
          continue;
        }
        operands[w][i] = emit_view(w, value, home_slots_[value.id][w], own.region, wanted);
      } else {
        operands[w][i] = emit_fetch(w, value, pad ? asked.unclamped : wanted, copies, have,
                                    home_slots_[value.id], std::nullopt, pad_value(op, i),
                                    pad ? "halo" : "fetch");
      }
      temporary[w].push_back(operands[w][i]);
    }
  }

  /// The shape of an operand that gives its shape only: that of what is computed, where it asks for
  /// the tile of a cropped output.
  static Shape shape_of(const Region& wanted, const Window& window) {
    return !window.crop.empty() && wanted == window.tile ? window.computed : wanted.shape();
  }

  /// An operand of which only the shape matters: the worker's own tile where that is large enough.
  Slot stand_in(const Value& value, int worker, const Tile& own, const Shape& shape,
                std::vector<Slot>& temporary) {
    const Region box = Region::whole(shape);
    if (own.held && own.region.shape() == shape) return home_slots_[value.id][worker];
    if (own.held && Region::whole(own.region.shape()).contains(box)) {
      temporary.push_back(emit_view(worker, value, home_slots_[value.id][worker],
                                    Region::whole(own.region.shape()), box));
    } else {
      temporary.push_back(emit_fetch(worker, value, box, {}, {}, {}, std::nullopt, 0, "shape"));
      last_fetch(worker).shape_only = true;
    }
    return temporary.back();
  }

  FetchInstr& last_fetch(int worker) {
    WorkerProgram& program = program_.workers[worker];
    return (backward_ ? program.backward : program.forward).back().fetch;
  }

  /// What padded reads of this input see outside of it.
  static double pad_value(const Op& op, size_t input) {
    if (!op.spec) return 0;
    for (const tdl::Statement& statement : op.spec->outputs) {
      if (!statement.body) continue;
      if (const auto pad = find_pad(statement.body, static_cast<int>(input))) return *pad;
    }
    return 0;
  }

  static std::optional<double> find_pad(const tdl::ExprPtr& expr, int input) {
    if (expr->kind == tdl::ExprKind::kRead && expr->input == input && expr->pad) return expr->pad;
    for (const tdl::ExprPtr& arg : expr->args) {
      if (const auto pad = find_pad(arg, input)) return pad;
    }
    return std::nullopt;
  }

  void emit_compute(const Op& op, const OpTiles& tiles, int w, const Window& window,
                    const std::vector<Slot>& operands, std::vector<std::vector<Slot>>& made) {
    Instr instr;
    instr.kind = InstrKind::kCompute;
    ComputeInstr& compute = instr.compute;
    compute.op = op.id;
    compute.target = op.target;
    compute.args = op.args;
    auto local = [&](ValueRef& ref) {
      if (ref.id == kNoValue) return;
      const auto it = std::find(op.inputs.begin(), op.inputs.end(), ref.id);
      ref.id = operands[it - op.inputs.begin()];
    };
    for (Attr& arg : compute.args) {
      if (auto* ref = std::get_if<ValueRef>(&arg)) local(*ref);
      if (auto* refs = std::get_if<std::vector<ValueRef>>(&arg)) {
        for (ValueRef& ref : *refs) local(ref);
      }
    }
    if (!tiles.whole) localise(op, tiles, w, window, compute.args);
    compute.crop = window.crop;
    compute.computed = window.computed;
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      Slot slot = kNoSlot;
      Shape shape;
      if (op.outputs[o] != kNoValue) {
        slot = made[o][w] = new_slot(w, graph_.value(op.outputs[o]));
        shape = tiles.outputs[o].tiles[w].region.shape();
      }
      compute.outputs.push_back(slot);
      compute.output_shapes.push_back(std::move(shape));
    }
    emit(w, std::move(instr));
  }

  /// Rewrites the arguments that depend on the tile.
  static void localise(const Op& op, const OpTiles& tiles, int w, const Window& window,
                       std::vector<Attr>& args) {
    const Region first = tdl::output_region(*op.spec, 0, tiles.ranges[w]);
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
          arg = tiles.needs[w].front().region.dims.at(0).size();
          break;
        case LocalRule::kOffset: {
          std::vector<int64_t> corner;
          for (const Interval& dim : first.dims) corner.push_back(dim.lo);
          arg = std::move(corner);
          break;
        }
      }
    }
  }

  /// Rewrites padding (or `rest`, output padding): a list for the last dimensions, or one number
  /// for all of them.
  static void localise_window(const Window& window, bool rest, std::vector<int64_t>& list) {
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

  /// Brings an output from where it was made to its home.
  void store(const Value& value, const OpTiles& tiles, size_t position,
             const std::vector<Slot>& made) {
    const Layout& from = tiles.outputs[position];
    const Layout& to = home(value.id);
    const std::vector<Tile> stage = scatter_stage(from, to.tiles);
    const bool pending = from.num_partials > 1;
    std::vector<Slot> staged =
        move(value, from, made, stage, pending, tiles.reduce, pending ? "reduce_scatter" : "store");
    const Layout stage_layout{stage, 1};
    home_slots_[value.id] =
        move(value, stage_layout, staged, to.tiles, /*pending=*/false, tiles.reduce, "all_gather");
  }

  /// Moves a value between layouts; slots that are not passed on are freed.
  std::vector<Slot> move(const Value& value, const Layout& from, const std::vector<Slot>& slots,
                         const std::vector<Tile>& to, bool pending, tdl::ReduceKind reduce,
                         const std::string& kind) {
    const std::vector<Copy> copies = relayout(from, to);
    std::vector<Slot> moved(workers_, kNoSlot);
    std::vector<bool> kept(workers_, false);
    for (int w = 0; w < workers_; ++w) {
      if (!to[w].held) continue;
      const Tile& own = from.tiles[w];
      if (!pending && own.held && own.region == to[w].region) {
        moved[w] = slots[w];
        kept[w] = true;
      } else {
        moved[w] = emit_fetch(w, value, to[w].region, copies, from, slots,
                              pending ? std::optional(reduce) : std::nullopt, /*fill=*/0, kind);
      }
    }
    for (int w = 0; w < workers_; ++w) {
      if (!kept[w] && slots[w] != kNoSlot) emit_free(w, slots[w]);
    }
    return moved;
  }

  const Graph& graph_;
  const Plan& plan_;
  const DimClasses classes_;
  const int workers_;
  Program program_;
  bool backward_ = false;
  std::vector<Layout> homes_;
  std::vector<std::vector<Slot>> home_slots_;  ///< [value][worker]
  std::vector<std::vector<ValueId>> dying_;    ///< by call position
};

}  // namespace

Program lower(const Graph& graph, const Plan& plan) { return Lowering(graph, plan).run(); }

}  // namespace smex
