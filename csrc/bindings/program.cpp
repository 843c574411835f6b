// Python's view of the programs that the runtime runs. Regions cross as lists of (lo, hi).
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/attr.h"
#include "bindings/bindings.h"
#include "bindings/regions.h"
#include "ir/error.h"
#include "partition/lower/exchange.h"
#include "partition/lower/gather.h"
#include "partition/lower/program.h"
#include "tdl/expr.h"

namespace py = pybind11;

namespace smex::bindings {
namespace {

tdl::ReduceKind to_reduce(const std::string& name) {
  const auto kind = tdl::parse_reduce(name);
  if (!kind || *kind == tdl::ReduceKind::kSoftmaxMean) {
    throw UserError("reduce: expected sum, max, min, prod or logsumexp, found '" + name + "'");
  }
  return *kind;
}

ComputeInstr make_compute(std::string target, const py::list& args, std::vector<Slot> outputs,
                          OpId op, const Bounds& crop, std::vector<Shape> output_shapes) {
  ComputeInstr instr;
  instr.op = op;
  instr.target = std::move(target);
  for (const auto& arg : args) instr.args.push_back(to_attr(arg));
  instr.outputs = std::move(outputs);
  instr.crop = to_box(crop);
  instr.output_shapes = std::move(output_shapes);
  return instr;
}

FetchInstr make_fetch(Slot dest, Shape shape, std::string dtype, std::vector<CopyPart> parts,
                      const std::optional<std::string>& reduce, double fill, bool view,
                      std::string kind, ValueId value, int relayout, int due) {
  FetchInstr instr;
  instr.due = due;
  instr.relayout = relayout;
  instr.value = value;
  instr.dest = dest;
  instr.shape = std::move(shape);
  instr.dtype = std::move(dtype);
  instr.parts = std::move(parts);
  instr.reducing = reduce.has_value();
  if (reduce) instr.reduce = to_reduce(*reduce);
  instr.fill = fill;
  instr.view = view;
  instr.kind = std::move(kind);
  return instr;
}

std::vector<Instr> make_instrs(const py::list& list) {
  std::vector<Instr> instrs;
  for (const auto& item : list) {
    if (py::isinstance<ComputeInstr>(item)) {
      instrs.emplace_back(item.cast<ComputeInstr>());
    } else if (py::isinstance<FetchInstr>(item)) {
      instrs.emplace_back(item.cast<FetchInstr>());
    } else if (py::isinstance<MoveInstr>(item)) {
      instrs.emplace_back(item.cast<MoveInstr>());
    } else {
      instrs.emplace_back(item.cast<FreeInstr>());
    }
  }
  return instrs;
}

using Boxes = std::vector<std::pair<bool, Bounds>>;

std::vector<Tile> to_tiles(const Boxes& boxes) {
  std::vector<Tile> tiles;
  for (const auto& [held, bounds] : boxes) tiles.push_back({held, Region{to_box(bounds)}});
  return tiles;
}

py::list to_list(const std::vector<Instr>& instrs) {
  py::list list;
  for (const Instr& instr : instrs) {
    std::visit([&](const auto& one) { list.append(one); }, instr);
  }
  return list;
}

}  // namespace

void bind_program(py::module_& m) {
  py::class_<CopyPart>(m, "CopyPart", "A part of a peer's slot into one of the destination.")
      .def(py::init([](int worker, Slot slot, const Bounds& source, const Bounds& dest,
                       const Listed& source_list, const Listed& dest_list) {
             return CopyPart{worker, slot, to_region(source, source_list),
                             to_region(dest, dest_list)};
           }),
           py::arg("worker"), py::arg("slot"), py::arg("source"), py::arg("dest"),
           py::arg("source_list") = py::none(), py::arg("dest_list") = py::none(),
           "A list is a dimension and the indices of it that count.")
      .def_readonly("worker", &CopyPart::worker)
      .def_readonly("slot", &CopyPart::slot)
      .def_property_readonly("source",
                             [](const CopyPart& part) { return to_bounds(part.source.dims); });
  py::class_<ComputeInstr>(m, "ComputeInstr", "An operator call; ValueRef ids are slots.")
      .def(py::init(&make_compute), py::arg("target"), py::arg("args"), py::arg("outputs"),
           py::arg("op") = -1, py::arg("crop") = Bounds{},
           py::arg("output_shapes") = std::vector<Shape>{})
      .def_readonly("op", &ComputeInstr::op)
      .def_readonly("target", &ComputeInstr::target)
      .def_readonly("what", &ComputeInstr::what)
      .def_readonly("outputs", &ComputeInstr::outputs);
  py::class_<FetchInstr>(m, "FetchInstr", "Assembles a slot from parts of several workers' slots.")
      .def(py::init(&make_fetch), py::arg("dest"), py::arg("shape"), py::arg("dtype"),
           py::arg("parts"), py::arg("reduce") = py::none(), py::arg("fill") = 0.0,
           py::arg("view") = false, py::arg("kind") = "fetch", py::arg("value") = kNoValue,
           py::arg("relayout") = -1, py::arg("due") = -1)
      .def_readonly("value", &FetchInstr::value)
      .def_readonly("dest", &FetchInstr::dest)
      .def_readonly("shape", &FetchInstr::shape)
      .def_readonly("dtype", &FetchInstr::dtype)
      .def_readonly("parts", &FetchInstr::parts)
      .def_readonly("view", &FetchInstr::view)
      .def_readonly("due", &FetchInstr::due)
      .def_readonly("kind", &FetchInstr::kind);
  py::class_<FreeInstr>(m, "FreeInstr", "Drops the worker's own reference to a slot.")
      .def(py::init([](Slot slot) { return FreeInstr{slot}; }), py::arg("slot"));
  py::class_<MoveInstr>(m, "MoveInstr",
                        "Moves what slots share between the device and the host: \"spill\", "
                        "\"drop\" or \"restore\".")
      .def_property_readonly("kind", [](const MoveInstr& move) { return name_of(move.kind); })
      .def_readonly("slots", &MoveInstr::slots)
      .def_readonly("bytes", &MoveInstr::bytes);
  py::class_<WorkerProgram>(m, "WorkerProgram")
      .def(py::init([](int num_slots, const py::list& forward, const py::list& backward,
                       std::vector<int> remote_reads, std::vector<std::string> slot_names,
                       std::vector<int> slot_itemsizes) {
             return WorkerProgram{num_slots,
                                  std::move(remote_reads),
                                  std::move(slot_names),
                                  make_instrs(forward),
                                  make_instrs(backward),
                                  std::move(slot_itemsizes)};
           }),
           py::arg("num_slots"), py::arg("forward"), py::arg("backward") = py::list(),
           py::arg("remote_reads") = std::vector<int>{},
           py::arg("slot_names") = std::vector<std::string>{},
           py::arg("slot_itemsizes") = std::vector<int>{})
      .def_property_readonly("forward", [](const WorkerProgram& w) { return to_list(w.forward); })
      .def_property_readonly("backward",
                             [](const WorkerProgram& w) { return to_list(w.backward); });
  py::class_<Binding>(m, "Binding", "Each worker's slot (-1: none) and region of a graph input.")
      .def(py::init([](ValueId value, std::vector<Slot> slots, const std::vector<Bounds>& regions) {
             Binding binding{value, std::move(slots), {}};
             for (const Bounds& bounds : regions) binding.regions.push_back({to_box(bounds)});
             return binding;
           }),
           py::arg("value"), py::arg("slots"), py::arg("regions") = std::vector<Bounds>{})
      .def_readonly("value", &Binding::value)
      .def_readonly("slots", &Binding::slots)
      .def_property_readonly("regions", [](const Binding& binding) {
        std::vector<Bounds> regions;
        for (const Region& region : binding.regions) regions.push_back(to_bounds(region.dims));
        return regions;
      });
  py::class_<Program>(m, "Program", "One instruction list per worker.")
      .def(py::init([](std::vector<WorkerProgram> workers, std::vector<Binding> inputs,
                       std::vector<Binding> outputs) {
             const int num_workers = static_cast<int>(workers.size());
             return Program{num_workers, std::move(workers), std::move(inputs), std::move(outputs),
                            /*device_memory=*/0};
           }),
           py::arg("workers"), py::arg("inputs"), py::arg("outputs"))
      .def_readonly("num_workers", &Program::num_workers)
      .def_readonly("sums_by_peer", &Program::sums_by_peer,
                    "Calls that add up what edges bring by the peers that it comes from.")
      .def_readonly("device_memory", &Program::device_memory,
                    "Bytes of each worker's device; 0 where nothing is on the host.")
      .def_readonly("workers", &Program::workers)
      .def_property_readonly("inputs",
                             [](const Program& program) {
                               const auto first = program.inputs.begin();
                               const auto given = static_cast<std::ptrdiff_t>(program.num_given());
                               return std::vector<Binding>(first, first + given);
                             })
      .def_readonly("outputs", &Program::outputs)
      .def("__str__", &Program::str);
  py::class_<Collective>(m, "Collective", "A relayout that is a collective of groups of processes.")
      .def_readonly("backward", &Collective::backward)
      .def_readonly("relayout", &Collective::relayout)
      .def_property_readonly("kind",
                             [](const Collective& collective) { return name_of(collective.kind); })
      .def_readonly("groups", &Collective::groups)
      .def_readonly("bytes", &Collective::bytes);
  m.def("find_collectives", &find_collectives, py::arg("program"), py::arg("ranks"),
        py::arg("reorder"),
        "The relayouts that are collectives; with `reorder` also those that add up in another "
        "order.");
  m.def(
      "sample_collective",
      [](const std::string& kind, const std::vector<std::vector<int>>& groups,
         const std::vector<int>& ranks,
         int64_t bytes) { return sample_collective(parse_collective(kind), groups, ranks, bytes); },
      py::arg("kind"), py::arg("groups"), py::arg("ranks"), py::arg("bytes"),
      "A program of one relayout, a collective of groups of processes.");
  py::class_<Message>(m, "Message", "All packets of a relayout from one process to another.")
      .def_readonly("relayout", &Message::relayout)
      .def_readonly("source", &Message::from)
      .def_readonly("dest", &Message::to)
      .def("__repr__", [](const Message& message) {
        return "Message(" + std::to_string(message.relayout) + ", " + std::to_string(message.from) +
               " -> " + std::to_string(message.to) + ")";
      });
  py::class_<Packet>(m, "Packet", "What one process sends another at once.")
      .def_property_readonly("source", [](const Packet& packet) { return packet.from; })
      .def_property_readonly("dest", [](const Packet& packet) { return packet.to; })
      .def_readonly("bytes", &Packet::bytes);
  py::class_<Exchange>(m, "Exchange", "A round of what one relayout moves between processes.")
      .def_readonly("relayout", &Exchange::relayout)
      .def_readonly("value", &Exchange::value)
      .def_readonly("kind", &Exchange::kind)
      .def_readonly("packets", &Exchange::packets)
      .def_property_readonly("collective", [](const Exchange& exchange) {
        return exchange.collective ? std::optional(name_of(*exchange.collective)) : std::nullopt;
      });
  m.def(
      "list_exchanges",
      [](const Program& program, const std::vector<int>& ranks, int64_t packet_bytes,
         const std::vector<Collective>& collectives) {
        Exchanges found = list_exchanges(program, ranks, packet_bytes, collectives);
        return std::pair(std::move(found.forward), std::move(found.backward));
      },
      py::arg("program"), py::arg("ranks"), py::arg("packet_bytes") = 1 << 19,
      py::arg("collectives") = std::vector<Collective>{},
      "What processes send each other in the forward and in the backward list.");
  m.def("digest", &digest, py::arg("program"));
  m.def(
      "gather_outputs",
      [](const Graph& graph, const std::vector<int>& ranks, Program& program) {
        gather_outputs(returned_of(graph), ranks, program);
      },
      py::arg("graph"), py::arg("ranks"), py::arg("program"),
      "Gives each process the whole of what a call returns.");
  m.def(
      "relayout_program",
      [](const std::vector<std::tuple<std::string, std::string, int, Boxes, Boxes>>& moves) {
        std::vector<Move> found;
        for (const auto& [name, dtype, itemsize, from, to] : moves) {
          found.push_back({name, dtype, itemsize, {to_tiles(from), 1}, to_tiles(to)});
        }
        return relayout_program(found);
      },
      py::arg("moves"),
      "A program that brings tensors (name, dtype, itemsize, boxes before, boxes after) to other "
      "boxes, which are given by worker as (held, bounds).");
}

}  // namespace smex::bindings
