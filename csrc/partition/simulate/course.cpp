#include "partition/simulate/course.h"

#include <algorithm>

namespace smex {

std::vector<Cause> Course::critical_path() const {
  Cause last;
  double latest = -1;
  for (size_t w = 0; w < instructions.size(); ++w) {
    if (instructions[w].empty() || instructions[w].back().end <= latest) continue;
    latest = instructions[w].back().end;
    last = {Cause::Kind::kInstruction, static_cast<int>(w),
            static_cast<int>(instructions[w].size()) - 1};
  }
  std::vector<Cause> path;
  while (last.kind != Cause::Kind::kNothing) {
    path.push_back(last);
    last = last.kind == Cause::Kind::kInstruction ? instructions[last.worker][last.index].cause
                                                  : messages[last.index].cause;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace smex
