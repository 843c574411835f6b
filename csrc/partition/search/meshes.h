#pragma once

#include <vector>

#include "partition/search/search.h"

namespace smex {

/// Meshes of fewer steps than `mesh`, which have fewer ways to cut but pay a latency less often:
/// one step of all workers, and for kTime one for each of the machine's levels.
std::vector<Mesh> longer_steps(const Mesh& mesh, const SearchOptions& options);

/// The first `most` ways to write a number as a product of factors above 1, without those in
/// `known`: those that differ least from the prime factors first, the largest first factors first.
/// Early steps decide for later ones, so that their sizes and their order count.
std::vector<Mesh> products(int number, size_t most, const std::vector<Mesh>& known = {});

}  // namespace smex
