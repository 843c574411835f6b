#include "vertex/input_graphs.h"

#include <algorithm>
#include <string>

#include "ir/error.h"

namespace smex::vertex {
namespace {

/// A vertex and the sample it is in, as users number them.
struct Place {
  int64_t sample;
  int64_t vertex;
};

Place place_of(const InputGraphs& graphs, int64_t vertex) {
  const auto& offsets = graphs.sample_offsets;
  const auto after = std::upper_bound(offsets.begin(), offsets.end(), vertex);
  const int64_t sample = after - offsets.begin() - 1;
  return {sample, vertex - offsets[sample]};
}

std::string text(const Place& place) {
  return "vertex " + std::to_string(place.vertex) + " of sample " + std::to_string(place.sample);
}

[[noreturn]] void fail(const std::string& what) { throw UserError("input graphs: " + what); }

void check_offsets(std::span<const int64_t> offsets, int64_t total, const char* name,
                   const char* of) {
  bool is_right = !offsets.empty() && offsets.front() == 0 && offsets.back() == total;
  for (size_t i = 1; is_right && i < offsets.size(); ++i) is_right = offsets[i - 1] <= offsets[i];
  if (!is_right) {
    fail(std::string("expected ") + name + " that rise from 0 to the number of " + of + ", " +
         std::to_string(total) + "; make graphs by smex.vertex's constructors");
  }
}

void check_arity(const InputGraphs& graphs, int64_t vertex, const Arity& arity) {
  const int64_t found = graphs.num_children(vertex);
  if (arity.or_none && found == 0) return;
  if (found >= arity.fewest && (arity.most < 0 || found <= arity.most)) return;
  std::string expected = std::to_string(arity.fewest);
  if (arity.most < 0) {
    expected = "at least " + expected;
  } else if (arity.most != arity.fewest) {
    expected += " to " + std::to_string(arity.most);
  }
  if (arity.or_none && arity.fewest > 0) expected += " or no";
  fail(text(place_of(graphs, vertex)) + " has " + std::to_string(found) + " children, expected " +
       expected + " for a vertex of " + arity.of +
       "; change the graph, or the arity of its vertex function");
}

[[noreturn]] void fail_cycle(const InputGraphs& graphs, std::span<const int64_t> cycle) {
  constexpr size_t kShown = 8;
  const Place place = place_of(graphs, cycle.front());
  const int64_t first = graphs.sample_offsets[place.sample];
  std::string path;
  for (size_t i = 0; i < std::min(cycle.size(), kShown); ++i) {
    path += std::to_string(cycle[i] - first) + " -> ";
  }
  if (cycle.size() > kShown) path += "... -> ";
  fail("sample " + std::to_string(place.sample) + " has a cycle, " + path +
       std::to_string(place.vertex) + " from parent to child, so no vertex of it can be computed " +
       "first; remove one of these edges");
}

/// The levels where children come before their parents, or after them, all through; the order that
/// most constructors number in. False as soon as it is not so.
bool levels_in_order(const InputGraphs& graphs, bool children_first, std::vector<int64_t>& level) {
  const int64_t vertices = graphs.num_vertices();
  for (int64_t i = 0; i < vertices; ++i) {
    const int64_t vertex = children_first ? i : vertices - 1 - i;
    int64_t highest = -1;
    for (const int64_t child : graphs.children_of(vertex)) {
      if (children_first ? child >= vertex : child <= vertex) return false;
      highest = std::max(highest, level[child]);
    }
    level[vertex] = highest + 1;
  }
  return true;
}

/// The levels in any order, depth first.
std::vector<int64_t> levels_by_search(const InputGraphs& graphs) {
  constexpr int64_t kUnseen = -1, kOpen = -2;
  struct Open {
    int64_t vertex;
    int64_t next;  // position of the child to look at
  };
  const int64_t vertices = graphs.num_vertices();
  std::vector<int64_t> level(vertices, kUnseen);
  std::vector<Open> stack;
  for (int64_t start = 0; start < vertices; ++start) {
    if (level[start] != kUnseen) continue;
    level[start] = kOpen;
    stack.push_back({start, graphs.child_offsets[start]});
    while (!stack.empty()) {
      Open& top = stack.back();
      const int64_t end = graphs.child_offsets[top.vertex + 1];
      while (top.next < end && level[graphs.children[top.next]] >= 0) ++top.next;
      if (top.next == end) {
        int64_t highest = -1;
        for (const int64_t child : graphs.children_of(top.vertex))
          highest = std::max(highest, level[child]);
        level[top.vertex] = highest + 1;
        stack.pop_back();
        continue;
      }
      const int64_t child = graphs.children[top.next];
      if (level[child] == kOpen) {
        std::vector<int64_t> cycle;
        for (auto open = stack.rbegin(); open != stack.rend(); ++open) {
          cycle.push_back(open->vertex);
          if (open->vertex == child) break;
        }
        std::reverse(cycle.begin(), cycle.end());
        fail_cycle(graphs, cycle);
      }
      level[child] = kOpen;
      stack.push_back({child, graphs.child_offsets[child]});
    }
  }
  return level;
}

}  // namespace

void check(const InputGraphs& graphs, std::span<const Arity> arities) {
  const int64_t vertices = graphs.num_vertices();
  check_offsets(graphs.child_offsets, static_cast<int64_t>(graphs.children.size()), "child offsets",
                "children");
  check_offsets(graphs.sample_offsets, vertices, "sample offsets", "vertices");
  if (!graphs.types.empty() && static_cast<int64_t>(graphs.types.size()) != vertices) {
    fail("expected a type for each of " + std::to_string(vertices) + " vertices, found " +
         std::to_string(graphs.types.size()));
  }
  const auto num_types = static_cast<int64_t>(arities.size());
  for (int64_t sample = 0; sample < graphs.num_samples(); ++sample) {
    const int64_t begin = graphs.sample_offsets[sample], end = graphs.sample_offsets[sample + 1];
    for (int64_t vertex = begin; vertex < end; ++vertex) {
      const int64_t type = graphs.type(vertex);
      if (type < 0 || type >= num_types) {
        fail(text({sample, vertex - begin}) + " is of type " + std::to_string(type) +
             ", expected a type below " + std::to_string(num_types));
      }
      for (const int64_t child : graphs.children_of(vertex)) {
        if (child >= begin && child < end) continue;
        fail(text({sample, vertex - begin}) + " has child " + std::to_string(child - begin) +
             ", which is missing: the sample has " + std::to_string(end - begin) +
             " vertices, numbered from 0");
      }
      check_arity(graphs, vertex, arities[type]);
    }
  }
}

std::vector<int64_t> levels(const InputGraphs& graphs) {
  std::vector<int64_t> level(graphs.num_vertices());
  if (levels_in_order(graphs, /*children_first=*/true, level)) return level;
  if (levels_in_order(graphs, /*children_first=*/false, level)) return level;
  return levels_by_search(graphs);
}

}  // namespace smex::vertex
