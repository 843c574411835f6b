// Python's view of csrc/partition/search: what is asked for, and what is found.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/bindings.h"
#include "bindings/regions.h"
#include "partition/search/portfolio.h"
#include "partition/search/strategies.h"

namespace py = pybind11;

namespace smex::bindings {
namespace {

/// All that Python's SearchOptions says, and what tests ask for beside.
SearchOptions search_options(const std::string& planner, const std::string& objective,
                             std::optional<Cluster> machine, std::optional<double> memory_limit,
                             double optimizer_states, int64_t replicate_bytes,
                             std::optional<bool> refine, int joint, uint64_t seed,
                             std::set<std::string> views, std::map<ValueId, Choices> pinned,
                             std::optional<int> merge, size_t max_unmerged, bool recompute,
                             int weighting, std::vector<double> memory_scale) {
  SearchOptions options;
  options.planner = planner_of(planner);
  options.objective = objective_of(objective);
  options.machine = std::move(machine);
  options.memory_limit = memory_limit;
  options.optimizer_states = optimizer_states;
  options.replicate_bytes = replicate_bytes;
  options.refine = refine;
  options.joint = joint;
  options.seed = seed;
  options.views = std::move(views);
  options.pinned = std::move(pinned);
  if (merge) options.merge = static_cast<Merge>(*merge);
  options.max_unmerged = max_unmerged;
  options.recompute = recompute;
  options.weighting = weighting;
  options.memory_scale = std::move(memory_scale);
  return options;
}

using PinList = std::vector<std::pair<ValueId, Choices>>;
/// By value its placement, and (held, bounds) for each worker.
using ShardMap = std::map<ValueId, std::pair<Choices, std::vector<std::pair<bool, Bounds>>>>;

void place(Request& request, const PinList& pins, const ShardMap& shards) {
  request.pins.clear();
  for (const auto& [value, placement] : pins) request.pins.push_back({value, placement});
  request.shards.clear();
  for (const auto& [value, cut] : shards) {
    Shards& kept = request.shards[value];
    kept.placement = cut.first;
    for (const auto& [held, box] : cut.second) kept.tiles.push_back({held, Region{to_box(box)}});
  }
}

void bind_requests(py::module_& m) {
  const SearchOptions by_default;
  py::class_<SearchOptions>(m, "SearchOptions")
      .def(py::init(&search_options), py::kw_only(), py::arg("planner") = "tofu",
           py::arg("objective") = "communication", py::arg("machine") = std::nullopt,
           py::arg("memory_limit") = std::nullopt, py::arg("optimizer_states") = 0.0,
           py::arg("replicate_bytes") = by_default.replicate_bytes,
           py::arg("refine") = std::nullopt, py::arg("joint") = 1, py::arg("seed") = 0,
           py::arg("views") = std::set<std::string>{},
           py::arg("pinned") = std::map<ValueId, Choices>{}, py::arg("merge") = std::nullopt,
           py::arg("max_unmerged") = by_default.max_unmerged, py::arg("recompute") = false,
           py::arg("weighting") = 0, py::arg("memory_scale") = std::vector<double>{});
  py::class_<Request>(m, "Request")
      .def(py::init([](Mesh mesh, SearchOptions options) {
             return Request{std::move(mesh), std::move(options), {}, {}};
           }),
           py::arg("mesh"), py::arg("options"))
      .def_readonly("mesh", &Request::mesh)
      .def_property_readonly("joint", [](const Request& request) { return request.options.joint; })
      .def("place", &place, py::arg("pins"), py::arg("shards"),
           "Gives (value, placement) for each pin, and by value what exists already: its "
           "placement, and (held, bounds) for each worker.");
}

void bind_outcomes(py::module_& m) {
  py::class_<FoundPlan>(m, "FoundPlan")
      .def_readonly("plan", &FoundPlan::plan)
      .def_readonly("replicate_bytes", &FoundPlan::replicate_bytes)
      .def_readonly("peak_bytes", &FoundPlan::peak_bytes)
      .def(
          "take_program", [](FoundPlan& found) { return std::move(found.program); },
          "The program of the plan, once, where the search has lowered it; otherwise None.");
  py::class_<TooLarge>(m, "TooLarge")
      .def_readonly("workers", &TooLarge::workers)
      .def_readonly("peak", &TooLarge::peak)
      .def_readonly("op", &TooLarge::op)
      .def_readonly("kept", &TooLarge::kept)
      .def_readonly("conflict", &TooLarge::conflict)
      .def_readonly("enough_workers", &TooLarge::enough_workers);
  py::class_<IdlePin>(m, "IdlePin")
      .def_readonly("pin", &IdlePin::pin)
      .def_readonly("placement", &IdlePin::placement)
      .def_readonly("worker", &IdlePin::worker);
}

using ActionList = std::vector<std::tuple<int, int, bool>>;

std::unique_ptr<Strategies> strategies_of(const Graph& graph, std::vector<Plan> bases,
                                          const ActionList& given, std::vector<int> group_of,
                                          const Machine& machine, std::set<std::string> views) {
  std::vector<Action> actions;
  for (const auto& [worker, base, homes] : given) actions.push_back({worker, base, homes});
  return std::make_unique<Strategies>(graph, std::move(bases), std::move(actions),
                                      std::move(group_of), machine, std::move(views));
}

void bind_strategies(py::module_& m) {
  py::class_<Evaluation>(m, "Evaluation", "What an iteration of a strategy takes.")
      .def_readonly("seconds", &Evaluation::seconds)
      .def_readonly("peak_bytes", &Evaluation::peak_bytes)
      .def_readonly("parameter_bytes", &Evaluation::parameter_bytes)
      .def_readonly("critical", &Evaluation::critical);
  py::class_<Strategies>(m, "Strategies",
                         "By group of ops the number of an action, (worker, base, homes): worker "
                         "-1 is all of them, as in the data-parallel plan `base`, with parameters "
                         "of one worker each where `homes`.")
      .def(py::init(&strategies_of), py::arg("graph"), py::arg("bases"), py::arg("actions"),
           py::arg("group_of"), py::arg("machine"), py::arg("views"), py::keep_alive<1, 2>())
      .def("plan", &Strategies::plan, py::arg("strategy"), py::call_guard<py::gil_scoped_release>())
      .def("evaluate", &Strategies::evaluate, py::arg("strategies"),
           py::call_guard<py::gil_scoped_release>(),
           "Simulates an iteration of each, several at once.");
}

}  // namespace

void bind_search(py::module_& m) {
  bind_requests(m);
  bind_strategies(m);
  bind_outcomes(m);
  m.def(
      "default_mesh",
      [](int workers, const std::string& planner) {
        return default_mesh(workers, planner_of(planner));
      },
      py::arg("workers"), py::arg("planner"));
  m.def("planners", [] {
    std::vector<std::string> names;
    for (const Planner planner : all_planners()) names.push_back(name_of(planner));
    return names;
  });
  m.def("candidates", &candidates, py::arg("graph"), py::arg("mesh"), py::arg("options"),
        py::arg("any_mesh"), "What is asked for, and the searches that may do better.");
  m.def(
      "best_plan",
      [](const Graph& graph, const std::vector<Request>& requests) {
        Outcome outcome = best_plan(graph, requests);
        return std::make_tuple(outcome.request, std::move(outcome.result),
                               std::move(outcome.regions));
      },
      py::arg("graph"), py::arg("requests"), py::call_guard<py::gil_scoped_release>(),
      "The number of a request, its FoundPlan, the cheapest, or its TooLarge or IdlePin, and by op "
      "what the plan runs again, empty for what the graph says.");
  m.def(
      "search",
      [](const Graph& graph, const Mesh& mesh, const py::kwargs& options) {
        const auto asked = py::type::of<SearchOptions>()(**options).cast<SearchOptions>();
        const py::gil_scoped_release released;
        return search(graph, mesh, asked);
      },
      py::arg("graph"), py::arg("mesh"),
      "One search; the options are those of SearchOptions, where memory_limit is of homes.");
}

}  // namespace smex::bindings
