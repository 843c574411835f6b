// Python's view of csrc/ir: a graph is built call by call and then only read.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/attr.h"
#include "bindings/bindings.h"
#include "ir/error.h"
#include "ir/graph.h"
#include "ir/sized.h"
#include "partition/plan/recomputation.h"
#include "partition/vertices/boundaries.h"
#include "tdl/spec.h"
#include "tdl/verify.h"

namespace py = pybind11;

namespace smex::bindings {
namespace {

using Locals = std::vector<std::pair<int, std::string>>;

constexpr std::pair<const char*, LocalRule> kLocalRules[] = {
    {"output_shape", LocalRule::kOutputShape},
    {"zero", LocalRule::kZero},
    {"max_int", LocalRule::kMaxInt},
    {"window", LocalRule::kWindow},
    {"window_rest", LocalRule::kWindowRest},
    {"rows", LocalRule::kRows},
    {"offset", LocalRule::kOffset},
    {"diagonal", LocalRule::kDiagonal},
    {"features", LocalRule::kFeatures},
};

/// The text before an index's name.
constexpr std::string_view kBegin = "begin:";

LocalArg local_arg(const Op& op, int arg, const std::string& name) {
  std::string known;
  for (const auto& [text, rule] : kLocalRules) {
    if (name == text) return {arg, rule};
    known += std::string(text) + ", ";
  }
  if (name.starts_with(kBegin) && op.spec) {
    const std::string wanted = name.substr(kBegin.size());
    for (size_t index = 0; index < op.spec->indices.size(); ++index) {
      if (op.spec->indices[index].name == wanted)
        return {arg, LocalRule::kBegin, static_cast<int>(index)};
    }
  }
  throw UserError(op.target + ": expected a rule among " + known +
                  "begin:index with an index of the Spec, found '" + name + "'");
}

Op make_op(std::string target, const py::list& args, std::vector<ValueId> outputs,
           std::shared_ptr<tdl::Spec> spec, const Locals& local, std::string module_path,
           std::string source, bool backward, bool random, int region) {
  Op op;
  op.target = std::move(target);
  for (const auto& arg : args) op.args.push_back(to_attr(arg));
  op.outputs = std::move(outputs);
  op.spec = std::move(spec);
  for (const auto& [arg, rule] : local) op.local.push_back(local_arg(op, arg, rule));
  op.module_path = std::move(module_path);
  op.source = std::move(source);
  op.backward = backward;
  op.random = random;
  op.region = region;
  return op;
}

/// (Spec, rules) of a call, or None for one without a Spec.
Meaning meaning_of(const Op& op, const py::object& found) {
  if (found.is_none()) return {};
  const auto [spec, rules] = found.cast<std::pair<std::shared_ptr<tdl::Spec>, Locals>>();
  Op call;
  call.target = op.target;
  call.spec = spec;
  Meaning meaning{spec, {}};
  for (const auto& [arg, rule] : rules) meaning.local.push_back(local_arg(call, arg, rule));
  return meaning;
}

void bind_sized(py::module_& m) {
  py::class_<SizedGraph>(m, "SizedGraph", "A graph of which numbers and Specs are a call's own.")
      .def(py::init([](const Graph& graph) { return SizedGraph(graph); }), py::arg("graph"))
      .def("place_size", &SizedGraph::place_size, py::arg("value"), py::arg("dim"),
           py::arg("number"))
      .def("place_argument", &SizedGraph::place_argument, py::arg("call"), py::arg("arg"),
           py::arg("element"), py::arg("number"))
      .def("place_meaning", &SizedGraph::place_meaning, py::arg("call"), py::arg("meaning"))
      .def(
          "at",
          [](const SizedGraph& sized, const py::sequence& numbers,
             const std::vector<std::pair<int, py::object>>& found) {
            std::vector<Attr> table;
            for (const auto& number : numbers) table.push_back(to_attr(number));
            std::vector<Meaning> meanings;
            for (const auto& [call, meaning] : found) {
              meanings.push_back(meaning_of(sized.call(call), meaning));
            }
            Graph graph = sized.at(table, meanings);
            tdl::verify_specs(graph);
            return graph;
          },
          py::arg("numbers"), py::arg("meanings"),
          "The graph of one call: its numbers, and each meaning as (a call that has it, what "
          "smex.specs.instantiate returns of it).");
}

}  // namespace

void bind_ir(py::module_& m) {
  py::class_<ValueRef>(m, "ValueRef", "A tensor operand; -1 is an absent one.")
      .def(py::init([](ValueId id) { return ValueRef{id}; }), py::arg("id"))
      .def_readonly("id", &ValueRef::id);
  py::enum_<Role>(m, "Role")
      .value("parameter", Role::kParameter)
      .value("buffer", Role::kBuffer)
      .value("input", Role::kInput)
      .value("tangent", Role::kTangent)
      .value("constant", Role::kConstant)
      .value("intermediate", Role::kIntermediate);
  py::enum_<OutputKind>(m, "OutputKind")
      .value("output", OutputKind::kOutput)
      .value("gradient", OutputKind::kGradient)
      .value("buffer_update", OutputKind::kBufferUpdate);
  py::class_<Value>(m, "Value")
      .def_readonly("id", &Value::id)
      .def_readonly("name", &Value::name)
      .def_readonly("shape", &Value::shape)
      .def_readonly("dtype", &Value::dtype)
      .def_readonly("role", &Value::role)
      .def_readonly("users", &Value::users)
      .def_property_readonly("nbytes", &Value::bytes);
  py::class_<Op>(m, "Op")
      .def_readonly("id", &Op::id)
      .def_readonly("target", &Op::target)
      .def_readonly("inputs", &Op::inputs)
      .def_readonly("outputs", &Op::outputs)
      .def_readonly("module_path", &Op::module_path)
      .def_readonly("source", &Op::source)
      .def_readonly("backward", &Op::backward)
      .def_readonly("region", &Op::region)
      .def_property_readonly(
          "spec", [](const Op& op) { return std::const_pointer_cast<tdl::Spec>(op.spec); });
  py::class_<Graph>(m, "Graph", "The semantic graph; values and ops are numbered from 0.")
      .def(py::init<>())
      .def("add_value", &Graph::add_value, py::arg("name"), py::arg("shape"), py::arg("dtype"),
           py::arg("itemsize"), py::arg("role"))
      .def(
          "add_op",
          [](Graph& graph, std::string target, const py::list& args, std::vector<ValueId> outputs,
             std::shared_ptr<tdl::Spec> spec, const Locals& local, std::string module_path,
             std::string source, bool backward, bool random, int region) {
            return graph.add_op(make_op(std::move(target), args, std::move(outputs),
                                        std::move(spec), local, std::move(module_path),
                                        std::move(source), backward, random, region));
          },
          py::arg("target"), py::arg("args"), py::arg("outputs"), py::arg("spec"), py::arg("local"),
          py::arg("module_path"), py::arg("source"), py::arg("backward"), py::arg("random") = false,
          py::arg("region") = kNoRegion)
      .def(
          "add_fusion",
          [](Graph& graph, std::string target, const py::list& args, std::vector<ValueId> outputs,
             std::shared_ptr<tdl::Spec> spec, const Locals& local, std::string module_path,
             std::string source, bool backward, bool random, int region,
             std::vector<OpId> members) {
            Fusion fusion{
                make_op(std::move(target), args, std::move(outputs), std::move(spec), local,
                        std::move(module_path), std::move(source), backward, random, region),
                std::move(members)};
            graph.add_fusion(std::move(fusion));
          },
          py::arg("target"), py::arg("args"), py::arg("outputs"), py::arg("spec"), py::arg("local"),
          py::arg("module_path"), py::arg("source"), py::arg("backward"), py::arg("random"),
          py::arg("region"), py::arg("members"))
      .def(
          "add_output",
          [](Graph& graph, ValueId value, OutputKind kind, std::string name, ValueId target) {
            graph.add_output({value, kind, std::move(name), target});
          },
          py::arg("value"), py::arg("kind"), py::arg("name"), py::arg("target"))
      .def_property_readonly("values", &Graph::values, py::return_value_policy::reference_internal)
      .def_property_readonly("ops", &Graph::ops, py::return_value_policy::reference_internal)
      .def_property_readonly("num_input_elements", &Graph::num_input_elements)
      .def_property_readonly(
          "regions",
          [](const Graph& graph) {
            std::vector<int> regions;
            for (const Op& op : graph.ops()) regions.push_back(op.region);
            return regions;
          },
          "By op the region that the backward pass runs again with it; -1 for none.")
      .def_property_readonly(
          "ops_without_spec",
          [](const Graph& graph) {
            std::vector<OpId> found;
            for (const Op& op : graph.ops()) {
              if (!op.spec) found.push_back(op.id);
            }
            return found;
          },
          "Ids of the ops that run unsplit.")
      .def(
          "with_regions",
          [](Graph graph, const std::vector<int>& regions) {
            graph.set_regions(regions);
            return graph;
          },
          py::arg("regions"), "A copy, in which each op is part of such a region, or -1.")
      .def(
          "with_weightings",
          [](Graph graph, const std::vector<std::pair<std::string, std::vector<double>>>& given) {
            std::vector<Weighting> weightings;
            for (const auto& [name, shares] : given) weightings.push_back({name, shares});
            graph.give_weightings(std::move(weightings));
            return graph;
          },
          py::arg("weightings"), "A copy, of which plans may cut in these proportions, by worker.")
      .def("with_boundaries", &with_boundaries, py::arg("boundaries"),
           "A copy, whose vertices are cut at these ends by their number, and edges as theirs.")
      .def(
          "runs_again", [](const Graph& graph) { return recomputation(graph).again; },
          "By op whether the backward pass runs it once more.")
      .def("verify",
           [](const Graph& graph) {
             graph.verify();
             tdl::verify_specs(graph);
           })
      .def("__str__", &Graph::str);
  bind_sized(m);
}

}  // namespace smex::bindings
