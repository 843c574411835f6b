#include "partition/search/recursion/steps.h"

#include <gtest/gtest.h>

namespace smex {
namespace {

using Numbers = std::vector<int>;

TEST(Steps, OthersAreWhatIsGiven) {
  EXPECT_EQ((Steps{1, 1}.others({4, 5, 6})), (Numbers{4, 6}));
  EXPECT_EQ((Steps{0, 2}.others({4, 5, 6}, {7})), (Numbers{6, 7}));
  EXPECT_EQ((Steps{0, 1}.others({4})), Numbers{});
  EXPECT_EQ((Steps{1, 2}.others_and({4, 5, 6}, 1)), (Mesh{4, 5})) << "one of the two chosen";
  EXPECT_EQ((Steps{0, 1}.others_and({4, 5, 6}, 0)), (Mesh{5, 6}));
}

TEST(Steps, ChoicesTakeThePlaceOfThoseBefore) {
  EXPECT_EQ((Steps{1, 2}.with({4, 5, 6, 7}, {1, 2}, 4)), (Choices{4, 1, 2, 7}));
  EXPECT_EQ((Steps{1, 2}.with({4, 5, 6, 7}, {1, 2}, 2)), (Choices{4, 1}));
  EXPECT_EQ((Steps{1, 2}.with({4, 5, 6, 7}, {1, 2}, 1)), Choices{4});
}

}  // namespace
}  // namespace smex
