#include "vertex/input_graphs.h"

#include <gtest/gtest.h>

#include <string>

#include "ir/error.h"
#include "samples.h"

namespace smex::vertex {
namespace {

template <typename Function>
std::string error_of(const Function& function) {
  try {
    function();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::string error_of(const Batch& batch, std::vector<Arity> arities = {Arity{}}) {
  return error_of([&] { check(batch.graphs(), arities); });
}

TEST(InputGraphs, LevelsAreLongestPaths) {
  // 3 -> 2 -> 1 -> 0 and 3 -> 0, and a star whose centre is 0
  const Batch batch({{{}, {0}, {1}, {2, 0}}, {{1, 2, 3}, {}, {}, {}}, {}});
  EXPECT_EQ(levels(batch.graphs()), (std::vector<int64_t>{0, 1, 2, 3, 1, 0, 0, 0}));
}

TEST(InputGraphs, LongChainsNeedNoStack) {
  constexpr int64_t kLength = 300000;
  Children downwards(kLength);  // the child of each vertex comes after it
  for (int64_t v = 0; v + 1 < kLength; ++v) downwards[v] = {v + 1};
  EXPECT_EQ(levels(Batch({downwards}).graphs()).front(), kLength - 1);
}

TEST(InputGraphs, ChildrenMustBeInTheSample) {
  EXPECT_EQ(error_of(Batch({chain(2), chain(3)})), "no error");
  EXPECT_EQ(error_of(Batch({chain(2), {{}, {5}}})),
            "input graphs: vertex 1 of sample 1 has child 5, which is missing: the sample has 2 "
            "vertices, numbered from 0");
  EXPECT_NE(error_of(Batch({chain(2), {{}, {-1}}})).find("has child -1"), std::string::npos);
}

TEST(InputGraphs, ArityNamesVertexAndType) {
  const Batch batch({chain(2), {{}, {}, {0, 1, 0}}}, {0, 1, 0, 0, 1});
  const Arity leaf{0, 0, false, "a leaf"}, binary{2, 2, true, "Tree"};
  EXPECT_NE(error_of(batch, {leaf, Arity{1, 2, false, "Tree"}})
                .find("vertex 2 of sample 1 has 3 children, expected 1 to 2 for a vertex of Tree"),
            std::string::npos);
  EXPECT_NE(error_of(batch, {leaf, binary})
                .find("vertex 1 of sample 0 has 1 children, expected 2 or no for a vertex of Tree"),
            std::string::npos);
  EXPECT_NE(error_of(batch, {leaf, Arity{2, -1, false, "Tree"}})
                .find("expected at least 2 for a vertex of Tree"),
            std::string::npos);
  EXPECT_EQ(error_of(batch, {leaf, Arity{}}), "no error");
}

TEST(InputGraphs, TypesMustBeKnown) {
  EXPECT_NE(error_of(Batch({chain(2)}, {0, 2}), {Arity{}, Arity{}})
                .find("vertex 1 of sample 0 is of type 2, expected a type below 2"),
            std::string::npos);
  EXPECT_NE(error_of(Batch({chain(2)}, {0})).find("expected a type for each of 2 vertices"),
            std::string::npos);
}

TEST(InputGraphs, OffsetsMustRise) {
  Batch batch({chain(3)});
  batch.child_offsets = {0, 2, 1, 2};
  EXPECT_NE(error_of(batch).find("expected child offsets that rise"), std::string::npos);
  batch = Batch({chain(3)});
  batch.sample_offsets = {0, 2};
  EXPECT_NE(error_of(batch).find("expected sample offsets that rise"), std::string::npos);
}

TEST(InputGraphs, CyclesAreShown) {
  const Batch batch({chain(3), {{}, {0, 3}, {1}, {2}}});
  EXPECT_NE(error_of([&] {
              levels(batch.graphs());
            }).find("sample 1 has a cycle, 1 -> 3 -> 2 -> 1 from parent to child"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              levels(Batch(std::vector<Children>{{{0}}}).graphs());
            }).find("sample 0 has a cycle, 0 -> 0 from parent to child"),
            std::string::npos);
}

}  // namespace
}  // namespace smex::vertex
