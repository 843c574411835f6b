#include "partition/plan/choice.h"

#include <functional>
#include <numeric>

namespace smex {

int mesh_size(const Mesh& mesh) {
  return std::accumulate(mesh.begin(), mesh.end(), 1, std::multiplies<>());
}

int mesh_coordinate(const Mesh& mesh, int worker, int step) {
  for (int s = static_cast<int>(mesh.size()) - 1; s > step; --s) worker /= mesh[s];
  return worker % mesh[step];
}

size_t first_difference(const Mesh& mesh, int a, int b) {
  size_t step = 0;
  while (step < mesh.size() && mesh_coordinate(mesh, a, static_cast<int>(step)) ==
                                   mesh_coordinate(mesh, b, static_cast<int>(step))) {
    ++step;
  }
  return step;
}

}  // namespace smex
