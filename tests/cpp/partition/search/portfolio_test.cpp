#include "partition/search/portfolio.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "../graphs.h"
#include "ir/error.h"
#include "partition/lower/lower.h"
#include "partition/lower/residency.h"
#include "partition/search/regions.h"
#include "stages.h"

namespace smex {
namespace {

using test::all_cut;

struct Named {
  Planner planner;
  Mesh mesh;
  bool operator==(const Named&) const = default;
};

std::vector<Named> named(const std::vector<Request>& requests) {
  std::vector<Named> found;
  for (const Request& request : requests) found.push_back({request.options.planner, request.mesh});
  return found;
}

int64_t bytes(const Plan& plan) {
  return std::accumulate(plan.step_bytes.begin(), plan.step_bytes.end(), int64_t{0});
}

// ---- candidates ----

TEST(Candidates, AreOtherMeshesPlannersAndOrders) {
  const Graph graph = test::training_graph(12, 6, 18);
  const Mesh six{3, 2};
  EXPECT_EQ(named(candidates(graph, six, all_cut(), /*any_mesh=*/true)),
            (std::vector<Named>{{Planner::kTofu, six},
                                {Planner::kTofu, {6}},
                                {Planner::kAllRow, six},
                                {Planner::kEqualChop, six},
                                {Planner::kIcml18, six},
                                {Planner::kSpartan, six},
                                {Planner::kTofu, {2, 3}}}));
  EXPECT_EQ(named(candidates(graph, six, all_cut(), /*any_mesh=*/false)),
            (std::vector<Named>{{Planner::kTofu, six},
                                {Planner::kAllRow, six},
                                {Planner::kEqualChop, six},
                                {Planner::kIcml18, six},
                                {Planner::kSpartan, six}}));
}

TEST(Candidates, ReplicateParametersWhereAllMayBe) {
  const Graph graph = test::training_graph(12, 6, 18);
  SearchOptions options = all_cut();
  options.replicate_bytes = kAllBytes;
  const auto found = named(candidates(graph, {2, 2}, options, /*any_mesh=*/false));
  EXPECT_EQ(found.size(), 7);
  EXPECT_EQ(found[2], (Named{Planner::kDataParallel, {2, 2}}));
  EXPECT_EQ(found[4], (Named{Planner::kFsdp, {2, 2}}));
}

TEST(Candidates, AreFewUnderAMemoryLimitForOtherPlannersAndManySteps) {
  const Graph graph = test::training_graph(12, 6, 18);
  SearchOptions options = all_cut();
  options.memory_limit = 1e9;
  EXPECT_EQ(named(candidates(graph, {3, 2}, options, /*any_mesh=*/true)),
            (std::vector<Named>{{Planner::kTofu, {3, 2}}, {Planner::kTofu, {6}}}));
  const auto rows = candidates(graph, {3, 2}, all_cut(Planner::kAllRow), /*any_mesh=*/true);
  EXPECT_EQ(named(rows), (std::vector<Named>{{Planner::kAllRow, {3, 2}}}));
  EXPECT_EQ(candidates(graph, {2, 2, 2, 2}, all_cut(), /*any_mesh=*/false).size(), 1);
  EXPECT_EQ(candidates(graph, {}, all_cut(), /*any_mesh=*/true).size(), 1) << "one worker";
}

TEST(Candidates, HaveSingleStepsWhereSeveralAreChosenTogether) {
  const Graph graph = test::training_graph(12, 6, 18);
  SearchOptions options = all_cut();
  options.joint = 2;
  const auto found = candidates(graph, {2, 2}, options, /*any_mesh=*/false);
  for (size_t n = 0; n < found.size(); ++n) {
    EXPECT_EQ(found[n].options.joint, n + 1 == found.size() ? 1 : 2);
  }
  EXPECT_EQ(found.back().options.planner, Planner::kTofu);
}

// ---- the cheapest ----

TEST(BestPlan, IsTheFirstOfTheCheapest) {
  const Graph graph = test::training_graph(12, 6, 18);
  const Request rows{{3, 2}, all_cut(Planner::kAllRow), {}, {}};
  const Request tofu{{3, 2}, all_cut(), {}, {}};
  ASSERT_LT(bytes(search(graph, tofu.mesh, tofu.options)),
            bytes(search(graph, rows.mesh, rows.options)));
  for (int round = 0; round < 5; ++round) {
    const Outcome outcome = best_plan(graph, {rows, tofu, tofu, rows});
    EXPECT_EQ(outcome.request, 1) << "the first of two that are equal";
    const FoundPlan& found = std::get<FoundPlan>(outcome.result);
    EXPECT_EQ(found.plan.values, search(graph, tofu.mesh, tofu.options).values);
    EXPECT_EQ(found.plan.planner, "tofu");
  }
}

TEST(BestPlan, IsTheCheapestOfAllCandidates) {
  for (const Graph& graph : {test::training_graph(12, 6, 18), test::deep_graph(12, 6, 9)}) {
    const auto requests = candidates(graph, {3, 2}, all_cut(), /*any_mesh=*/true);
    const Outcome outcome = best_plan(graph, requests);
    const int64_t best = bytes(std::get<FoundPlan>(outcome.result).plan);
    for (size_t n = 0; n < requests.size(); ++n) {
      const int64_t own = bytes(search(graph, requests[n].mesh, requests[n].options));
      EXPECT_LE(best, own);
      if (n < outcome.request) {
        EXPECT_LT(best, own) << "an earlier one is dearer";
      }
    }
  }
}

TEST(BestPlan, CountsSecondsForTime) {
  const Graph graph = test::training_graph(12, 6, 18);
  Request one{{4}, all_cut(), {}, {}}, two{{2, 2}, all_cut(), {}, {}};
  for (Request* request : {&one, &two}) {
    request->options.objective = Objective::kTime;
    request->options.machine = Cluster{"slow", {{{4, 1e9}}, 1e9, 0}, {{4, {/*latency=*/100, 1}}}};
  }
  const Outcome outcome = best_plan(graph, {two, one});
  const double best = Solver(graph, one).cost(std::get<FoundPlan>(outcome.result));
  for (const Request& request : {one, two}) {
    EXPECT_LE(best, Solver(graph, request).cost(Solver(graph, request).search({})));
  }
}

TEST(BestPlan, LosesNoException) {
  const Graph graph = test::training_graph(12, 6, 18);
  Request large{{4}, all_cut(), {}, {}};
  large.options.machine = Cluster{"small", {{{4, 1}}, 1, 0}, {{2, {}}}};
  const Request usable{{4}, all_cut(), {}, {}};
  EXPECT_THROW(best_plan(graph, {usable, large, usable}), UserError);
  EXPECT_THROW(best_plan(graph, {}), InternalError);
}

// ---- why there is none ----

TEST(BestPlan, NamesAPinThatLeavesAWorkerIdle) {
  test::Builder b;
  const ValueId x = b.input({3, 8});
  b.output(b.sum_rows(x));
  Request request{{4}, all_cut(), {{x, {0}}}, {}};
  const Outcome outcome = best_plan(b.graph, {request, request});
  EXPECT_EQ(outcome.request, 0);
  const IdlePin& idle = std::get<IdlePin>(outcome.result);
  EXPECT_EQ(idle.pin, 0);
  EXPECT_EQ(idle.placement, Choices{0});
  EXPECT_GE(idle.worker, 0);
  EXPECT_LT(idle.worker, 4);
  Request other = request;
  other.pins.front().placement = {1};
  EXPECT_EQ(best_plan(b.graph, {request, other}).request, 1) << "a pin may fit some meshes only";
}

TEST(BestPlan, SaysHowMuchIsMissing) {
  const Graph graph = test::training_graph(16, 64, 64);
  Request request{{2}, all_cut(), {}, {}};
  request.options.memory_limit = 10'000;
  request.options.optimizer_states = 1;
  Request roomy = request;
  roomy.options.memory_limit = 1e9;
  EXPECT_EQ(best_plan(graph, {request, roomy}).request, 1) << "one that fits";
  const Outcome outcome = best_plan(graph, {request, request});
  EXPECT_EQ(outcome.request, 0);
  const TooLarge& none = std::get<TooLarge>(outcome.result);
  EXPECT_EQ(none.workers, 2);
  EXPECT_GT(none.peak, 10'000);
  EXPECT_EQ(none.kept, 2 * 64 * 64 * 4 / 2) << "half of the weight, and as much for the optimiser";
  EXPECT_GE(none.op, 0);
  EXPECT_TRUE(none.conflict.empty());
  ASSERT_TRUE(none.enough_workers);
  ASSERT_GT(*none.enough_workers, 2);
  request.mesh = factorise(*none.enough_workers);
  const Outcome enough = best_plan(graph, {request});
  EXPECT_LE(std::get<FoundPlan>(enough.result).peak, 10'000);
}

// ---- what runs again ----

TEST(ModuleRegions, AreRunsOfNumberedModules) {
  test::Builder b;
  const ValueId x = b.input({4, 4});
  std::vector<int> expected;
  const auto call = [&](const std::string& module, int region, int own = kNoRegion) {
    b.module = module;
    b.region = own;
    region == 5 ? b.transpose(x) : b.add(x, x);
    expected.push_back(region);
  };
  call("", kNoRegion);
  call("h.0.fc", 1);
  call("mask", kNoRegion);
  call("h.0", 1);
  call("h.1.1.fc", 2);
  call("h.1.2.fc", 2);
  call("h.7", 0, 0);  // a checkpoint
  call("conv1", kNoRegion);
  call("h.0.fc", 3);  // used again
  call("h.0.fc", 4);  // and again
  call("model.0.layers.5.fc", 5);
  call("model.0.layers.6.fc", 6);
  call("head.0.fc", 7);
  b.backward = true;
  call("h.2", kNoRegion);
  EXPECT_EQ(module_regions(b.graph), expected);
}

Request within(double limit) {
  Request request{{}, all_cut(), {}, {}};
  request.options.memory_limit = limit;
  request.options.recompute = true;
  return request;
}

int64_t peak(const Graph& graph, const FoundPlan& found) {
  return peak_bytes(lower(graph, found.plan), {}).front();
}

/// A layer keeps 2 n k of its inner tensors; what one layer alone needs cannot be saved.
TEST(BestPlan, RunsAsFewModulesAgainAsLetItFit) {
  const int64_t n = 64, k = 16, layers = 5;
  const Graph graph = test::layers_graph(n, 2, k, layers, /*checkpoints=*/false);
  const auto whole = static_cast<double>(peak(graph, {search(graph, {}), 0}));
  EXPECT_TRUE(best_plan(graph, {within(whole)}).regions.empty()) << "fits as it is";
  for (int saved = 1; saved < layers; ++saved) {
    const double limit = whole - static_cast<double>(saved * 2 * n * k * 4);
    const Outcome outcome = best_plan(graph, {within(limit)});
    ASSERT_FALSE(outcome.regions.empty());
    const std::set<int> regions(outcome.regions.begin(), outcome.regions.end());
    EXPECT_EQ(static_cast<int>(regions.size()) - 1, saved) << "one for each, and none";
    Graph again = graph;
    again.set_regions(outcome.regions);
    EXPECT_LE(static_cast<double>(peak(again, std::get<FoundPlan>(outcome.result))), limit);
    Request kept = within(limit);
    kept.options.recompute = false;
    EXPECT_TRUE(std::holds_alternative<TooLarge>(best_plan(graph, {kept}).result));
  }
  const Outcome none = best_plan(graph, {within(whole / 4)});
  EXPECT_LT(std::get<TooLarge>(none.result).peak, whole / 2) << "of the smallest that was found";
}

TEST(BestPlan, SaysSoWhereNothingCanRunAgain) {
  const Graph graph = test::linear_graph(8, 9, 10);
  const Outcome outcome = best_plan(graph, {within(100)});
  EXPECT_GT(std::get<TooLarge>(outcome.result).peak, 100);
  EXPECT_TRUE(outcome.regions.empty());
}

}  // namespace
}  // namespace smex
