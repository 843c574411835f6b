#include "partition/lower/pointwise.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "partition/lower/elementwise.h"
#include "partition/lower/list_uses.h"
#include "tdl/formula.h"

namespace smex {

namespace {

// What fits the kernel's parameters on CUDA, and the first-level cache on the CPU.
constexpr size_t kMostOperands = 12;
constexpr size_t kMostOutputs = 12;
constexpr size_t kMostMembers = 16;
constexpr int kMostOperations = 80;
// So many instructions a call is put off at most: in what lies far back the caches have no part.
constexpr int kFarthest = 64;

using Positions = std::vector<int>;

/// One call that stands for several.
struct JoinedCall {
  int position = 0;  ///< where it stands, that of one of them
  OpId op = -1;      ///< its last member's, as is the source
  std::string source;
  std::string what;  ///< its members' operators
  std::string program;
  std::vector<Slot> operands, outs;
  std::vector<Slot> freed;  ///< behind it, which its members' operands were before
};

/// What becomes of an instruction list.
struct Joins {
  std::vector<JoinedCall> calls;  ///< ascending
  std::vector<bool> dropped;      ///< by position
};

/// An element-wise call of an instruction list.
struct Member : ElementwiseCall {
  int position = 0;
  int group = 0;
};

/// Members that become one call.
struct Group {
  std::vector<int> members;  ///< by their numbers, ascending
  int position = -1;         ///< where the call stands

  bool has(int member) const { return std::binary_search(members.begin(), members.end(), member); }
};

/// Joins the calls of one instruction list of one worker.
class Joining {
 public:
  Joining(ElementwiseCalls& calls, const Program& program, int worker, bool backward,
          const std::vector<Strides>& strides, ListUses uses, int64_t peak)
      : calls_(calls),
        program_(program.workers[worker]),
        instrs_(backward ? program_.backward : program_.forward),
        strides_(strides),
        uses_(std::move(uses)),
        peak_(peak) {}

  Joins run() {
    find_members();
    if (members_.size() < 2) return {};
    held_ = uses_.held();
    awaited_ = uses_.awaited();
    released_ = uses_.released();
    for (const Member& member : members_) groups_.push_back({{}, member.position});
    for (int m = 0; m < static_cast<int>(members_.size()); ++m) grow(m);
    return joins();
  }

 private:
  // ---- what there is ----

  void find_members() {
    member_at_.assign(instrs_.size(), -1);
    maker_.assign(program_.num_slots, -1);
    work_.assign(instrs_.size() + 1, 0);
    Member member;
    for (size_t i = 0; i < instrs_.size(); ++i) {
      const auto* const compute = std::get_if<ComputeInstr>(&instrs_[i]);
      const auto* const fetch = std::get_if<FetchInstr>(&instrs_[i]);
      const bool is_member = compute && calls_.find(*compute, member) && lies_alike(member);
      work_[i + 1] = work_[i] + ((compute && !is_member) || (fetch && !fetch->view));
      if (!is_member) continue;
      member.position = static_cast<int>(i);
      member_at_[i] = maker_[member.out] = member.group = static_cast<int>(members_.size());
      members_.push_back(member);
    }
  }

  /// Whether its output and its operands of that shape have their dimensions in one order in
  /// memory: then the output of a joined call lies as that of the call alone.
  bool lies_alike(const Member& member) const {
    const Shape& shape = uses_.shape(member.out);
    const Strides& lies = strides_[member.out];
    return std::all_of(member.operands.begin(), member.operands.end(), [&](Slot slot) {
      const Strides& own = strides_[slot];
      if (uses_.shape(slot) != shape || repeats(own)) return true;
      return own.empty() ? lies.empty() : dense_like(shape, own) == lies;
    });
  }

  static bool repeats(const Strides& strides) {
    return std::find(strides.begin(), strides.end(), 0) != strides.end();
  }

  // ---- groups ----

  /// Takes the groups that make operands of the call into its own, and the one before it that reads
  /// what it reads.
  void grow(int m) {
    groups_[m].members = {m};
    for (const Slot operand : members_[m].operands) {
      if (maker_[operand] >= 0) take(members_[maker_[operand]].group, m);
    }
    const int before = last_before(m);
    if (before >= 0 && share_operands(groups_[before], groups_[m])) take(before, m);
  }

  /// The group of which nothing but frees and views separates the member's.
  int last_before(int m) const {
    for (int i = groups_[m].position - 1; i >= 0; --i) {
      if (work_[i] != work_[i + 1]) return -1;
      if (member_at_[i] < 0) continue;
      const int group = members_[member_at_[i]].group;
      if (groups_[group].position == i) return group;
    }
    return -1;
  }

  /// Joins another group to that of a member: where this one stands, or else where that one does.
  void take(int other, int m) {
    if (other == m || !are_alike(members_[other], members_[m])) return;
    Group both{{}, groups_[m].position};
    std::merge(groups_[other].members.begin(), groups_[other].members.end(),
               groups_[m].members.begin(), groups_[m].members.end(),
               std::back_inserter(both.members));
    if (!fits_kernel(both)) return;
    if (!may_wait(groups_[other], both)) {
      both.position = groups_[other].position;
      if (!may_come_first(groups_[m], groups_[other], both)) return;
    }
    groups_[other] = {};
    groups_[m] = std::move(both);
    for (const int each : groups_[m].members) members_[each].group = m;
  }

  bool are_alike(const Member& a, const Member& b) const {
    return uses_.shape(a.out) == uses_.shape(b.out) && strides_[a.out] == strides_[b.out] &&
           calls_.dtype(a) == calls_.dtype(b);
  }

  bool share_operands(const Group& a, const Group& b) const {
    const std::vector<Slot> left = operands_of(a), right = operands_of(b);
    return std::any_of(left.begin(), left.end(), [&](Slot slot) {
      return std::find(right.begin(), right.end(), slot) != right.end();
    });
  }

  /// Whether the calls of a group can be made where the joined one stands, later.
  bool may_wait(const Group& group, const Group& both) {
    const int from = group.position, to = both.position;
    if (to < from || to - from > kFarthest) return false;
    for (const int m : group.members) {
      const Slot out = members_[m].out;
      for (auto reader = uses_.readers_begin(out); reader != uses_.readers_end(out); ++reader) {
        if (now_at(*reader) < to && !has(both, *reader)) return false;
      }
      const bool is_given_up = uses_.freed(out) >= 0 && uses_.freed(out) < to;
      if (is_given_up && !is_inside(out, both)) return false;
      if (program_.remote_reads[out] > 0 && work_[from] != work_[to]) return false;
    }
    return waiting_keeps_peak(group, both);
  }

  /// Whether the calls of a group can be made where another stands, earlier.
  bool may_come_first(const Group& group, const Group& other, const Group& both) {
    const int from = both.position;
    if (group.position < from || group.position - from > kFarthest) return false;
    // Workers know by what they fetch how far others have come.
    const bool is_fetched = std::any_of(group.members.begin(), group.members.end(), [&](int m) {
      return program_.remote_reads[members_[m].out] > 0;
    });
    if (is_fetched) return false;
    for (const Slot operand : operands_of(group)) {
      const bool is_own = maker_[operand] >= 0 && other.has(maker_[operand]);
      if (!is_own && now_at(uses_.made(operand)) >= from) return false;
    }
    return coming_first_keeps_peak(group, other, both);
  }

  /// Where an instruction has come to.
  int now_at(int position) const {
    const int member = position < 0 ? -1 : member_at_[position];
    return member < 0 ? position : groups_[members_[member].group].position;
  }

  bool has(const Group& group, int position) const { return group.has(member_at_[position]); }

  bool fits_kernel(const Group& both) const {
    if (both.members.size() > kMostMembers || operands_of(both).size() > kMostOperands)
      return false;
    int operations = 0;
    size_t outs = 0;
    for (const int m : both.members) {
      operations += members_[m].operations;
      outs += !is_inside(members_[m].out, both);
    }
    return operations <= kMostOperations && outs <= kMostOutputs;
  }

  /// Whether nobody but the group reads what one of its calls makes.
  bool is_inside(Slot out, const Group& group) const {
    const auto begin = uses_.readers_begin(out), end = uses_.readers_end(out);
    return begin != end && program_.remote_reads[out] == 0 && !uses_.is_kept(out) &&
           uses_.freed(out) >= 0 &&
           std::all_of(begin, end, [&](int reader) { return has(group, reader); });
  }

  /// In the order in which they are read.
  std::vector<Slot> operands_of(const Group& group) const {
    std::vector<Slot> found;
    for (const int m : group.members) {
      for (const Slot operand : members_[m].operands) {
        const int maker = maker_[operand];
        const bool own = maker >= 0 && group.has(maker);
        if (!own && std::find(found.begin(), found.end(), operand) == found.end())
          found.push_back(operand);
      }
    }
    return found;
  }

  // ---- memory ----

  /// Whether no more is held at any time when the group waits, or at least no more than at the
  /// program's peak; then `held_` and `released_` are what they become.
  bool waiting_keeps_peak(const Group& group, const Group& both) {
    const int from = group.position, to = both.position;
    std::vector<int64_t> change(to - from + 2, 0);  // from instruction to instruction
    for (const int m : group.members) {
      const Slot out = members_[m].out;
      if (is_inside(out, group)) continue;
      change.front() -= bytes(out);
      if (!is_inside(out, both)) change[to - from] += bytes(out);
    }
    std::vector<int> delayed;  // storages
    for (const Slot operand : operands_of(group)) {
      const int storage = uses_.storage(operand);
      const int released = released_[storage];
      if (released > to || std::find(delayed.begin(), delayed.end(), storage) != delayed.end())
        continue;
      delayed.push_back(storage);
      change[std::max(released - from, 0)] += uses_.bytes(storage);
    }
    if (!keeps_peak(from, change)) return false;
    apply(from, change);
    give_up(group, both, to + 1);
    for (const int storage : delayed) released_[storage] = to + 1;
    return true;
  }

  /// The same of a group that is made earlier, where another is.
  bool coming_first_keeps_peak(const Group& group, const Group& other, const Group& both) {
    const int from = both.position, to = group.position;
    std::vector<int64_t> change(to - from + 1, 0);
    for (const int m : group.members) {
      if (!is_inside(members_[m].out, both)) change.front() += bytes(members_[m].out);
    }
    for (const int m : other.members) {
      const Slot out = members_[m].out;
      if (is_inside(out, both) && !is_inside(out, other)) change.front() -= bytes(out);
    }
    if (!keeps_peak(from, change)) return false;
    apply(from, change);
    give_up(other, both, to);
    return true;
  }

  int64_t bytes(Slot slot) const { return uses_.bytes(uses_.storage(slot)); }

  /// The last change is that behind the window.
  void apply(int from, const std::vector<int64_t>& change) {
    int64_t more = 0;
    for (size_t i = 0; i + 1 < change.size(); ++i) held_[from + i] += more += change[i];
  }

  /// Of what a group makes and only the larger one reads nothing is held from `begin` on.
  void give_up(const Group& group, const Group& both, int begin) {
    for (const int m : group.members) {
      const Slot out = members_[m].out;
      if (!is_inside(out, both) || is_inside(out, group)) continue;
      const int end = std::min(released_[uses_.storage(out)], static_cast<int>(held_.size()));
      for (int i = begin; i < end; ++i) held_[i] -= bytes(out);
    }
  }

  bool keeps_peak(int from, const std::vector<int64_t>& change) const {
    int64_t more = 0;
    for (size_t i = 0; i + 1 < change.size(); ++i) {
      more += change[i];
      if (more > 0 && held_[from + i] + awaited_[from + i] + more > peak_) return false;
    }
    return true;
  }

  // ---- the result ----

  Joins joins() const {
    Joins made;
    made.dropped.assign(instrs_.size(), false);
    std::unordered_map<Slot, size_t> last;  // the call behind which a slot is freed
    for (const Group& group : groups_) {
      if (group.members.size() < 2) continue;
      for (const int m : group.members) {
        made.dropped[members_[m].position] = true;
        if (is_inside(members_[m].out, group)) made.dropped[uses_.freed(members_[m].out)] = true;
      }
      made.calls.push_back(joined(group));
    }
    std::sort(made.calls.begin(), made.calls.end(),
              [](const JoinedCall& a, const JoinedCall& b) { return a.position < b.position; });
    for (size_t c = 0; c < made.calls.size(); ++c) {
      for (const Slot operand : made.calls[c].operands) {
        const int freed = uses_.freed(operand);
        if (freed >= 0 && freed < made.calls[c].position) last[operand] = c;
      }
    }
    for (const auto& [slot, call] : last) {
      made.calls[call].freed.push_back(slot);
      made.dropped[uses_.freed(slot)] = true;
    }
    for (JoinedCall& call : made.calls) std::sort(call.freed.begin(), call.freed.end());
    return made;
  }

  JoinedCall joined(const Group& group) const {
    const ComputeInstr& last =
        std::get<ComputeInstr>(instrs_[members_[group.members.back()].position]);
    JoinedCall call;
    call.position = group.position;
    call.op = last.op;
    call.source = last.source;
    call.operands = operands_of(group);
    // The results lie as the first operand does.
    const Shape& shape = uses_.shape(members_[group.members.back()].out);
    std::stable_partition(call.operands.begin(), call.operands.end(), [&](Slot slot) {
      return uses_.shape(slot) == shape && !repeats(strides_[slot]);
    });
    std::unordered_map<Slot, std::string> names;
    const auto name = [&](Slot slot) {
      return names.emplace(slot, "x" + std::to_string(names.size())).first->second;
    };
    for (const Slot operand : call.operands) name(operand);
    std::string results;
    for (const int m : group.members) {
      const Member& member = members_[m];
      std::vector<std::string> read;
      for (const Slot operand : member.operands) read.push_back(names.at(operand));
      const bool is_first = call.program.empty();
      call.program += (is_first ? "" : "; ") + tdl::formula(*member.op->spec, read)->text;
      call.what += (is_first ? "" : ", ") + member.op->target;
      const std::string made = name(member.out);
      if (is_inside(member.out, group)) continue;
      results += " " + made;
      call.outs.push_back(member.out);
    }
    call.program += " >" + results;
    return call;
  }

  ElementwiseCalls& calls_;
  const WorkerProgram& program_;
  const std::vector<Instr>& instrs_;
  const std::vector<Strides>& strides_;
  ListUses uses_;
  std::vector<Member> members_;
  Positions member_at_;           ///< by position
  Positions maker_;               ///< by slot: the member that makes it
  Positions work_;                ///< calls before a position that are no members, and fetches
  std::vector<Group> groups_;     ///< by their last member; others' are empty
  const int64_t peak_;            ///< of both lists, at least
  std::vector<int64_t> held_;     ///< by position, with the groups so far
  std::vector<int64_t> awaited_;  ///< by position
  std::vector<int> released_;     ///< by storage, likewise
};

/// Whether what is decided of one worker's lists holds for another's.
class Likeness {
 public:
  Likeness(const Program& program, const std::vector<std::vector<Strides>>& strides)
      : program_(program), strides_(strides) {}

  bool are_alike(int v, int w) const {
    const WorkerProgram &a = program_.workers[v], &b = program_.workers[w];
    if (a.num_slots != b.num_slots || strides_[v] != strides_[w]) return false;
    const auto same_slots = [&](const Binding& binding) {
      return binding.slots[v] == binding.slots[w];
    };
    const auto same_input = [&](const Binding& binding) {
      return same_slots(binding) && binding.regions[v].shape() == binding.regions[w].shape();
    };
    return std::equal(a.remote_reads.begin(), a.remote_reads.end(), b.remote_reads.begin(),
                      [](int x, int y) { return (x > 0) == (y > 0); }) &&
           std::all_of(program_.outputs.begin(), program_.outputs.end(), same_slots) &&
           std::all_of(program_.inputs.begin(), program_.inputs.end(), same_input) &&
           same_lists(a.forward, v, b.forward, w) && same_lists(a.backward, v, b.backward, w);
  }

 private:
  static bool same_lists(const std::vector<Instr>& a, int v, const std::vector<Instr>& b, int w) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [&](const Instr& x, const Instr& y) { return same_instr(x, v, y, w); });
  }

  static bool same_instr(const Instr& a, int v, const Instr& b, int w) {
    if (a.index() != b.index()) return false;
    if (const auto* free = std::get_if<FreeInstr>(&a))
      return free->slot == std::get<FreeInstr>(b).slot;
    if (const auto* x = std::get_if<ComputeInstr>(&a)) {
      const auto& y = std::get<ComputeInstr>(b);
      return x->op == y.op && x->copies == y.copies && x->outputs == y.outputs &&
             x->crop.empty() == y.crop.empty() && x->computed == y.computed &&
             x->output_shapes == y.output_shapes && same_operands(x->args, y.args);
    }
    const auto &x = std::get<FetchInstr>(a), &y = std::get<FetchInstr>(b);
    return x.dest == y.dest && x.view == y.view && x.shape == y.shape &&
           std::equal(x.parts.begin(), x.parts.end(), y.parts.begin(), y.parts.end(),
                      [&](const CopyPart& p, const CopyPart& q) {
                        const bool is_own = p.worker == v;
                        return is_own == (q.worker == w) && (!is_own || p.slot == q.slot);
                      });
  }

  static bool same_operands(const std::vector<Attr>& a, const std::vector<Attr>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Attr& x, const Attr& y) {
      const bool is_operand =
          std::holds_alternative<ValueRef>(x) || std::holds_alternative<std::vector<ValueRef>>(x);
      return x.index() == y.index() && (!is_operand || x == y);
    });
  }

  const Program& program_;
  const std::vector<std::vector<Strides>>& strides_;
};

/// Both lists of a worker, and of those that are like it.
struct WorkerJoins {
  int worker = 0;
  Joins forward, backward;
};

ComputeInstr made_of(const JoinedCall& joined, const Shape& shape) {
  ComputeInstr call;
  call.op = joined.op;
  call.source = joined.source;
  call.target = "smex::pointwise";
  call.what = joined.what;
  call.kind = std::make_shared<const std::string>(operator_name(call));
  call.args = {std::vector<ValueRef>(joined.operands.begin(), joined.operands.end()),
               joined.program};
  call.outputs = joined.outs;
  call.output_shapes.assign(joined.outs.size(), shape);
  return call;
}

void rewrite(const Joins& joins, std::vector<Instr>& instrs) {
  if (joins.calls.empty()) return;
  std::vector<Instr> result;
  result.reserve(instrs.size());
  auto next = joins.calls.begin();
  for (size_t i = 0; i < instrs.size(); ++i) {
    if (!joins.dropped[i]) {
      result.push_back(std::move(instrs[i]));
    } else if (next != joins.calls.end() && next->position == static_cast<int>(i)) {
      const auto& replaced = std::get<ComputeInstr>(instrs[i]);
      result.emplace_back(made_of(*next, replaced.output_shapes[0]));
      for (const Slot slot : next->freed) result.emplace_back(FreeInstr{slot});
      ++next;
    }
  }
  instrs = std::move(result);
}

int64_t most(const std::vector<int64_t>& bytes) {
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

// So many different workers are looked through for one that is alike.
constexpr size_t kMostKinds = 4;

}  // namespace

void join_pointwise(const Graph& graph, const std::vector<std::vector<Strides>>& strides,
                    const std::set<std::string>& views, Program& program) {
  ElementwiseCalls calls(graph);
  const Likeness likeness(program, strides);
  std::deque<WorkerJoins> kinds;  // the latest first
  std::vector<const WorkerJoins*> of_worker;
  for (int w = 0; w < program.num_workers; ++w) {
    const auto recent = kinds.begin() + std::min(kinds.size(), kMostKinds);
    const auto alike = std::find_if(kinds.begin(), recent, [&](const WorkerJoins& kind) {
      return likeness.are_alike(kind.worker, w);
    });
    if (alike != recent) {
      of_worker.push_back(&*alike);
      continue;
    }
    ListUses forward(program, w, /*backward=*/false, views);
    ListUses backward(program, w, /*backward=*/true, views);
    const int64_t peak = std::max(most(forward.held()), most(backward.held()));
    of_worker.push_back(&kinds.emplace_front(
        w, Joining(calls, program, w, false, strides[w], std::move(forward), peak).run(),
        Joining(calls, program, w, true, strides[w], std::move(backward), peak).run()));
  }
  for (int w = 0; w < program.num_workers; ++w) {
    rewrite(of_worker[w]->forward, program.workers[w].forward);
    rewrite(of_worker[w]->backward, program.workers[w].backward);
  }
}

}  // namespace smex
