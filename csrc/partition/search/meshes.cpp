#include "partition/search/meshes.h"

#include <algorithm>
#include <functional>
#include <set>

namespace smex {

namespace {

/// Whether to go on with more.
using Visit = std::function<bool(const Mesh& mesh)>;

/// Visits `count` factors above 1 in all orders after those of `before`, the largest first.
bool for_each_product(int number, size_t count, Mesh& before, const Visit& visit) {
  if (count == 1) {
    before.push_back(number);
    const bool more = visit(before);
    before.pop_back();
    return more;
  }
  std::set<int, std::greater<>> divisors{1};
  for (int prime : factorise(number)) {
    const std::set<int, std::greater<>> known = divisors;
    for (int divisor : known) divisors.insert(prime * divisor);
  }
  for (int first : divisors) {
    if (first == 1 || first == number) continue;
    if (factorise(number / first).size() < count - 1) continue;
    before.push_back(first);
    const bool more = for_each_product(number / first, count - 1, before, visit);
    before.pop_back();
    if (!more) return false;
  }
  return true;
}

bool contains(const std::vector<Mesh>& meshes, const Mesh& mesh) {
  return std::find(meshes.begin(), meshes.end(), mesh) != meshes.end();
}

}  // namespace

std::vector<Mesh> longer_steps(const Mesh& mesh, const SearchOptions& options) {
  std::vector<Mesh> found;
  if (mesh.size() < 2) return found;
  const auto add = [&](const Mesh& other) {
    if (other != mesh && !contains(found, other)) found.push_back(other);
  };
  const int workers = mesh_size(mesh);
  add({workers});
  if (options.machine && options.objective == Objective::kTime) {
    add(options.machine->mesh(workers).value_or(mesh));
  }
  return found;
}

std::vector<Mesh> products(int number, size_t most, const std::vector<Mesh>& known) {
  std::vector<Mesh> found;
  if (most == 0) return found;
  for (size_t count = factorise(number).size(); count > 0 && found.size() < most; --count) {
    Mesh before;
    for_each_product(number, count, before, [&](const Mesh& mesh) {
      if (!contains(known, mesh)) found.push_back(mesh);
      return found.size() < most;
    });
  }
  return found;
}

}  // namespace smex
