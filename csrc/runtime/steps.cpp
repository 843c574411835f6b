#include "runtime/steps.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "ir/error.h"
#include "runtime/dtype.h"

namespace smex::runtime {
namespace {

c10::OperatorName schema_name(const std::string& target) {
  if (target == "aten::view" || target == "aten::_unsafe_view") return {"aten::reshape", ""};
  const size_t scope = target.find("::");
  const size_t dot = target.find('.', scope == std::string::npos ? 0 : scope);
  if (dot == std::string::npos) return {target, ""};
  const std::string overload = target.substr(dot + 1);
  return {target.substr(0, dot), overload == "default" ? "" : overload};
}

/// Operators of one name, such as all of aten::add.
std::vector<c10::OperatorName> overloads(const std::string& name) {
  static const auto* const known = [] {
    auto* names = new std::unordered_map<std::string, std::vector<c10::OperatorName>>;
    for (auto& found : c10::Dispatcher::singleton().getAllOpNames()) {
      (*names)[found.name].push_back(found);
    }
    return names;
  }();
  const auto found = known->find(name);
  return found == known->end() ? std::vector<c10::OperatorName>{} : found->second;
}

/// The form of an operator that takes a tensor more, the last one, and writes its result into it,
/// if it has a kernel of its own on the device.
std::optional<c10::OperatorHandle> writing_form(const c10::OperatorHandle& op, c10::Device device) {
  const auto key = c10::computeDispatchKey(at::kFloat, at::kStrided, device);
  const auto& taken = op.schema().arguments();
  for (const c10::OperatorName& name : overloads(op.schema().name())) {
    const auto form = c10::Dispatcher::singleton().findSchema(name);
    if (!form || !form->hasKernelForDispatchKey(key)) continue;
    const auto& arguments = form->schema().arguments();
    const bool is_longer = arguments.size() == taken.size() + 1;
    if (!is_longer || form->schema().returns().size() != 1 || !arguments.back().is_out()) continue;
    const bool is_alike =
        std::equal(taken.begin(), taken.end(), arguments.begin(), [](const auto& a, const auto& b) {
          return a.name() == b.name() && *a.type() == *b.type();
        });
    if (is_alike) return form;
  }
  return std::nullopt;
}

ComputeStep prepare_compute(const ComputeInstr& instr, c10::Device device) {
  const auto op = c10::Dispatcher::singleton().findSchema(schema_name(instr.target));
  if (!op) {
    throw InternalError("no operator '" + instr.target +
                        "' is registered; import the library that defines it");
  }
  const bool seeded = instr.target.starts_with("smex::");  // which draw by place
  const bool dense = instr.target.starts_with("aten::native_group_norm");
  ComputeStep step{&instr,
                   *op,
                   prepare_arguments(op->schema(), instr.args, device, seeded),
                   Region{instr.crop},
                   dense,
                   std::nullopt,
                   c10::ScalarType::Undefined};
  if (instr.inside.dest != kNoSlot) {
    step.writer = writing_form(*op, device);
    step.inside_of = parse_dtype(instr.inside.dtype);
  }
  return step;
}

/// The part of `copy`'s source that lands on `piece` of its destination.
Region source_of(const CopyPart& part, const Region& piece) {
  return piece.relative_to(part.dest).absolute_in(part.source);
}

std::vector<Region> subtract_all(std::vector<Region> boxes, const Region& cut) {
  std::vector<Region> rest;
  for (const Region& box : boxes) {
    if (intersect(box, cut).empty()) {
      rest.push_back(box);
      continue;
    }
    for (Region& piece : subtract(box, cut)) {
      if (!piece.empty()) rest.push_back(std::move(piece));
    }
  }
  return rest;
}

/// Where the boxes of other processes' slots lie in the packets that come from them.
class Parcels {
 public:
  Parcels(const std::vector<Packet>& incoming, int64_t packet_bytes) : packet_bytes_(packet_bytes) {
    for (size_t n = 0; n < incoming.size(); ++n) {
      for (const Parcel& parcel : incoming[n].parcels) {
        known_[{incoming[n].relayout, parcel.worker, parcel.slot}].push_back(
            {static_cast<int>(n), &parcel});
      }
    }
  }

  /// The copies of what a worker fetches from the sum that a collective makes; none without one.
  std::vector<Copy> of_sum(const FetchInstr& fetch, int worker) const {
    std::vector<Copy> copies;
    const auto places = known_.find({fetch.relayout, worker, fetch.dest});
    if (places == known_.end()) return copies;
    for (const auto& [packet, parcel] : places->second) {
      Copy copy;
      copy.worker = worker;
      copy.slot = fetch.dest;
      copy.packet = packet;
      copy.offset = parcel->offset;
      copy.shape = parcel->box.shape();
      copy.source = Region::whole(copy.shape);
      copy.dest = parcel->box;
      copies.push_back(std::move(copy));
    }
    return copies;
  }

  /// A part of a fetch as parts that each come in one parcel, with these.
  std::vector<std::pair<CopyPart, Copy>> of(const FetchInstr& fetch, const CopyPart& part,
                                            int itemsize) const {
    std::vector<std::pair<CopyPart, Copy>> found;
    if (part.source.empty()) return found;
    for (const Region& piece : pieces_of(part.source, itemsize, packet_bytes_)) {
      const auto& [packet, parcel] = find(fetch, part, piece);
      CopyPart small{part.worker, part.slot, Region::whole(piece.shape()),
                     piece.relative_to(part.source).absolute_in(part.dest)};
      Copy copy;
      copy.packet = packet;
      copy.offset = parcel->offset;
      copy.shape = piece.shape();
      found.emplace_back(std::move(small), std::move(copy));
    }
    return found;
  }

 private:
  using Place = std::pair<int, const Parcel*>;

  const Place& find(const FetchInstr& fetch, const CopyPart& part, const Region& piece) const {
    const auto places = known_.find({fetch.relayout, part.worker, part.slot});
    if (places != known_.end()) {
      for (const Place& place : places->second) {
        if (place.second->box == piece) return place;
      }
    }
    throw InternalError(c10::str("no packet has box ", piece.str(), " of slot ", part.slot,
                                 " of worker ", part.worker));
  }

  const int64_t packet_bytes_;
  std::map<std::tuple<int, int, Slot>, std::vector<Place>> known_;
};

/// A part's copy to a piece of its destination; of what comes in a parcel that is `of`.
Copy copy_of(const CopyPart& part, const Region& piece, bool combine, const Copy& of) {
  Copy copy = of;
  copy.worker = part.worker;
  copy.slot = part.slot;
  copy.source = source_of(part, piece);
  copy.dest = piece;
  copy.combine = combine;
  return copy;
}

/// Cuts a reducing part into what it writes first and what it combines, and updates `uncovered`.
void add_reducing_part(const CopyPart& part, const Copy& of, FetchStep& step) {
  const Region& dest = part.dest;
  std::vector<Region> combined{dest};
  for (const Region& hole : step.uncovered) {
    const Region fresh = intersect(dest, hole);
    if (fresh.empty()) continue;
    step.copies.push_back(copy_of(part, fresh, /*combine=*/false, of));
    combined = subtract_all(std::move(combined), fresh);
  }
  for (const Region& piece : combined) {
    step.copies.push_back(copy_of(part, piece, /*combine=*/true, of));
  }
  step.uncovered = subtract_all(std::move(step.uncovered), dest);
}

void check_part(const CopyPart& part, const FetchInstr& fetch, const Program& program) {
  const int workers = program.num_workers;
  const bool known = part.worker >= 0 && part.worker < workers && part.slot >= 0 &&
                     part.slot < program.workers[part.worker].num_slots;
  if (!known) {
    throw InternalError(c10::str("part reads slot ", part.slot, " of worker ", part.worker,
                                 ", which does not exist"));
  }
  const Region &source = part.source, &dest = part.dest;
  const bool agree = dest.rank() == fetch.shape.size() && source.shape() == dest.shape() &&
                     Region::whole(fetch.shape).contains(dest);
  if (!agree) {
    throw InternalError(c10::str("part copies ", source.str(), " to ", dest.str(),
                                 " of a tensor of shape ", c10::IntArrayRef(fetch.shape)));
  }
}

void add_part(const CopyPart& part, const Copy& of, bool reducing, FetchStep& step) {
  if (part.dest.empty()) return;
  if (reducing) {
    add_reducing_part(part, of, step);
  } else {
    step.copies.push_back(copy_of(part, part.dest, /*combine=*/false, of));
  }
}

/// Marks by packet the last copy that reads it.
void mark_last(std::vector<Copy>& copies) {
  std::set<int> seen;
  for (auto copy = copies.rbegin(); copy != copies.rend(); ++copy) {
    copy->is_last = copy->packet >= 0 && seen.insert(copy->packet).second;
  }
}

/// A fetch whose parts a collective adds up on their way.
FetchStep prepare_sum(const FetchInstr& instr, int worker, std::vector<Copy> copies) {
  FetchStep step;
  step.instr = &instr;
  step.dtype = parse_dtype(instr.dtype);
  step.copies = std::move(copies);
  for (const CopyPart& part : instr.parts) {
    if (part.worker != worker) step.remote_elements += part.dest.numel();
  }
  mark_last(step.copies);
  return step;
}

/// `parcels` is null where one process runs all workers.
FetchStep prepare_fetch(const FetchInstr& instr, const Program& program, int worker,
                        const Processes& processes, const Parcels* parcels) {
  if (parcels) {
    std::vector<Copy> of_sum = parcels->of_sum(instr, worker);
    if (!of_sum.empty()) return prepare_sum(instr, worker, std::move(of_sum));
  }
  FetchStep step;
  step.instr = &instr;
  step.dtype = parse_dtype(instr.dtype);
  const Region whole = Region::whole(instr.shape);
  int64_t covered = 0;
  if (!whole.empty()) step.uncovered.push_back(whole);
  std::set<std::pair<int, Slot>> seen;
  for (const CopyPart& part : instr.parts) {
    check_part(part, instr, program);
    const Region& dest = part.dest;
    covered += dest.numel();
    if (part.worker != worker) step.remote_elements += dest.numel();
    if (part.in_place) {
      step.uncovered = subtract_all(std::move(step.uncovered), dest);
      continue;
    }
    if (processes.is_here(part.worker)) {
      if (part.worker != worker && seen.insert({part.worker, part.slot}).second)
        step.reads.push_back({part.worker, part.slot});
      add_part(part, {}, instr.reducing, step);
      continue;
    }
    if (step.dtype == c10::ScalarType::Undefined) {
      throw InternalError("a fetch from another process has no dtype");
    }
    const auto itemsize = static_cast<int>(c10::elementSize(step.dtype));
    for (const auto& [small, parcel] : parcels->of(instr, part, itemsize)) {
      add_part(small, parcel, instr.reducing, step);
    }
  }
  if (!instr.reducing && covered >= whole.numel()) step.uncovered.clear();
  if (!instr.reducing && !step.uncovered.empty()) {
    for (const Copy& copy : step.copies) {
      step.uncovered = subtract_all(std::move(step.uncovered), copy.dest);
    }
  }
  mark_last(step.copies);
  const bool may_alias = instr.parts.size() == 1 && instr.parts[0].worker == worker &&
                         instr.parts[0].dest == whole && !instr.parts[0].source.list;
  if (instr.view && !may_alias) {
    throw InternalError("a view must be one local part that covers the destination");
  }
  return step;
}

/// Marks `slot` written and rejects a second writer.
void mark_written(std::vector<bool>& written, Slot slot) {
  if (slot == kNoSlot) return;
  if (slot < 0 || slot >= static_cast<Slot>(written.size())) {
    throw InternalError(c10::str("slot ", slot, " is not among the worker's ", written.size()));
  }
  if (written[slot]) throw InternalError(c10::str("slot ", slot, " is written twice"));
  written[slot] = true;
}

void check_operands(const Arguments& arguments, int num_slots) {
  const auto check = [&](Slot slot) {
    if (slot < kNoSlot || slot >= num_slots) {
      throw InternalError(
          c10::str("operand slot ", slot, " is not among the worker's ", num_slots));
    }
  };
  for (const auto& tensor : arguments.tensors) check(tensor.slot);
  for (const auto& list : arguments.lists)
    std::for_each(list.slots.begin(), list.slots.end(), check);
}

class Preparation {
 public:
  Preparation(const Program& program, const std::vector<c10::Device>& devices,
              const Processes& processes)
      : program_(program), devices_(devices), processes_(processes) {}

  Steps run() {
    for (int w = 0; w < program_.num_workers; ++w) {
      WorkerSteps steps;
      steps.references.assign(program_.workers[w].num_slots, 1);
      steps.read_remotely.assign(program_.workers[w].num_slots, false);
      steps.outputs.assign(program_.workers[w].num_slots, 0);
      steps_.workers.push_back(std::move(steps));
    }
    if (!processes_.ranks.empty()) prepare_exchanges();
    for (int w = 0; w < program_.num_workers; ++w) {
      if (processes_.is_here(w)) prepare_worker(w);
    }
    if (processes_.ranks.empty()) check_remote_reads();
    pin_outputs();
    if (processes_.ranks.empty()) find_twins();
    return std::move(steps_);
  }

 private:
  void prepare_exchanges() {
    const Exchanges exchanges =
        list_exchanges(program_, processes_.ranks, processes_.packet_bytes, processes_.collectives);
    for (const int phase : {0, 1}) {
      const auto& list = phase == 0 ? exchanges.forward : exchanges.backward;
      const Carriers carriers{processes_.hosts, /*by_rounds=*/!devices_[0].is_cpu(),
                              processes_.messages[phase]};
      auto traffic = std::make_shared<const Traffic>(traffic_of(list, processes_.rank, carriers));
      steps_.volumes[phase] = volumes_of(list, carriers);
      parcels_[phase].emplace(traffic->incoming, processes_.packet_bytes);
      steps_.packet_sources[phase].assign(traffic->outgoing.size(), 0);
      steps_.packet_readers[phase].assign(traffic->incoming.size(), 0);
      for (size_t n = 0; n < traffic->outgoing.size(); ++n) {
        for (const Parcel& parcel : traffic->outgoing[n].parcels) {
          steps_.lists.add(parcel.box, devices_[parcel.worker]);
          WorkerSteps& owner = steps_.workers[parcel.worker];
          std::vector<int>& packets = owner.packets[phase][parcel.slot];
          if (!packets.empty() && packets.back() == static_cast<int>(n)) continue;
          packets.push_back(static_cast<int>(n));
          ++steps_.packet_sources[phase][n];
          ++owner.references.at(parcel.slot);
        }
      }
      steps_.traffic[phase] = std::move(traffic);
    }
  }

  void prepare_worker(int worker) {
    std::vector<bool> written(program_.workers[worker].num_slots, false);
    for (const Binding& binding : program_.inputs) mark_written(written, binding.slots.at(worker));
    const WorkerProgram& source = program_.workers[worker];
    prepare_list(source.forward, 0, worker, written, steps_.workers[worker].forward);
    prepare_list(source.backward, 1, worker, written, steps_.workers[worker].backward);
  }

  void prepare_list(const std::vector<Instr>& instrs, int phase, int worker,
                    std::vector<bool>& written, std::vector<Step>& out) {
    out.reserve(instrs.size());
    for (size_t i = 0; i < instrs.size(); ++i) {
      try {
        out.push_back(prepare_instr(instrs[i], phase, worker, written));
      } catch (const InternalError& error) {
        throw InternalError(c10::str("instruction ", i, " of worker ", worker, " (",
                                     name(instrs[i]), "): ", error.what()));
      }
    }
  }

  static std::string name(const Instr& instr) {
    if (const auto* compute = std::get_if<ComputeInstr>(&instr)) {
      return compute->target + ", " + op_label(*compute);
    }
    if (const auto* fetch = std::get_if<FetchInstr>(&instr)) {
      return c10::str(fetch->kind, " of value ", fetch->value);
    }
    if (const auto* move = std::get_if<MoveInstr>(&instr)) {
      return c10::str(name_of(move->kind), " of slot ", move->slots.empty() ? -1 : move->slots[0]);
    }
    return c10::str("free of slot ", std::get<FreeInstr>(instr).slot);
  }

  Step prepare_instr(const Instr& instr, int phase, int worker, std::vector<bool>& written) {
    const int num_slots = program_.workers[worker].num_slots;
    if (const auto* compute = std::get_if<ComputeInstr>(&instr)) {
      ComputeStep step = prepare_compute(*compute, devices_[worker]);
      check_operands(step.arguments, num_slots);
      for (const Slot slot : compute->outputs) mark_written(written, slot);
      return step;
    }
    if (const auto* fetch = std::get_if<FetchInstr>(&instr)) {
      const auto& parcels = parcels_[phase];
      FetchStep step =
          prepare_fetch(*fetch, program_, worker, processes_, parcels ? &*parcels : nullptr);
      for (const Copy& copy : step.copies) {
        if (copy.is_last) ++steps_.packet_readers[phase][copy.packet];
      }
      add_lists(step, worker);
      step.kind = kind_index(fetch->kind);
      mark_written(written, fetch->dest);
      for (const RemoteRead& read : step.reads) {
        WorkerSteps& owner = steps_.workers[read.worker];
        ++owner.references[read.slot];
        owner.read_remotely[read.slot] = true;
      }
      return step;
    }
    if (const auto* move = std::get_if<MoveInstr>(&instr)) {
      for (const Slot slot : move->slots) {
        const bool is_there = slot >= 0 && slot < num_slots && written[slot];
        if (!is_there) throw InternalError(c10::str("slot ", slot, " holds nothing"));
      }
      if (!program_.spills()) throw InternalError("the program has no limit of device memory");
      return MoveStep{move};
    }
    const Slot slot = std::get<FreeInstr>(instr).slot;
    if (slot < 0 || slot >= num_slots) throw InternalError("no such slot");
    return FreeStep{slot};
  }

  void add_lists(const FetchStep& step, int worker) {
    for (const Copy& copy : step.copies) {
      // What is on the host comes to the device of its reader first.
      const bool is_there = copy.packet < 0 && !program_.spills();
      steps_.lists.add(copy.source, devices_[is_there ? copy.worker : worker]);
      steps_.lists.add(copy.dest, devices_[worker]);
    }
    for (const Region& region : step.uncovered) steps_.lists.add(region, devices_[worker]);
  }

  int kind_index(const std::string& kind) {
    auto& kinds = steps_.kinds;
    const auto found = std::find(kinds.begin(), kinds.end(), kind);
    if (found != kinds.end()) return static_cast<int>(found - kinds.begin());
    kinds.push_back(kind);
    return static_cast<int>(kinds.size()) - 1;
  }

  void check_remote_reads() const {
    for (int w = 0; w < program_.num_workers; ++w) {
      const auto& declared = program_.workers[w].remote_reads;
      for (size_t slot = 0; slot < declared.size(); ++slot) {
        const int counted = steps_.workers[w].references.at(slot) - 1;
        if (declared[slot] == counted) continue;
        throw InternalError(c10::str("worker ", w, ", slot ", slot, ": remote_reads is ",
                                     declared[slot], ", but ", counted,
                                     " fetches of other workers read it"));
      }
    }
  }

  void pin_outputs() {
    for (const Binding& binding : program_.outputs) {
      for (int w = 0; w < program_.num_workers; ++w) {
        const Slot slot = binding.slots.at(w);
        if (slot == kNoSlot) continue;
        ++steps_.workers[w].references.at(slot);
        ++steps_.workers[w].outputs[slot];
      }
    }
  }

  void find_twins() {
    for (int w = 1; w < program_.num_workers; ++w) {
      for (int v = 0; v < w && steps_.workers[w].twin < 0; ++v) {
        if (steps_.workers[v].twin < 0 && are_twins(v, w)) steps_.workers[w].twin = v;
      }
    }
  }

  bool are_twins(int v, int w) const {
    const WorkerProgram &a = program_.workers[v], &b = program_.workers[w];
    if (!devices_[v].is_cpu() || !devices_[w].is_cpu() || a.num_slots != b.num_slots) return false;
    for (const int worker : {v, w}) {
      const auto& read = steps_.workers[worker].read_remotely;
      if (std::find(read.begin(), read.end(), true) != read.end()) return false;
    }
    const auto same_bindings = [&](const std::vector<Binding>& bindings) {
      return std::all_of(bindings.begin(), bindings.end(), [&](const Binding& binding) {
        const auto& regions = binding.regions;
        const bool bounded = static_cast<size_t>(w) < regions.size();
        return binding.slots[v] == binding.slots[w] && (!bounded || regions[v] == regions[w]);
      });
    };
    return same_bindings(program_.inputs) && same_bindings(program_.outputs) &&
           same_lists(a.forward, v, b.forward, w) && same_lists(a.backward, v, b.backward, w);
  }

  static bool same_lists(const std::vector<Instr>& a, int v, const std::vector<Instr>& b, int w) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [&](const Instr& x, const Instr& y) { return same_instr(x, v, y, w); });
  }

  /// Whether two workers' instructions do the same with tiles of their own.
  static bool same_instr(const Instr& a, int v, const Instr& b, int w) {
    if (a.index() != b.index()) return false;
    if (const auto* free = std::get_if<FreeInstr>(&a)) {
      return free->slot == std::get<FreeInstr>(b).slot;
    }
    if (const auto* x = std::get_if<MoveInstr>(&a)) {
      const auto& y = std::get<MoveInstr>(b);
      return x->kind == y.kind && x->slots == y.slots;
    }
    if (const auto* x = std::get_if<ComputeInstr>(&a)) {
      const auto& y = std::get<ComputeInstr>(b);
      return x->target == y.target && x->args == y.args && x->outputs == y.outputs &&
             x->crop == y.crop && x->output_shapes == y.output_shapes && x->inside == y.inside;
    }
    const auto &x = std::get<FetchInstr>(a), &y = std::get<FetchInstr>(b);
    const auto same_part = [&](const CopyPart& p, const CopyPart& q) {
      return p.worker == v && q.worker == w && p.slot == q.slot && p.source == q.source &&
             p.dest == q.dest && p.in_place == q.in_place;
    };
    return x.dest == y.dest && x.shape == y.shape && x.dtype == y.dtype &&
           x.reducing == y.reducing && x.reduce == y.reduce && x.fill == y.fill &&
           x.view == y.view && x.shape_only == y.shape_only && x.kind == y.kind &&
           std::equal(x.parts.begin(), x.parts.end(), y.parts.begin(), y.parts.end(), same_part);
  }

  const Program& program_;
  const std::vector<c10::Device>& devices_;
  const Processes& processes_;
  std::array<std::optional<Parcels>, 2> parcels_;
  Steps steps_;
};

}  // namespace

Steps prepare_steps(const Program& program, const std::vector<c10::Device>& devices,
                    const Processes& processes) {
  const size_t workers = program.workers.size();
  if (program.num_workers < 1 || workers != static_cast<size_t>(program.num_workers)) {
    throw InternalError(c10::str("program of ", program.num_workers, " workers has ", workers,
                                 " instruction lists"));
  }
  for (const auto* bindings : {&program.inputs, &program.outputs}) {
    for (const Binding& binding : *bindings) {
      if (binding.slots.size() == workers) continue;
      throw InternalError(c10::str("binding of value ", binding.value, " has ",
                                   binding.slots.size(), " slots for ", workers, " workers"));
    }
  }
  return Preparation(program, devices, processes).run();
}

std::string describe(const Program& program, int worker, const Step& step) {
  const auto slot_text = [&](Slot slot) {
    const auto& names = program.workers[worker].slot_names;
    const bool named = slot >= 0 && slot < static_cast<Slot>(names.size());
    return named ? c10::str("slot ", slot, " '", names[slot], "'") : c10::str("slot ", slot);
  };
  if (const auto* compute = std::get_if<ComputeStep>(&step)) {
    const auto& outputs = compute->instr->outputs;
    if (!compute->instr->source.empty()) {
      return c10::str(operator_name(*compute->instr), " (", compute->instr->source, ") on worker ",
                      worker);
    }
    return c10::str(operator_name(*compute->instr), " (", op_label(*compute->instr), ", ",
                    slot_text(outputs.empty() ? kNoSlot : outputs[0]), ") on worker ", worker);
  }
  if (const auto* fetch = std::get_if<FetchStep>(&step)) {
    return c10::str(fetch->instr->kind, " of value ", fetch->instr->value, " into ",
                    slot_text(fetch->instr->dest), " on worker ", worker);
  }
  if (const auto* move = std::get_if<MoveStep>(&step)) {
    return c10::str(name_of(move->instr->kind), " of ", slot_text(move->instr->slots[0]),
                    " on worker ", worker);
  }
  return c10::str("free of ", slot_text(std::get<FreeStep>(step).slot), " on worker ", worker);
}

}  // namespace smex::runtime
