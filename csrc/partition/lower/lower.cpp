#include "partition/lower/lower.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "ir/error.h"
#include "partition/lower/fetch.h"
#include "partition/lower/fuse.h"
#include "partition/lower/in_place.h"
#include "partition/lower/overlap.h"
#include "partition/lower/pointwise.h"
#include "partition/lower/strides.h"
#include "partition/lower/sums_by_peer.h"
#include "partition/lower/window.h"
#include "partition/plan/recomputation.h"
#include "partition/price/call_cost.h"

namespace smex {

namespace {

/// Whether `inner` is a box inside of `outer`, a box, also where it is empty.
bool covers(const Region& outer, const Region& inner) {
  if (outer.list || inner.list) return outer == inner;
  for (size_t d = 0; d < outer.rank(); ++d) {
    if (inner.dims[d].lo < outer.dims[d].lo || inner.dims[d].hi > outer.dims[d].hi) return false;
  }
  return true;
}

/// The copies between two layouts, listed when a worker has to fetch.
class Copies {
 public:
  Copies(const Layout& have, const std::vector<Tile>& need) : have_(have), need_(need) {}

  const std::vector<Copy>& list() {
    if (!copies_) copies_ = relayout(have_, need_);
    return *copies_;
  }

 private:
  const Layout& have_;
  const std::vector<Tile>& need_;
  std::optional<std::vector<Copy>> copies_;
};

class Lowering {
 public:
  Lowering(const Graph& graph, const Plan& plan)
      : graph_(graph), plan_(plan), classes_(graph), workers_(mesh_size(plan.mesh)) {
    program_.num_workers = workers_;
    program_.workers.resize(workers_);
    strides_.resize(workers_);
    tables_.resize(workers_);
    home_slots_.assign(graph.values().size(), std::vector<Slot>(workers_, kNoSlot));
    homes_.resize(graph.values().size());
  }

  Program run(const LowerOptions& options) {
    calls_ = select_calls(graph_, classes_, plan_);
    std::stable_partition(calls_.begin(), calls_.end(),
                          [](const Call& call) { return !call.backward; });
    if (!plan_.order.empty()) calls_ = in_order(calls_);
    calls_ = with_second_runs(calls_);
    bind_inputs();
    find_last_uses(calls_);
    for (size_t position = 0; position < calls_.size(); ++position) {
      backward_ = calls_[position].backward;
      lower_call(calls_[position]);
      for (ValueId dead : dying_[position]) free_home(dead);
    }
    bind_outputs();
    bind_tables();
    if (options.join) join_pointwise(graph_, strides_, options.views, program_);
    write_in_place(program_, options.views);
    if (options.overlap) overlap(program_, options.views);
    // Programs of many sizes are kept.
    for (WorkerProgram& program : program_.workers) {
      program.forward.shrink_to_fit();
      program.backward.shrink_to_fit();
      program.remote_reads.shrink_to_fit();
      program.slot_names.shrink_to_fit();
      program.slot_itemsizes.shrink_to_fit();
    }
    return std::move(program_);
  }

 private:
  // ---- slots and lifetimes ----

  Slot new_slot(int worker, const Value& value) {
    strides_[worker].emplace_back();
    return add_slot(program_.workers[worker], value.name, value.itemsize);
  }

  void emit(int worker, Instr instr) {
    WorkerProgram& program = program_.workers[worker];
    (backward_ ? program.backward : program.forward).push_back(std::move(instr));
  }

  void emit_free(int worker, Slot slot) { emit(worker, FreeInstr{slot}); }

  const Layout& home(ValueId id) {
    if (homes_[id].tiles.empty()) homes_[id] = home_layout(graph_, classes_, plan_, id);
    return homes_[id];
  }

  void bind_inputs() {
    const std::vector<bool> is_read = read_values();
    for (const Value& value : graph_.values()) {
      if (value.role == Role::kIntermediate) continue;
      Binding binding{value.id, {}, {}};
      const bool is_bound = value.role != Role::kConstant || is_read[value.id];
      for (int w = 0; w < workers_; ++w) {
        const Tile& tile = home(value.id).tiles[w];
        const Slot slot = tile.held && is_bound ? new_slot(w, value) : kNoSlot;
        home_slots_[value.id][w] = slot;
        binding.slots.push_back(slot);
        binding.regions.push_back(tile.region);
      }
      program_.inputs.push_back(std::move(binding));
    }
  }

  /// By value whether something reads it, and not only a table that is made of it.
  std::vector<bool> read_values() const {
    std::vector<bool> is_read(graph_.values().size(), false);
    for (const Call& call : calls_) {
      const Op& op = *call.op;
      const bool is_whole = runs_whole(call.choices);
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        const bool is_table = !is_whole && op.spec && op.spec->table(static_cast<int>(i));
        if (!is_table) is_read[op.inputs[i]] = true;
      }
    }
    for (const GraphOutput& output : graph_.outputs()) {
      if (output.value != kNoValue) is_read[output.value] = true;
    }
    return is_read;
  }

  /// The slot of a table of a worker's own, one for all calls that have the same.
  /// Of more dimensions than one all others have size 1.
  Slot table_slot(int worker, const Value& value, std::vector<int64_t> numbers, size_t rank = 1) {
    for (const OwnTable& known : tables_[worker]) {
      const bool is_alike = known.itemsize == value.itemsize && known.rank == rank;
      if (is_alike && *known.numbers == numbers) return known.slot;
    }
    auto content = std::make_shared<const std::vector<int64_t>>(std::move(numbers));
    tables_[worker].push_back({value.itemsize, std::move(content), new_slot(worker, value), rank});
    return tables_[worker].back().slot;
  }

  void bind_tables() {
    size_t most = 0;
    for (const auto& own : tables_) most = std::max(most, own.size());
    for (size_t n = 0; n < most; ++n) {
      Binding& binding = program_.inputs.emplace_back();
      for (const auto& own : tables_) {
        const OwnTable table = n < own.size() ? own[n] : OwnTable{};
        const auto size = static_cast<int64_t>(table.numbers ? table.numbers->size() : 0);
        binding.slots.push_back(table.slot);
        Shape shape(table.rank, 1);
        shape[0] = size;
        binding.regions.push_back(Region::whole(shape));
        binding.contents.push_back(table.numbers);
      }
    }
  }

  void bind_outputs() {
    for (const GraphOutput& output : graph_.outputs()) {
      Binding binding{output.value, {}, {}};
      if (output.value == kNoValue) {  // a parameter that the loss does not depend on
        binding.slots.assign(workers_, kNoSlot);
        binding.regions.resize(workers_);
      } else {
        const Layout& layout = output_layout(output);
        binding.slots = output_slots(output, layout);
        for (const Tile& tile : layout.tiles) binding.regions.push_back(tile.region);
      }
      program_.outputs.push_back(std::move(binding));
    }
  }

  /// A gradient lies as its parameter does, and a buffer's new value as the buffer.
  const Layout& output_layout(const GraphOutput& output) {
    const bool imposed = output.target != kNoValue && plan_.shards.count(output.target);
    return home(imposed ? output.target : output.value);
  }

  /// A value that is the gradient of several parameters, whose shards differ, is moved once more.
  std::vector<Slot> output_slots(const GraphOutput& output, const Layout& layout) {
    const Layout& have = home(output.value);
    const Value& value = graph_.value(output.value);
    backward_ = output.kind == OutputKind::kGradient;
    std::vector<Slot> slots = home_slots_[output.value];
    Copies copies(have, layout.tiles);
    ++num_relayouts_;
    for (int w = 0; w < workers_; ++w) {
      const Tile &own = have.tiles[w], &wanted = layout.tiles[w];
      if (!wanted.held) slots[w] = kNoSlot;
      if (!wanted.held || (own.held && own.region == wanted.region)) continue;
      slots[w] = emit_fetch(w, value, wanted.region, copies.list(), have, home_slots_[output.value],
                            std::nullopt, /*fill=*/0, "store");
    }
    return slots;
  }

  /// The calls as the plan orders them, each after what it reads. Forward calls stay before
  /// backward ones, and those that draw from torch's generator in their order.
  std::vector<Call> in_order(const std::vector<Call>& calls) const {
    if (plan_.order.size() != graph_.ops().size()) {
      throw InternalError("plan: an order of " + std::to_string(plan_.order.size()) + " ops for " +
                          std::to_string(graph_.ops().size()));
    }
    const int count = static_cast<int>(calls.size());
    std::vector<int> maker(graph_.values().size(), -1), waits(count, 0);
    std::vector<std::vector<int>> followers(count);
    const auto follow = [&](int before, int after) {
      if (before < 0) return;
      followers[before].push_back(after);
      ++waits[after];
    };
    int drawn = -1;
    for (int n = 0; n < count; ++n) {
      for (const ValueId input : calls[n].op->inputs) follow(maker[input], n);
      if (calls[n].op->random) follow(std::exchange(drawn, n), n);
      for (const ValueId output : calls[n].op->outputs) {
        if (output != kNoValue) maker[output] = n;
      }
    }
    std::set<std::tuple<bool, int, int>> ready;  // backward, place, call
    const auto add = [&](int n) { ready.emplace(calls[n].backward, place_of(*calls[n].op), n); };
    for (int n = 0; n < count; ++n) {
      if (waits[n] == 0) add(n);
    }
    std::vector<Call> ordered;
    while (!ready.empty()) {
      const int n = std::get<2>(*ready.begin());
      ready.erase(ready.begin());
      ordered.push_back(calls[n]);
      for (const int after : followers[n]) {
        if (--waits[after] == 0) add(after);
      }
    }
    return ordered;
  }

  /// Of a fused call that of the last op whose outputs it makes.
  int place_of(const Op& op) const {
    if (op.id >= 0) return plan_.order[op.id];
    int last = 0;
    for (const ValueId output : op.outputs) {
      if (output != kNoValue) last = std::max(last, plan_.order[graph_.value(output).producer]);
    }
    return last;
  }

  /// The calls, and among the backward ones those that run again, for what was given up only.
  std::vector<Call> with_second_runs(const std::vector<Call>& calls) {
    std::vector<const Op*> ops;
    for (const Call& call : calls) ops.push_back(call.op);
    const Recomputation recomputed = recomputation(graph_, ops);
    std::vector<Call> all;
    for (size_t position = 0; position < calls.size(); ++position) {
      for (int again : recomputed.before[position]) {
        Op& op = second_runs_.emplace_back(*calls[again].op);
        for (ValueId& output : op.outputs) {
          if (output != kNoValue && !recomputed.remade[output]) output = kNoValue;
        }
        all.push_back({&op, calls[again].choices, /*backward=*/true, /*again=*/true});
      }
      all.push_back(calls[position]);
    }
    return all;
  }

  /// A value that is made again is given up in between.
  void find_last_uses(const std::vector<Call>& calls) {
    dying_.resize(calls.size());
    std::vector<int> last(graph_.values().size(), -1);
    for (size_t position = 0; position < calls.size(); ++position) {
      const Op& op = *calls[position].op;
      for (ValueId id : op.inputs) last[id] = static_cast<int>(position);
      for (ValueId id : op.outputs) {
        if (id == kNoValue) continue;
        if (calls[position].again) dying_[last[id]].push_back(id);
        last[id] = std::max(last[id], static_cast<int>(position));
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
    fetch.parts.push_back({worker, slot, wanted.relative_to(held), Region::whole(wanted.shape())});
    const Slot dest = fetch.dest;
    strides_[worker][dest] = of_box({held.shape(), strides_[worker][slot]}, wanted.shape());
    emit(worker, std::move(fetch));
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
    fetch.relayout = num_relayouts_;
    add_parts(fetch, worker, frame, copies, have, slots, program_);
    const Slot dest = fetch.dest;
    emit(worker, std::move(fetch));
    return dest;
  }

  void lower_call(const Call& call) {
    const Op& op = *call.op;
    OpTiles tiles = op_tiles(graph_, classes_, plan_, op, call.choices);
    for (int w = 0; w < workers_; ++w) read_boxes_in_place(op, w, tiles);
    std::vector<std::vector<Slot>> operands(workers_, std::vector<Slot>(op.inputs.size(), kNoSlot));
    std::vector<std::vector<Slot>> temporary(workers_);
    std::vector<Window> windows(workers_);
    for (int w = 0; w < workers_; ++w) {
      if (tiles.whole || !tiles.active[w]) continue;
      windows[w] = find_window(op, tiles.ranges[w], tiles.needs[w]);
    }
    const auto sums = plan_.by_peer ? by_peer(op, tiles) : std::nullopt;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (sums && contains(sums->sources, i)) continue;
      fetch_input(op, tiles, i, windows, operands, temporary);
    }
    if (!sums && !tiles.whole && op.spec && !op.spec->tables.empty()) {
      give_tables(op, tiles, operands);
    }
    std::vector<std::vector<Slot>> made(op.outputs.size(), std::vector<Slot>(workers_, kNoSlot));
    if (sums) sum_by_peer(op, tiles, *sums, operands, made[0]);
    for (int w = 0; w < workers_; ++w) {
      if (!tiles.active[w]) continue;
      if (!sums) emit_compute(op, tiles, w, windows[w], operands[w], made);
      for (Slot slot : temporary[w]) emit_free(w, slot);
    }
    if (has_means(tiles)) merge_means(op, tiles, made);
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      if (op.outputs[o] != kNoValue) store(graph_.value(op.outputs[o]), tiles, o, made[o]);
    }
  }

  /// Lets a worker that holds all rows around those that its messages come from take them where
  /// they are, as a view, in place of copies of the listed ones. The tables of the call, which
  /// number the rows of its operands, are one for all of these: it is all operands or none. Rows of
  /// edges are as many as the tables have edges, and stay listed.
  void read_boxes_in_place(const Op& op, int worker, OpTiles& tiles) {
    static const std::set<std::string> kReaders{"smex::attention", "smex::gat_attention",
                                                "smex::gat_gradient_by_destination",
                                                "smex::gat_gradient_by_source", "smex::spmm"};
    if (tiles.whole || !tiles.active[worker] || !kReaders.count(op.target)) return;
    const auto is_of_edges = [&](const Region& region, const Shape& shape) {
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        if (!op.spec->table(static_cast<int>(i))) continue;
        if (graph_.value(op.inputs[i]).shape.at(0) == shape[region.axis]) return true;
      }
      return false;
    };
    std::vector<tdl::InputNeed*> listed;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      tdl::InputNeed& need = tiles.needs[worker][i];
      if (!need.used || !need.region.list || op.spec->table(static_cast<int>(i))) continue;
      if (is_of_edges(need.region, graph_.value(op.inputs[i]).shape)) continue;
      const Tile& own = home(op.inputs[i]).tiles[worker];
      if (!own.held || !covers(own.region, Region{need.region.dims})) return;
      listed.push_back(&need);
    }
    for (tdl::InputNeed* need : listed) {
      need->region = Region{need->region.dims};
      need->unclamped = need->region;
    }
  }

  // ---- sums whose sources come from one peer at a time ----

  static bool contains(const std::vector<size_t>& inputs, size_t input) {
    return std::find(inputs.begin(), inputs.end(), input) != inputs.end();
  }

  std::optional<PeerSums> by_peer(const Op& op, const OpTiles& tiles) {
    if (!is_sum_of_messages(op)) return std::nullopt;
    std::vector<Layout> homes;
    for (const ValueId input : op.inputs) homes.push_back(home(input));
    return sums_by_peer(graph_, op, tiles, homes);
  }

  void sum_by_peer(const Op& op, const OpTiles& tiles, const PeerSums& sums,
                   const std::vector<std::vector<Slot>>& operands, std::vector<Slot>& made) {
    ++program_.sums_by_peer;
    for (size_t turn = 0; turn < sums.turns; ++turn) {
      std::vector<std::vector<Slot>> given = operands, temporary(workers_);
      for (const size_t i : sums.sources) fetch_part(op, tiles, sums, turn, i, given, temporary);
      for (int w = 0; w < workers_; ++w) {
        const auto& part = sums.parts[w][turn];
        if (!part) continue;
        const Slot more = emit_part(op, tiles, w, sums, *part, given[w]);
        for (const Slot slot : temporary[w]) emit_free(w, slot);
        if (made[w] == kNoSlot) {
          made[w] = more;
          continue;
        }
        const Slot before = made[w];
        made[w] = emit_added(op, tiles, w, "aten::add.Tensor",
                             {ValueRef{before}, ValueRef{more}, int64_t{1}});
        for (const Slot slot : {before, more}) emit_free(w, slot);
      }
    }
    if (std::get<std::string>(op.args[3]) != "mean") return;
    const Value& bounds = graph_.value(std::get<std::vector<ValueRef>>(op.args[0])[0].id);
    for (int w = 0; w < workers_; ++w) {
      if (!tiles.active[w]) continue;
      const size_t rank = tiles.outputs[0].tiles[w].region.rank();
      const Slot degrees = table_slot(w, bounds, sums.degrees[w], rank);
      const Slot sum = made[w];
      made[w] = emit_added(op, tiles, w, "aten::div.Tensor", {ValueRef{sum}, ValueRef{degrees}});
      emit_free(w, sum);
    }
  }

  /// Gives each worker the rows of an input that it adds in this turn.
  void fetch_part(const Op& op, const OpTiles& tiles, const PeerSums& sums, size_t turn, size_t i,
                  std::vector<std::vector<Slot>>& given,
                  std::vector<std::vector<Slot>>& temporary) {
    const Value& value = graph_.value(op.inputs[i]);
    const Layout& have = home(value.id);
    std::vector<Tile> need(workers_);
    for (int w = 0; w < workers_; ++w) {
      const auto& part = sums.parts[w][turn];
      if (part) need[w] = {true, Region::listed(tiles.needs[w][i].region.dims, 0, part->rows)};
    }
    Copies copies(have, need);
    ++num_relayouts_;
    for (int w = 0; w < workers_; ++w) {
      if (!need[w].held) continue;
      const Region& wanted = need[w].region;
      const Tile& own = have.tiles[w];
      const Slot kept = home_slots_[value.id][w];
      if (own.held && own.region == wanted) {
        given[w][i] = kept;
        continue;
      }
      given[w][i] = own.held && covers(own.region, wanted)
                        ? emit_view(w, value, kept, own.region, wanted)
                        : emit_fetch(w, value, wanted, copies.list(), have, home_slots_[value.id],
                                     std::nullopt, /*fill=*/0, "fetch");
      temporary[w].push_back(given[w][i]);
    }
  }

  /// What one part adds to a worker's sum.
  Slot emit_part(const Op& op, const OpTiles& tiles, int w, const PeerSums& sums,
                 const PeerSum& part, std::vector<Slot> given) {
    const auto& in_edges = std::get<std::vector<ValueRef>>(op.args[0]);
    const Value &bounds = graph_.value(in_edges[0].id), &from = graph_.value(in_edges[1].id);
    std::vector<Slot> selected;
    for (const size_t i : sums.values) {
      const Value& value = graph_.value(op.inputs[i]);
      const Slot edges = table_slot(w, from, part.edges);
      Shape shape = tiles.needs[w][i].region.shape();
      shape[0] = static_cast<int64_t>(part.edges.size());
      given[i] = emit_call(op, w, "aten::index_select",
                           {ValueRef{given[i]}, int64_t{0}, ValueRef{edges}}, value, shape, 0);
      selected.push_back(given[i]);
    }
    std::vector<ValueRef> operands;
    for (const ValueRef& ref : std::get<std::vector<ValueRef>>(op.args[4])) {
      const auto input = std::find(op.inputs.begin(), op.inputs.end(), ref.id);
      operands.push_back({given[input - op.inputs.begin()]});
    }
    const std::vector<ValueRef> structure{{table_slot(w, bounds, part.bounds)},
                                          {table_slot(w, from, part.sources)}};
    int64_t edges = 0;
    for (const auto& other : sums.parts[w]) {
      if (other) edges += static_cast<int64_t>(other->sources.size());
    }
    const double share =
        static_cast<double>(part.sources.size()) / static_cast<double>(std::max<int64_t>(1, edges));
    ComputeInstr all;
    predict(op, tiles, w, all);
    const Slot made =
        emit_call(op, w, op.target,
                  {structure, std::vector<ValueRef>{}, op.args[2], std::string("sum"), operands},
                  graph_.value(op.outputs[0]), tiles.outputs[0].tiles[w].region.shape(),
                  share * all.operations, share * all.gathered);
    for (const Slot slot : selected) emit_free(w, slot);
    return made;
  }

  /// An element-wise call on a worker's sums.
  Slot emit_added(const Op& op, const OpTiles& tiles, int w, const std::string& target,
                  std::vector<Attr> args) {
    const Region& region = tiles.outputs[0].tiles[w].region;
    return emit_call(op, w, target, std::move(args), graph_.value(op.outputs[0]), region.shape(),
                     static_cast<double>(region.numel()));
  }

  /// A call that stands for a part of an op.
  Slot emit_call(const Op& op, int w, const std::string& target, std::vector<Attr> args,
                 const Value& value, Shape shape, double operations, double gathered = 0) {
    ComputeInstr compute;
    compute.op = named(op);
    compute.source = place(op);
    compute.target = target;
    compute.args = std::move(args);
    compute.operations = operations;
    compute.gathered = gathered;
    compute.outputs = {new_slot(w, value)};
    compute.output_shapes = {std::move(shape)};
    const Slot slot = compute.outputs[0];
    emit(w, std::move(compute));
    return slot;
  }

  static bool has_means(const OpTiles& tiles) {
    return std::find(tiles.reduces.begin(), tiles.reduces.end(), tdl::ReduceKind::kSoftmaxMean) !=
           tiles.reduces.end();
  }

  /// Brings weighted means of parts to the weights of all parts together, so that they add up.
  void merge_means(const Op& op, OpTiles& tiles, std::vector<std::vector<Slot>>& made) {
    const std::vector<int> sums = tdl::weight_sums(*op.spec);
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      if (op.outputs[o] == kNoValue || tiles.reduces[o] != tdl::ReduceKind::kSoftmaxMean) continue;
      tiles.reduces[o] = tdl::ReduceKind::kSum;
      const size_t s = sums[o];
      Layout& parts = tiles.outputs[s];
      if (parts.num_partials == 1) continue;  // whoever has a part has all of it
      const Layout all = completed(parts);
      const std::vector<Slot> sum =
          reduce_to(graph_.value(op.outputs[s]), tiles, s, made[s], all.tiles, /*keep=*/true);
      for (int w = 0; w < workers_; ++w) {
        if (!tiles.active[w]) continue;
        ComputeInstr weigh;
        weigh.op = op.id;
        weigh.source = place(op);
        weigh.target = "smex::weigh_part";
        for (Slot slot : {made[o][w], made[s][w], sum[w]}) weigh.args.emplace_back(ValueRef{slot});
        const Slot weighed = new_slot(w, graph_.value(op.outputs[o]));
        weigh.outputs = {weighed};
        weigh.output_shapes = {tiles.outputs[o].tiles[w].region.shape()};
        emit(w, std::move(weigh));
        for (Slot slot : {made[o][w], made[s][w]}) emit_free(w, slot);
        made[o][w] = weighed;
      }
      made[s] = sum;
      parts = all;
    }
  }

  /// Gives each worker the tables that its tile has in place of the whole ones.
  void give_tables(const Op& op, const OpTiles& tiles, std::vector<std::vector<Slot>>& operands) {
    for (int w = 0; w < workers_; ++w) {
      if (!tiles.active[w]) continue;
      auto tables = own_tables(op, tiles.ranges[w], tiles.needs[w]);
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        if (!op.spec->table(static_cast<int>(i))) continue;
        if (!tables[i])
          throw InternalError(op.target + ": nothing reads table " + std::to_string(i));
        operands[w][i] = table_slot(w, graph_.value(op.inputs[i]), std::move(*tables[i]));
      }
    }
  }

  void fetch_input(const Op& op, const OpTiles& tiles, size_t i, const std::vector<Window>& windows,
                   std::vector<std::vector<Slot>>& operands,
                   std::vector<std::vector<Slot>>& temporary) {
    if (!tiles.whole && op.spec && op.spec->table(static_cast<int>(i))) return;
    const Value& value = graph_.value(op.inputs[i]);
    const Layout& have = home(value.id);
    const std::vector<Tile> need = needed_tiles(tiles, i, have);
    Copies copies(have, need);
    ++num_relayouts_;
    for (int w = 0; w < workers_; ++w) {
      if (!tiles.active[w]) continue;
      const tdl::InputNeed& asked = tiles.needs[w][i];
      const bool shaped = asked.region.rank() == value.shape.size();
      const Region wanted =
          shaped ? asked.region : Region::whole(Shape(value.shape.size(), 0));  // reads nothing
      const bool pad = windows[w].padded && asked.used && !(asked.unclamped == asked.region);
      const Tile& own = have.tiles[w];
      if (!asked.used) {
        operands[w][i] = stand_in(value, w, own, shape_only(wanted, windows[w]), temporary[w]);
        continue;
      }
      if (!pad && own.held && covers(own.region, wanted)) {
        if (own.region == wanted) {
          operands[w][i] = home_slots_[value.id][w];
          continue;
        }
        operands[w][i] = emit_view(w, value, home_slots_[value.id][w], own.region, wanted);
      } else {
        operands[w][i] =
            emit_fetch(w, value, pad ? asked.unclamped : wanted, copies.list(), have,
                       home_slots_[value.id], std::nullopt,
                       pad ? pad_value(*op.spec, static_cast<int>(i)) : 0, pad ? "halo" : "fetch");
      }
      temporary[w].push_back(operands[w][i]);
    }
  }

  /// An operand of which only the shape matters: the worker's own tile where that is large enough.
  Slot stand_in(const Value& value, int worker, const Tile& own, const Shape& shape,
                std::vector<Slot>& temporary) {
    const Region box = Region::whole(shape);
    if (own.held && own.region.shape() == shape) return home_slots_[value.id][worker];
    if (own.held && covers(Region::whole(own.region.shape()), box)) {
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
    return std::get<FetchInstr>((backward_ ? program.backward : program.forward).back());
  }

  /// Sets what predictions know of the call's tile.
  void predict(const Op& op, const OpTiles& tiles, int worker, ComputeInstr& compute) {
    std::shared_ptr<const std::string>& kind = kinds_[op.id < 0 ? ~named(op) : op.id];
    if (!kind) kind = std::make_shared<const std::string>(call_kind(graph_, op));
    compute.kind = kind;
    if (!op.spec) return;
    std::vector<int64_t> extents;
    for (size_t i = 0; i < op.spec->indices.size(); ++i) {
      extents.push_back(tiles.whole ? op.spec->indices[i].extent : tiles.ranges[worker][i].size());
    }
    compute.operations = tdl::arithmetic(*op.spec, extents);
    compute.gathered = tdl::gathered_bytes(*op.spec, extents, graph_.input_itemsizes(op));
  }

  /// The op's id; of a fused call that of the last op it stands for.
  OpId named(const Op& op) const {
    OpId last = op.id;
    for (const ValueId output : op.outputs) {
      if (op.id < 0 && output != kNoValue) last = std::max(last, graph_.value(output).producer);
    }
    return last;
  }

  /// The user's line and module.
  static std::string place(const Op& op) {
    if (op.module_path.empty()) return op.source;
    return op.source + (op.source.empty() ? "module " : ", module ") + op.module_path;
  }

  void emit_compute(const Op& op, const OpTiles& tiles, int w, const Window& window,
                    const std::vector<Slot>& operands, std::vector<std::vector<Slot>>& made) {
    ComputeInstr compute;
    compute.op = named(op);
    compute.target = op.target;
    compute.source = place(op);
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
    std::vector<LocalTensor> local_operands;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Slot slot = operands[i];
      local_operands.push_back(
          {tiles.needs[w][i].region.shape(), slot == kNoSlot ? Strides{} : strides_[w][slot]});
    }
    predict(op, tiles, w, compute);
    if (!tiles.whole) localise(op, tiles.ranges[w], tiles.needs[w], window, compute.args);
    compute.crop = window.crop;
    compute.computed = window.computed;
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      Slot slot = kNoSlot;
      Shape shape;
      if (op.outputs[o] != kNoValue) {
        slot = made[o][w] = new_slot(w, graph_.value(op.outputs[o]));
        shape = tiles.outputs[o].tiles[w].region.shape();
        if (window.crop.empty()) {
          MadeTensor lies = made_by(op, compute.args, local_operands, shape, o);
          compute.copies |= lies.copies;
          if (o == 0) compute.dense = lies.strides.empty();
          strides_[w][slot] = std::move(lies.strides);
        }
      }
      compute.outputs.push_back(slot);
      compute.output_shapes.push_back(std::move(shape));
    }
    emit(w, std::move(compute));
  }

  /// Brings an output from where it was made to its home.
  void store(const Value& value, const OpTiles& tiles, size_t position,
             const std::vector<Slot>& made) {
    const std::vector<Tile>& to = home(value.id).tiles;
    home_slots_[value.id] = reduce_to(value, tiles, position, made, to, /*keep=*/false);
  }

  /// Brings an output from where it was made to other tiles. With `keep` what was made stays.
  std::vector<Slot> reduce_to(const Value& value, const OpTiles& tiles, size_t position,
                              const std::vector<Slot>& made, const std::vector<Tile>& to,
                              bool keep) {
    const Layout& from = tiles.outputs[position];
    const std::vector<Tile> stage = scatter_stage(from, to);
    const bool pending = from.num_partials > 1;
    const tdl::ReduceKind reduce = tiles.reduces[position];
    const std::vector<Slot> staged =
        move(value, from, made, stage, pending, reduce, pending ? "reduce_scatter" : "store");
    if (!keep) release(made, staged);
    const std::vector<Slot> moved =
        move(value, {stage, 1}, staged, to, /*pending=*/false, reduce, "all_gather");
    release(staged, moved);
    return moved;
  }

  /// Frees the slots that are not passed on.
  void release(const std::vector<Slot>& slots, const std::vector<Slot>& passed_on) {
    for (int w = 0; w < workers_; ++w) {
      if (slots[w] != kNoSlot && slots[w] != passed_on[w]) emit_free(w, slots[w]);
    }
  }

  /// Moves a value between layouts.
  std::vector<Slot> move(const Value& value, const Layout& from, const std::vector<Slot>& slots,
                         const std::vector<Tile>& to, bool pending, tdl::ReduceKind reduce,
                         const std::string& kind) {
    Copies copies(from, to);
    ++num_relayouts_;
    std::vector<Slot> moved(workers_, kNoSlot);
    for (int w = 0; w < workers_; ++w) {
      if (!to[w].held) continue;
      const Tile& own = from.tiles[w];
      if (!pending && own.held && own.region == to[w].region) {
        moved[w] = slots[w];
      } else {
        moved[w] = emit_fetch(w, value, to[w].region, copies.list(), from, slots,
                              pending ? std::optional(reduce) : std::nullopt, /*fill=*/0, kind);
      }
    }
    return moved;
  }

  const Graph& graph_;
  const Plan& plan_;
  const DimClasses classes_;
  const int workers_;
  std::vector<Call> calls_;
  Program program_;
  int num_relayouts_ = 0;
  bool backward_ = false;
  std::vector<Layout> homes_;
  std::vector<std::vector<Slot>> home_slots_;                 ///< [value][worker]
  std::vector<std::vector<Strides>> strides_;                 ///< [worker][slot]
  std::map<OpId, std::shared_ptr<const std::string>> kinds_;  ///< fused calls below 0
  std::vector<std::vector<ValueId>> dying_;                   ///< by call position
  std::deque<Op> second_runs_;

  struct OwnTable {
    int itemsize = 0;
    std::shared_ptr<const std::vector<int64_t>> numbers;
    Slot slot = kNoSlot;
    size_t rank = 1;
  };
  std::vector<std::vector<OwnTable>> tables_;  ///< by worker
};

}  // namespace

Program lower(const Graph& graph, const Plan& plan, const LowerOptions& options) {
  return Lowering(graph, plan).run(options);
}

}  // namespace smex
