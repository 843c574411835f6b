#pragma once

#include <vector>

#include "ir/graph.h"
#include "partition/lower/program.h"
#include "partition/simulate/course.h"

namespace smex {

/// By op of the graph the seconds of the critical path of an iteration that are its: those of its
/// calls, and of each message and fetch an equal part, shared by who makes the tensor and who reads
/// it. What stands for no op, and waiting, are nobody's.
std::vector<double> critical_seconds(const Graph& graph, const Program& program,
                                     const Course& course);

}  // namespace smex
