#pragma once

#include <cstddef>
#include <vector>

namespace smex {

/// Worker counts of the recursive steps, k = k1·k2·…; worker numbers are mixed-radix, step 0
/// slowest.
using Mesh = std::vector<int>;

/// Number of workers of a mesh.
int mesh_size(const Mesh& mesh);
/// The coordinate of `worker` along step `step`.
int mesh_coordinate(const Mesh& mesh, int worker, int step);
/// The first step in which two workers' coordinates differ; the number of steps where none does.
size_t first_difference(const Mesh& mesh, int a, int b);

/// Per step what becomes of a value or an op: the dimension that is cut (values) or the index that
/// is split (ops), evenly or by a weighting of the graph; or one of the below.
using Choices = std::vector<int>;

inline constexpr int kReplicate = -1;
/// A sum that stays pending: every worker holds an addend of a value, or computes an op, which is
/// linear in them, on its addends. What makes such a value splits a sum, or is such an op; what
/// uses it is such an op.
inline constexpr int kPending = -2;
/// The workers at one coordinate of the step hold all of a value, or compute all of an op: see
/// `only_at`.
inline constexpr int kFirstOnly = -3;

constexpr int only_at(int coordinate) { return kFirstOnly - coordinate; }
constexpr bool is_only(int choice) { return choice <= kFirstOnly; }
/// Of a choice that `is_only`.
constexpr int coordinate_of(int choice) { return kFirstOnly - choice; }

/// Dimensions and indices are fewer.
inline constexpr int kWeightingStride = 1 << 10;

/// A cut in the proportions of weighting number `weighting` of the graph; 0: even.
constexpr int weighted(int cut, int weighting) { return cut + weighting * kWeightingStride; }
/// The dimension or index that a choice cuts; negative where it cuts none.
constexpr int cut_of(int choice) { return choice < 0 ? choice : choice % kWeightingStride; }
constexpr int weighting_of(int choice) { return choice < 0 ? 0 : choice / kWeightingStride; }

}  // namespace smex
