// Python's view of csrc/partition but for its search. Regions cross as lists of (lo, hi).
#include <pybind11/complex.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <sstream>

#include "bindings/bindings.h"
#include "bindings/regions.h"
#include "partition/lower/in_place.h"
#include "partition/lower/lower.h"
#include "partition/lower/overlap.h"
#include "partition/lower/residency.h"
#include "partition/lower/window.h"
#include "partition/plan/alike.h"
#include "partition/plan/coarsen.h"
#include "partition/plan/recomputation.h"
#include "partition/plan/weighting.h"
#include "partition/price/call_cost.h"
#include "partition/price/cluster.h"
#include "partition/price/memory.h"
#include "partition/price/price.h"
#include "partition/simulate/list_order.h"
#include "partition/simulate/timeline.h"

namespace py = pybind11;

namespace smex::bindings {
namespace {

std::vector<std::pair<bool, Bounds>> tiles_of(const Layout& layout) {
  std::vector<std::pair<bool, Bounds>> tiles;
  for (const Tile& tile : layout.tiles) {
    tiles.emplace_back(tile.held, to_bounds(tile.region.dims));
  }
  return tiles;
}

std::vector<Tile> held(const std::vector<Bounds>& boxes) {
  std::vector<Tile> tiles;
  for (const Bounds& box : boxes) tiles.push_back({true, {to_box(box)}});
  return tiles;
}

/// The weights of a CallCost, and by call that was measured its operations, bytes, gathered bytes
/// and factor.
using KnownCost = std::pair<std::array<double, 5>, std::vector<std::array<double, 4>>>;

CallCost to_cost(const KnownCost& known) {
  const auto& [weights, measured] = known;
  CallCost cost{weights[0], weights[1], weights[2], weights[3], weights[4]};
  for (const auto& [operations, bytes, gathered, factor] : measured) {
    cost.measured.push_back({{operations, bytes, gathered}, factor});
  }
  return cost;
}

using KnownCosts = std::map<std::string, std::map<int, KnownCost>>;

Device to_device(std::map<int, double> flops, double memory_bandwidth, double launch,
                 double gather_bandwidth, const KnownCosts& calls) {
  Device device{std::move(flops), memory_bandwidth, launch, gather_bandwidth};
  for (const auto& [target, costs] : calls) {
    for (const auto& [itemsize, cost] : costs) device.calls[target][itemsize] = to_cost(cost);
  }
  return device;
}

using DeviceNumbers = std::tuple<std::map<int, double>, double, double, double, KnownCosts>;
using LinkNumbers = std::tuple<double, double, double>;

/// Workers that are not all alike: of which kind each is, and [receiver][sender] its link.
Cluster unlike_workers(std::string name, const std::vector<DeviceNumbers>& kinds,
                       const std::vector<int>& kind_of,
                       const std::vector<std::vector<LinkNumbers>>& links, std::vector<int> nodes) {
  auto unlike = std::make_shared<Unlike>();
  for (const int kind : kind_of) {
    const auto& [flops, memory_bandwidth, launch, gather_bandwidth, calls] = kinds.at(kind);
    unlike->devices.push_back(to_device(flops, memory_bandwidth, launch, gather_bandwidth, calls));
  }
  for (const auto& senders : links) {
    auto& row = unlike->links.emplace_back();
    for (const auto& [latency, bandwidth, overlap] : senders) {
      row.push_back({latency, bandwidth, overlap});
    }
  }
  unlike->nodes = std::move(nodes);
  return {std::move(name), {}, {}, std::move(unlike)};
}

/// What an instruction is called, and its kind, as the runtime's trace has them.
std::pair<std::string, std::string> name_and_kind(const WorkerProgram& worker, const Instr& instr) {
  if (const auto* compute = std::get_if<ComputeInstr>(&instr)) {
    return {operator_name(*compute), "compute"};
  }
  if (const auto* fetch = std::get_if<FetchInstr>(&instr)) {
    const auto known = static_cast<Slot>(worker.slot_names.size());
    return {fetch->dest < known ? worker.slot_names[fetch->dest] : fetch->kind, fetch->kind};
  }
  if (const auto* move = std::get_if<MoveInstr>(&instr)) return {name_of(move->kind), "move"};
  return {"free", "free"};
}

using InstructionRow = std::tuple<std::string, std::string, double, double>;

std::vector<std::vector<InstructionRow>> instruction_rows(const Timeline& timeline,
                                                          const Program& program) {
  std::vector<std::vector<InstructionRow>> rows;
  for (size_t w = 0; w < timeline.course.instructions.size(); ++w) {
    auto& own = rows.emplace_back();
    const WorkerProgram& worker = program.workers.at(w);
    for (const InstrSpan& span : timeline.course.instructions[w]) {
      auto [name, kind] = name_and_kind(worker, worker.list(span.backward).at(span.position));
      own.emplace_back(std::move(name), std::move(kind), span.begin, span.end);
    }
  }
  return rows;
}

std::vector<std::vector<int>> positions(const Timeline& timeline, const Program& program) {
  std::vector<std::vector<int>> found;
  for (size_t w = 0; w < timeline.course.instructions.size(); ++w) {
    auto& own = found.emplace_back();
    const int forward = static_cast<int>(program.workers.at(w).forward.size());
    for (const InstrSpan& span : timeline.course.instructions[w]) {
      own.push_back(span.position + (span.backward ? forward : 0));
    }
  }
  return found;
}

using MessageRow = std::tuple<int, int, int, double, double, double>;

std::vector<MessageRow> message_rows(const Timeline& timeline) {
  std::vector<MessageRow> rows;
  for (const MessageSpan& span : timeline.course.messages) {
    const Message& message = span.message;
    rows.emplace_back(message.relayout, message.from, message.to, span.begin, span.arrives,
                      span.bytes);
  }
  return rows;
}

std::vector<std::tuple<bool, int, int>> path_rows(const Timeline& timeline) {
  std::vector<std::tuple<bool, int, int>> rows;
  for (const Cause& cause : timeline.course.critical_path()) {
    rows.emplace_back(cause.kind == Cause::Kind::kMessage, cause.worker, cause.index);
  }
  return rows;
}

}  // namespace

void bind_partition(py::module_& m) {
  py::class_<Plan>(m, "Plan")
      .def(py::init<>())
      .def_readwrite("mesh", &Plan::mesh)
      .def_readwrite("values", &Plan::values)
      .def_readwrite("ops", &Plan::ops)
      .def_readwrite("step_bytes", &Plan::step_bytes)
      .def_readwrite("step_seconds", &Plan::step_seconds)
      .def_readwrite("compute_seconds", &Plan::compute_seconds)
      .def_readwrite("exact", &Plan::exact)
      .def_readwrite("gap", &Plan::gap)
      .def_readwrite("by_peer", &Plan::by_peer)
      .def_readwrite("order", &Plan::order)
      .def_readonly("fits", &Plan::fits)
      .def_readwrite("search_seconds", &Plan::search_seconds)
      .def_readwrite("planner", &Plan::planner);
  py::class_<Machine>(m, "Machine", "A machine as the steps of a mesh see it.")
      .def_property_readonly(
          "links",
          [](const Machine& machine) {
            std::vector<LinkNumbers> links;
            for (const Link& link : machine.links) {
              links.emplace_back(link.latency, link.bandwidth, link.overlap);
            }
            return links;
          },
          "(latency, bandwidth, overlap) by step.")
      .def("whole_seconds", &Machine::whole_seconds, py::arg("graph"), py::arg("workers"),
           "By worker the seconds of all calls of a graph that nobody divides.");
  py::class_<Timeline>(m, "Timeline", "How an iteration goes by, in seconds; lists are by worker.")
      .def_readonly("seconds", &Timeline::seconds)
      .def_readonly("least", &Timeline::least)
      .def_readonly("busy", &Timeline::busy)
      .def_readonly("waiting", &Timeline::waiting)
      .def_readonly("transferred", &Timeline::transferred)
      .def_readonly("messages", &Timeline::messages)
      .def("instructions", &instruction_rows, py::arg("program"),
           "By worker (name, kind, begin, end) of each instruction, in the order in which they "
           "ran.")
      .def("positions", &positions, py::arg("program"),
           "By worker where each of these instructions stands, counted through both lists.")
      .def("transfers", &message_rows,
           "(relayout, from, to, begin, arrives, bytes) of each message between processes.")
      .def("critical_path", &path_rows,
           "(is a message, worker, number of its instruction or message), each what the next "
           "waited for.")
      .def("__repr__", [](const Timeline& timeline) {
        const auto most = [](const std::vector<double>& seconds) {
          return seconds.empty() ? 0 : *std::max_element(seconds.begin(), seconds.end());
        };
        std::ostringstream text;
        text.precision(3);
        text << "Timeline(" << timeline.seconds << " s, no order less than " << timeline.least
             << " s; at most busy " << most(timeline.busy) << " s, waiting "
             << most(timeline.waiting) << " s, transferred " << most(timeline.transferred) << " s)";
        return text.str();
      });
  py::class_<Cluster>(m, "Cluster", "All workers of a machine, by levels.")
      .def(py::init([](std::string name, std::map<int, double> flops, double memory_bandwidth,
                       double launch,
                       const std::vector<std::tuple<int64_t, double, double, double>>& levels,
                       double gather_bandwidth, const KnownCosts& calls) {
             Cluster all{
                 std::move(name),
                 to_device(std::move(flops), memory_bandwidth, launch, gather_bandwidth, calls),
                 {}};
             for (const auto& [size, latency, bandwidth, overlap] : levels) {
               all.levels.push_back({size, {latency, bandwidth, overlap}});
             }
             return all;
           }),
           py::arg("name"), py::arg("flops"), py::arg("memory_bandwidth"), py::arg("launch"),
           py::arg("levels"), py::arg("gather_bandwidth"), py::arg("calls"))
      .def_static("of_unlike", &unlike_workers, py::arg("name"), py::arg("kinds"),
                  py::arg("kind_of"), py::arg("links"), py::arg("nodes"))
      .def("levels_of", &Cluster::levels_of, py::arg("mesh"))
      .def("on", &Cluster::on, py::arg("mesh"))
      .def("mesh", &Cluster::mesh, py::arg("workers"));
  m.def(
      "call_seconds",
      [](const KnownCost& cost, double operations, double bytes, double gathered, double fresh) {
        return to_cost(cost).seconds({operations, bytes, gathered, fresh});
      },
      py::arg("cost"), py::arg("operations"), py::arg("bytes"), py::arg("gathered") = 0.0,
      py::arg("fresh") = 0.0,
      "What a call takes by the weights and the measured calls of its kind.");
  m.def("cut_of", &cut_of, py::arg("choice"), "The dimension or index it cuts; negative: none.");
  m.def("weighting_of", &weighting_of, py::arg("choice"), "By which it cuts; 0: evenly.");
  m.def("weighted", &weighted, py::arg("cut"), py::arg("weighting"),
        "The choice of a cut by a weighting of the graph, of which the first is number 1.");
  m.def("is_only", &is_only, py::arg("choice"), "Whether it is for one coordinate of the step.");
  m.def("only_at", &only_at, py::arg("coordinate"), "The choice of one coordinate of the step.");
  m.def("coordinate_of", &coordinate_of, py::arg("choice"), "Of a choice that `is_only`.");
  m.def(
      "heaviest_point",
      [](const Graph& graph, const Plan& plan, const std::set<std::string>& views) {
        const MemoryPoint point = heaviest_point(graph, plan, views);
        return std::make_tuple(point.op, point.bytes, point.live);
      },
      py::arg("graph"), py::arg("plan"), py::arg("views") = std::set<std::string>{},
      py::call_guard<py::gil_scoped_release>(),
      "Where homes take the most memory: the op, a worker's bytes, the live values.");
  m.def(
      "price",
      [](const Graph& graph, Plan plan, const std::optional<Machine>& machine) {
        price(graph, machine ? &*machine : nullptr, plan);
        return plan;
      },
      py::arg("graph"), py::arg("plan"), py::arg("machine") = std::nullopt,
      py::call_guard<py::gil_scoped_release>(),
      "A plan with what each step adds in bytes and, with a machine, in seconds.");
  m.def(
      "plan_for_other_sizes",
      [](const Graph& graph, const Graph& planned, Plan plan,
         const std::optional<Machine>& machine) -> std::optional<Plan> {
        if (!differ_in_sizes_only(graph, planned) || !is_plan_of(graph, plan)) return std::nullopt;
        price(graph, machine ? &*machine : nullptr, plan);
        plan.exact = false;
        plan.search_seconds = 0;
        return plan;
      },
      py::arg("graph"), py::arg("planned"), py::arg("plan"), py::arg("machine") = std::nullopt,
      py::call_guard<py::gil_scoped_release>(),
      "The choices of a plan of another graph, which differs in sizes only; None where it does "
      "not.");
  m.def(
      "op_prices",
      [](const Graph& graph, const Plan& plan, const std::optional<Machine>& machine) {
        std::vector<std::tuple<std::vector<int64_t>, std::vector<double>, double>> prices;
        for (const OpPrice& price : op_prices(graph, machine ? &*machine : nullptr, plan)) {
          prices.emplace_back(price.step_bytes, price.step_seconds, price.compute_seconds);
        }
        return prices;
      },
      py::arg("graph"), py::arg("plan"), py::arg("machine") = std::nullopt,
      py::call_guard<py::gil_scoped_release>(),
      "By op the bytes of each step, their seconds, and the seconds of its arithmetic.");
  m.def("parameter_bytes_by_worker", &parameter_bytes_by_worker, py::arg("graph"), py::arg("plan"),
        "By worker the bytes of its tiles of all parameters.");
  m.def("parameter_bytes", &parameter_bytes, py::arg("graph"), py::arg("plan"),
        "Bytes of the largest tiles of all parameters.");
  m.def("peak_of_calls", &peak_of_calls, py::arg("graph"), py::arg("plan"),
        py::arg("views") = std::set<std::string>{}, py::call_guard<py::gil_scoped_release>());
  m.def("live_bytes", &live_bytes, py::arg("graph"), py::arg("plan"),
        py::arg("views") = std::set<std::string>{}, py::call_guard<py::gil_scoped_release>(),
        "By op the bytes of a worker's largest tiles of all values that are live while it runs.");
  m.def(
      "tile_call",
      [](const Graph& graph, OpId op, const Bounds& ranges) {
        const TileCall call = tile_call(graph.op(op), to_box(ranges));
        std::vector<std::tuple<bool, Bounds, double, Listed, std::optional<std::vector<int64_t>>>>
            operands;
        for (const TileCall::Operand& operand : call.operands)
          operands.emplace_back(operand.used, to_bounds(operand.box.dims), operand.fill,
                                to_listed(operand.box), operand.table);
        return std::make_tuple(operands, call.args, to_bounds(call.crop));
      },
      py::arg("graph"), py::arg("op"), py::arg("ranges"),
      "One tile of an op with a Spec: (used, box, fill, rows, table) by operand, the arguments, "
      "the crop.");
  m.def(
      "cut",
      [](int64_t extent, int parts, int64_t granule) {
        std::vector<std::pair<int64_t, int64_t>> pieces;
        for (int index = 0; index < parts; ++index) {
          const Interval piece = cut({0, extent}, parts, index, granule);
          pieces.emplace_back(piece.lo, piece.hi);
        }
        return pieces;
      },
      py::arg("extent"), py::arg("parts"), py::arg("granule"),
      "A range cut into parts along multiples of a granule, as plans cut it.");
  m.def(
      "cut_by_shares",
      [](int64_t extent, const std::vector<double>& shares, int64_t granule) {
        std::vector<std::pair<int64_t, int64_t>> pieces;
        for (const Interval& piece : cut_by_shares({0, extent}, shares, granule)) {
          pieces.emplace_back(piece.lo, piece.hi);
        }
        return pieces;
      },
      py::arg("extent"), py::arg("shares"), py::arg("granule"),
      "The same in proportion to shares, of which some may be 0.");
  m.def(
      "lower",
      [](const Graph& graph, const Plan& plan, std::set<std::string> views, bool join,
         bool overlap) { return lower(graph, plan, {std::move(views), join, overlap}); },
      py::arg("graph"), py::arg("plan"), py::arg("views") = std::set<std::string>{},
      py::arg("join") = true, py::arg("overlap") = true, py::call_guard<py::gil_scoped_release>(),
      "The program of a plan. With `join` runs of element-wise calls are one call each, with "
      "`overlap` fetches are waited for as late as memory allows; outputs of the operators in "
      "`views` share the memory of their first operand.");
  m.def("predicted_seconds", &predicted_seconds, py::arg("program"), py::arg("machine"),
        py::arg("views"), py::call_guard<py::gil_scoped_release>(),
        "By worker, list and instruction what the worker itself is busy with it.");
  m.def(
      "simulate",
      [](const Program& program, const InstrSeconds& seconds, const Mesh& mesh,
         const Machine& machine, bool overlap, std::vector<int> ranks) {
        if (overlap) return simulate(program, seconds, mesh, machine, std::move(ranks));
        Program copy = program;
        wait_at_once(copy);
        return simulate(copy, seconds, mesh, machine, std::move(ranks));
      },
      py::arg("program"), py::arg("seconds"), py::arg("mesh"), py::arg("machine"),
      py::arg("overlap") = true, py::arg("ranks") = std::vector<int>{},
      py::call_guard<py::gil_scoped_release>(),
      "Runs a program in time, without tensors, over the machine's links.");
  m.def(
      "with_order",
      [](Plan plan, std::vector<int> order) {
        plan.order = std::move(order);
        return plan;
      },
      py::arg("plan"), py::arg("order"), "A copy, whose ops are in this order in workers' lists.");
  m.def(
      "list_order",
      [](const Graph& graph, const Program& program, const InstrSeconds& seconds, const Mesh& mesh,
         const Machine& machine) {
        ListOrder found = list_order(graph, program, seconds, mesh, machine);
        return std::make_tuple(std::move(found.positions), found.makespan, found.least,
                               found.resources);
      },
      py::arg("graph"), py::arg("program"), py::arg("seconds"), py::arg("mesh"), py::arg("machine"),
      py::call_guard<py::gil_scoped_release>(),
      "A list schedule by upward ranks: by op its place, the makespan, what no schedule is below, "
      "and the resources in use.");
  m.def("plan_bytes", &plan_bytes, py::arg("graph"), py::arg("plan"));
  m.def(
      "op_bytes",
      [](const Graph& graph, const Plan& plan) {
        const DimClasses classes(graph);
        std::vector<int64_t> bytes;
        const Recomputation recomputed = recomputation(graph);
        for (const Op& op : graph.ops()) {
          bytes.push_back(recomputed.runs(op.id) * op_bytes(graph, classes, plan, op.id));
        }
        return bytes;
      },
      py::arg("graph"), py::arg("plan"), "Bytes that every op moves under a plan.");
  m.def("peak_bytes", &peak_bytes, py::arg("program"), py::arg("view_targets"));
  m.def("writes_into", &writes_into, py::arg("target"),
        "Whether results of the operator may be written into a given tensor.");
  m.def("held_bytes", &held_bytes, py::arg("program"), py::arg("worker"), py::arg("view_targets"),
        "A worker's live bytes: at first, and after each instruction.");
  m.def("moved_bytes", &moved_bytes, py::arg("program"), py::arg("forward") = true,
        py::arg("backward") = true);
  m.def(
      "home_tiles",
      [](const Graph& graph, const Plan& plan, std::vector<ValueId> values) {
        const DimClasses classes(graph);
        std::vector<std::vector<std::pair<bool, Bounds>>> all;
        for (ValueId id : values) {
          all.push_back(tiles_of(home_layout(graph, classes, plan, id)));
        }
        return all;
      },
      py::arg("graph"), py::arg("plan"), py::arg("values"),
      "Per value and worker whether a tile is held, and its (lo, hi) by dimension.");
  m.def(
      "relayout",
      [](const std::vector<Bounds>& have, const std::vector<Bounds>& need) {
        std::vector<std::tuple<int, int, Bounds>> copies;
        for (const Copy& copy : relayout({held(have), 1}, held(need))) {
          copies.emplace_back(copy.source, copy.dest, to_bounds(copy.region.dims));
        }
        return copies;
      },
      py::arg("have"), py::arg("need"),
      "The copies that put every needed box together: which held box, for which needed one, what.");
  m.def(
      "coarse_sizes",
      [](const Graph& graph) {
        const CoarseGraph coarse = coarsen(graph);
        return std::make_pair(coarse.groups.size(), coarse.classes.size());
      },
      py::arg("graph"), "Numbers of tensor groups and op classes after coarsening.");
}

}  // namespace smex::bindings
