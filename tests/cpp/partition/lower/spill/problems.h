#pragma once

#include <algorithm>
#include <random>

#include "partition/lower/spill/schedule.h"

namespace smex::test {

/// Operators in the order of their list, each of a few operands and a result.
inline SpillProblem random_problem(std::mt19937& random, int steps, int largest) {
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  SpillProblem problem{steps, 0, {}};
  const int inputs = draw(1, 3);
  for (int n = 0; n < inputs; ++n) problem.blocks.push_back({draw(1, largest), {}, true, false});
  for (int step = 0; step < steps; ++step) {
    const int known = static_cast<int>(problem.blocks.size());
    for (int n = draw(1, 3); n > 0; --n) {
      auto& uses = problem.blocks[draw(std::max(0, known - 6), known - 1)].uses;
      if (uses.empty() || uses.back() != step) uses.push_back(step);
    }
    problem.blocks.push_back({draw(1, largest), {step}, false, draw(0, 9) == 0});
  }
  const auto bytes = problem.bytes_of_steps();
  problem.capacity = *std::max_element(bytes.begin(), bytes.end()) + draw(0, 2 * largest);
  return problem;
}

}  // namespace smex::test
