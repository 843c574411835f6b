#include "partition/simulate/critical_seconds.h"

#include <algorithm>
#include <utility>

namespace smex {
namespace {

/// By number of a relayout the value that it brings.
std::vector<ValueId> values_of_relayouts(const Program& program) {
  std::vector<ValueId> values;
  for (const WorkerProgram& worker : program.workers) {
    for (const auto* list : {&worker.forward, &worker.backward}) {
      for (const Instr& instr : *list) {
        const auto* const fetch = std::get_if<FetchInstr>(&instr);
        if (!fetch || fetch->relayout < 0) continue;
        const size_t needed = fetch->relayout + size_t{1};
        values.resize(std::max(values.size(), needed), kNoValue);
        values[fetch->relayout] = fetch->value;
      }
    }
  }
  return values;
}

/// When it begins, and when what waited for it could go on.
std::pair<double, double> span_of(const Course& course, const Cause& cause) {
  if (cause.kind == Cause::Kind::kMessage) {
    const MessageSpan& span = course.messages[cause.index];
    return {span.begin, span.arrives};
  }
  const InstrSpan& span = course.instructions[cause.worker][cause.index];
  return {span.begin, span.end};
}

}  // namespace

std::vector<double> critical_seconds(const Graph& graph, const Program& program,
                                     const Course& course) {
  std::vector<double> found(graph.ops().size(), 0);
  const std::vector<ValueId> values = values_of_relayouts(program);
  const auto share = [&](ValueId id, double seconds) {
    if (id == kNoValue) return;
    const Value& value = graph.value(id);
    const bool is_made = value.producer >= 0;
    const double each = seconds / static_cast<double>(value.users.size() + is_made);
    if (is_made) found[value.producer] += each;
    for (const OpId user : value.users) found[user] += each;
  };
  const std::vector<Cause> path = course.critical_path();
  for (size_t n = 0; n < path.size(); ++n) {
    const auto [begin, end] = span_of(course, path[n]);
    // The next message may set out before this one has arrived.
    const double next = n + 1 < path.size() ? span_of(course, path[n + 1]).first : end;
    const double seconds = std::max(0.0, std::min(end, next) - begin);
    if (path[n].kind == Cause::Kind::kMessage) {
      share(values[course.messages[path[n].index].message.relayout], seconds);
      continue;
    }
    const InstrSpan& span = course.instructions[path[n].worker][path[n].index];
    const Instr& instr = program.workers[path[n].worker].list(span.backward)[span.position];
    if (const auto* compute = std::get_if<ComputeInstr>(&instr)) {
      if (compute->op >= 0) found[compute->op] += seconds;
    } else if (const auto* fetch = std::get_if<FetchInstr>(&instr)) {
      share(fetch->value, seconds);
    }
  }
  return found;
}

}  // namespace smex
