#include "partition/lower/pointwise.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "tdl/formula.h"

namespace smex {

namespace {

// What fits the kernel's parameters on CUDA, and the first-level cache on the CPU.
constexpr size_t kMostOperands = 12;
constexpr size_t kMostMembers = 16;

/// An element-wise call of an instruction list.
struct Member {
  const Op* op = nullptr;
  std::vector<Slot> operands;  ///< by input of the op
  Slot out = kNoSlot;
};

/// Members that become one call, where the last one stands.
struct Group {
  std::vector<int> members;  ///< positions, ascending
  int position() const { return members.back(); }
};

/// Which calls of a graph are element-wise, looked up once a call.
class Formulas {
 public:
  explicit Formulas(const Graph& graph) : graph_(graph) {}

  /// The op of an instruction that is an element-wise call of it, of floating-point numbers of one
  /// type; null otherwise.
  const Op* op_of(const ComputeInstr& compute) {
    if (compute.op < 0 || !compute.crop.empty() || compute.outputs.size() != 1) return nullptr;
    const Op& op = graph_.op(compute.op);
    if (compute.outputs[0] == kNoSlot || !op.spec || op.target != compute.target) return nullptr;
    auto& known = known_[op.id];
    if (!known) known = is_elementwise(op);
    return *known ? &op : nullptr;
  }

  const std::string& dtype(const Op& op) const { return graph_.value(op.outputs[0]).dtype; }

 private:
  bool is_elementwise(const Op& op) const {
    if (op.outputs.size() != 1 || op.outputs[0] == kNoValue || op.inputs.empty()) return false;
    const std::string& type = dtype(op);
    const bool is_float =
        type == "float32" || type == "float64" || type == "bfloat16" || type == "float16";
    const bool alike = std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId input) {
      return graph_.value(input).dtype == type;
    });
    const std::vector<std::string> names(op.inputs.size(), "x0");
    return is_float && alike && tdl::formula(*op.spec, names).has_value();
  }

  const Graph& graph_;
  std::unordered_map<OpId, std::optional<bool>> known_;
};

/// Joins the calls of one instruction list of one worker.
class Joining {
 public:
  Joining(Formulas& formulas, const Program& program, int worker, std::vector<Instr>& instrs)
      : formulas_(formulas), program_(program.workers[worker]), instrs_(instrs) {
    for (const Binding& output : program.outputs) kept_.insert(output.slots[worker]);
  }

  void run() {
    if (!find_members()) return;
    find_uses();
    for (auto& [position, member] : members_) grow(position, member);
    if (std::any_of(groups_.begin(), groups_.end(), [](const auto& group) {
          return group.second.members.size() > 1;
        })) {
      rewrite();
    }
  }

 private:
  bool find_members() {
    for (size_t i = 0; i < instrs_.size(); ++i) {
      const auto* compute = std::get_if<ComputeInstr>(&instrs_[i]);
      const Op* const op = compute ? formulas_.op_of(*compute) : nullptr;
      if (!op) continue;
      Member member{op, std::vector<Slot>(op->inputs.size(), kNoSlot), compute->outputs[0]};
      for (size_t a = 0; a < op->args.size(); ++a) {
        const auto* value = std::get_if<ValueRef>(&op->args[a]);
        if (!value || value->id == kNoValue) continue;
        const auto input = std::find(op->inputs.begin(), op->inputs.end(), value->id);
        member.operands[input - op->inputs.begin()] = std::get<ValueRef>(compute->args[a]).id;
      }
      const auto& operands = member.operands;
      if (std::find(operands.begin(), operands.end(), kNoSlot) != operands.end()) continue;
      makers_[member.out] = static_cast<int>(i);
      members_[static_cast<int>(i)] = std::move(member);
    }
    return members_.size() > 1;
  }

  void find_uses() {
    fetches_.assign(instrs_.size() + 1, 0);
    for (size_t i = 0; i < instrs_.size(); ++i) {
      const int position = static_cast<int>(i);
      fetches_[i + 1] = fetches_[i];
      if (const auto* compute = std::get_if<ComputeInstr>(&instrs_[i])) {
        for (const Attr& arg : compute->args) {
          if (const auto* one = std::get_if<ValueRef>(&arg)) read(one->id, position);
          if (const auto* some = std::get_if<std::vector<ValueRef>>(&arg)) {
            for (const ValueRef& ref : *some) read(ref.id, position);
          }
        }
      } else if (const auto* fetch = std::get_if<FetchInstr>(&instrs_[i])) {
        for (const CopyPart& part : fetch->parts) read(part.slot, position);
        if (!fetch->view) ++fetches_[i + 1];
      } else {
        freed_[std::get<FreeInstr>(instrs_[i]).slot] = position;
      }
    }
  }

  /// Slots of other workers are noted too, which joins less, and nothing wrong.
  void read(Slot slot, int position) {
    if (makers_.count(slot)) readers_[slot].push_back(position);
  }

  /// Takes the groups that make operands of the call into its own, and the one before it that reads
  /// what it reads.
  void grow(int position, const Member& member) {
    Group own{{position}};
    for (const Slot operand : member.operands) {
      const auto maker = makers_.find(operand);
      if (maker != makers_.end()) take(group_of_.at(maker->second), own);
    }
    if (!groups_.empty()) {
      const auto& [before, group] = *groups_.rbegin();
      if (nothing_between(before, position) && share_operands(group, own)) take(before, own);
    }
    for (const int each : own.members) group_of_[each] = position;
    groups_[position] = std::move(own);
  }

  void take(int at, Group& own) {
    const auto found = groups_.find(at);
    if (found == groups_.end() || !is_alike(at, own.position())) return;  // or taken already
    Group both = merged(found->second, own);
    if (!may_wait(found->second, both)) return;
    groups_.erase(found);
    own = std::move(both);
  }

  bool share_operands(const Group& a, const Group& b) const {
    const std::vector<Slot> left = operands_of(a), right = operands_of(b);
    return std::any_of(left.begin(), left.end(), [&](Slot slot) {
      return std::find(right.begin(), right.end(), slot) != right.end();
    });
  }

  bool nothing_between(int from, int to) const {
    return std::all_of(instrs_.begin() + from + 1, instrs_.begin() + to, [](const Instr& instr) {
      const auto* const fetch = std::get_if<FetchInstr>(&instr);
      return std::holds_alternative<FreeInstr>(instr) || (fetch && fetch->view);
    });
  }

  bool is_alike(int a, int b) const {
    const auto& left = std::get<ComputeInstr>(instrs_[a]);
    const auto& right = std::get<ComputeInstr>(instrs_[b]);
    return left.output_shapes == right.output_shapes &&
           formulas_.dtype(*members_.at(a).op) == formulas_.dtype(*members_.at(b).op);
  }

  static Group merged(const Group& a, const Group& b) {
    Group both;
    std::merge(a.members.begin(), a.members.end(), b.members.begin(), b.members.end(),
               std::back_inserter(both.members));
    return both;
  }

  /// Whether the calls of a group can be made where the joined one stands.
  bool may_wait(const Group& group, const Group& both) const {
    const int from = group.position(), to = both.position();
    if (both.members.size() > kMostMembers || operands_of(both).size() > kMostOperands)
      return false;
    int spared = 0, held = 0;
    for (const int position : group.members) {
      const Slot out = members_.at(position).out;
      for (const int reader : readers(out)) {
        if (reader < to && !is_member(both, reader)) return false;
      }
      if (program_.remote_reads[out] > 0 && fetches_[from] != fetches_[to]) return false;
      if (is_inside(out, both) && !is_inside(out, group)) ++spared;
    }
    for (const Slot operand : operands_of(group)) {
      const auto free = freed_.find(operand);
      if (free != freed_.end() && from < free->second && free->second < to) ++held;
    }
    return held <= spared || held <= spared + spared_at_once(from, both);
  }

  /// How many tensors fewer there are at the last call than at an earlier one of the group, where
  /// nothing else is made between them; otherwise none that could be counted on.
  int spared_at_once(int from, const Group& both) const {
    int fewer = 0;
    for (int i = from + 1; i <= both.position(); ++i) {
      const auto* const fetch = std::get_if<FetchInstr>(&instrs_[i]);
      if (std::holds_alternative<FreeInstr>(instrs_[i])) {
        ++fewer;
      } else if (is_member(both, i)) {
        --fewer;
      } else if (!fetch || !fetch->view) {
        return 0;
      }
    }
    return fewer;
  }

  static bool is_member(const Group& group, int position) {
    return std::binary_search(group.members.begin(), group.members.end(), position);
  }

  const std::vector<int>& readers(Slot slot) const {
    static const std::vector<int> none;
    const auto found = readers_.find(slot);
    return found == readers_.end() ? none : found->second;
  }

  /// Whether nobody but the group reads what one of its calls makes.
  bool is_inside(Slot out, const Group& group) const {
    const auto& all = readers(out);
    return !all.empty() && program_.remote_reads[out] == 0 && !kept_.count(out) &&
           freed_.count(out) && std::all_of(all.begin(), all.end(), [&](int reader) {
             return is_member(group, reader);
           });
  }

  std::vector<Slot> operands_of(const Group& group) const {
    std::vector<Slot> found;
    for (const int position : group.members) {
      for (const Slot operand : members_.at(position).operands) {
        const auto maker = makers_.find(operand);
        const bool own = maker != makers_.end() && is_member(group, maker->second);
        if (!own && std::find(found.begin(), found.end(), operand) == found.end())
          found.push_back(operand);
      }
    }
    return found;
  }

  void rewrite() {
    std::vector<Instr> result;
    std::map<int, std::vector<Slot>> waiting;  // by position: what is freed behind it
    std::set<int> dropped;
    for (const auto& [position, group] : groups_) {
      if (group.members.size() < 2) continue;
      for (const int member : group.members) {
        const Slot out = members_.at(member).out;
        if (is_inside(out, group)) dropped.insert(freed_.at(out));
      }
      for (const Slot operand : operands_of(group)) delay_free(operand, position, waiting);
    }
    for (const auto& [position, slots] : waiting) {
      for (const Slot slot : slots) dropped.insert(freed_.at(slot));
    }
    for (size_t i = 0; i < instrs_.size(); ++i) {
      const int position = static_cast<int>(i);
      if (dropped.count(position)) continue;
      const auto of = group_of_.find(position);
      const Group* const group = of == group_of_.end() ? nullptr : &groups_.at(of->second);
      if (!group || group->members.size() < 2) {
        result.push_back(std::move(instrs_[i]));
      } else if (group->position() == position) {
        result.push_back(joined(*group));
        for (const Slot slot : waiting[position]) result.push_back(FreeInstr{slot});
      }
    }
    instrs_ = std::move(result);
  }

  /// Of several groups that read it the last one lets it go.
  void delay_free(Slot operand, int position, std::map<int, std::vector<Slot>>& waiting) const {
    const auto free = freed_.find(operand);
    if (free == freed_.end() || free->second > position) return;
    for (auto& [other, slots] : waiting) {
      const auto found = std::find(slots.begin(), slots.end(), operand);
      if (found == slots.end()) continue;
      if (other > position) return;
      slots.erase(found);
    }
    waiting[position].push_back(operand);
  }

  ComputeInstr joined(const Group& group) const {
    const auto& last = std::get<ComputeInstr>(instrs_[group.position()]);
    ComputeInstr call;
    call.op = last.op;
    call.source = last.source;
    call.target = "smex::pointwise";
    std::map<Slot, std::string> names;
    const auto name = [&](Slot slot) {
      return names.emplace(slot, "x" + std::to_string(names.size())).first->second;
    };
    std::vector<ValueRef> operands;
    for (const Slot operand : operands_of(group)) {
      operands.push_back({operand});
      name(operand);
    }
    std::string formulas, results;
    for (const int position : group.members) {
      const Member& member = members_.at(position);
      std::vector<std::string> read;
      for (const Slot operand : member.operands) read.push_back(names.at(operand));
      formulas += (formulas.empty() ? "" : "; ") + *tdl::formula(*member.op->spec, read);
      const std::string made = name(member.out);
      if (is_inside(member.out, group)) continue;
      results += " " + made;
      call.outputs.push_back(member.out);
      call.output_shapes.push_back(last.output_shapes[0]);
    }
    call.args = {operands, formulas + " >" + results};
    return call;
  }

  Formulas& formulas_;
  const WorkerProgram& program_;
  std::vector<Instr>& instrs_;
  std::set<Slot> kept_;                         ///< outputs of the program
  std::map<int, Member> members_;               ///< by position
  std::unordered_map<Slot, int> makers_;        ///< of what members make: where
  std::unordered_map<Slot, std::vector<int>> readers_;
  std::unordered_map<Slot, int> freed_;         ///< where
  std::vector<int> fetches_;                    ///< before each position, views not counted
  std::map<int, Group> groups_;                 ///< by position of the last member
  std::unordered_map<int, int> group_of_;       ///< by position of a member: that of its group
};

}  // namespace

void join_pointwise(const Graph& graph, Program& program) {
  Formulas formulas(graph);
  for (int w = 0; w < program.num_workers; ++w) {
    for (auto* instrs : {&program.workers[w].forward, &program.workers[w].backward})
      Joining(formulas, program, w, *instrs).run();
  }
}

}  // namespace smex
