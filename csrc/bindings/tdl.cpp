// Python's view of csrc/tdl. Regions cross as lists of (lo, hi).
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <utility>

#include "bindings/bindings.h"
#include "bindings/regions.h"
#include "tdl/expr.h"
#include "tdl/interpreter.h"
#include "tdl/spec.h"
#include "tdl/text.h"

namespace py = pybind11;

namespace smex::bindings {
namespace {

using namespace smex::tdl;

using Node = std::shared_ptr<Expr>;  // pybind11 has no holder of const objects

Node mutable_node(const ExprPtr& expr) { return std::const_pointer_cast<Expr>(expr); }
std::vector<ExprPtr> nodes(const std::vector<Node>& args) { return {args.begin(), args.end()}; }

std::shared_ptr<Spec> make_spec(const std::vector<std::tuple<std::string, int64_t, bool>>& indices,
                                std::vector<Shape> input_shapes,
                                const std::vector<std::pair<std::vector<int>, Node>>& outputs) {
  auto spec = std::make_shared<Spec>();
  for (const auto& [name, extent, whole] : indices) spec->indices.push_back({name, extent, whole});
  spec->input_shapes = std::move(input_shapes);
  for (const auto& [axes, body] : outputs) spec->outputs.push_back({axes, body});
  check_spec(*spec);
  return spec;
}

std::vector<std::pair<std::vector<double>, Shape>> evaluate_lists(
    const Spec& spec, const std::vector<std::pair<std::vector<double>, Shape>>& inputs) {
  std::vector<Tensor> tensors;
  for (const auto& [data, shape] : inputs) tensors.push_back({data, shape});
  std::vector<std::pair<std::vector<double>, Shape>> results;
  for (Tensor& tensor : evaluate(spec, tensors)) {
    results.emplace_back(std::move(tensor.data), std::move(tensor.shape));
  }
  return results;
}

/// A contiguous vector of integers, which stays alive with the table.
std::shared_ptr<const Table> to_table(py::buffer numbers) {
  auto kept = std::make_shared<py::buffer_info>(numbers.request());
  const std::shared_ptr<const void> owner(kept.get(), [kept](const void*) mutable {
    const py::gil_scoped_acquire gil;
    kept.reset();
  });
  if (kept->itemsize == sizeof(int32_t)) {
    return std::make_shared<const Table>(owner, static_cast<const int32_t*>(kept->ptr), kept->size);
  }
  return std::make_shared<const Table>(owner, static_cast<const int64_t*>(kept->ptr), kept->size);
}

void bind_expr(py::module_& m) {
  py::class_<Expr, Node>(m, "Expr");
  m.def("const", [](double value) { return mutable_node(make_const(value)); }, py::arg("value"));
  m.def("index", [](int index) { return mutable_node(make_index(index)); }, py::arg("index"));
  m.def(
      "read",
      [](int input, const std::vector<Node>& args, std::optional<double> pad) {
        return mutable_node(make_read(input, nodes(args), pad));
      },
      py::arg("input"), py::arg("args"), py::arg("pad") = std::nullopt);
  m.def(
      "call",
      [](std::string name, const std::vector<Node>& args) {
        return mutable_node(make_call(std::move(name), nodes(args)));
      },
      py::arg("name"), py::arg("args"));
  m.def(
      "reduce",
      [](ReduceKind kind, std::vector<int> bound, const Node& body) {
        return mutable_node(make_reduce(kind, std::move(bound), body));
      },
      py::arg("kind"), py::arg("bound"), py::arg("body"));
  m.def(
      "softmax_mean",
      [](std::vector<int> bound, const Node& value, const Node& score) {
        return mutable_node(make_softmax_mean(std::move(bound), value, score));
      },
      py::arg("bound"), py::arg("value"), py::arg("score"));
  m.def(
      "opaque",
      [](std::string name, const std::vector<Node>& args) {
        return mutable_node(make_opaque(std::move(name), nodes(args)));
      },
      py::arg("name"), py::arg("args"));
  m.def("whole", [] { return mutable_node(make_whole()); });
}

void bind_spec(py::module_& m) {
  py::class_<Index>(m, "Index")
      .def_readonly("name", &Index::name)
      .def_readonly("extent", &Index::extent)
      .def_readonly("whole", &Index::whole);
  py::class_<InputNeed>(m, "InputNeed")
      .def_readonly("used", &InputNeed::used)
      .def_property_readonly("region", [](const InputNeed& n) { return to_bounds(n.region.dims); })
      .def_property_readonly("rows", [](const InputNeed& n) { return to_listed(n.region); })
      .def_property_readonly("unclamped",
                             [](const InputNeed& n) { return to_bounds(n.unclamped.dims); });
  py::class_<Split>(m, "Split")
      .def_readonly("index", &Split::index)
      .def_property_readonly("reduction", &Split::any_reduces)
      .def_readonly("reduces", &Split::reduces)
      .def_readonly("granule", &Split::granule);
  py::class_<Spec, std::shared_ptr<Spec>>(m, "Spec")
      .def(py::init(&make_spec), py::arg("indices"), py::arg("input_shapes"), py::arg("outputs"))
      .def_static(
          "parse", [](const std::string& text) { return std::make_shared<Spec>(parse_spec(text)); },
          py::arg("text"))
      .def_readonly("indices", &Spec::indices)
      .def_readonly("input_shapes", &Spec::input_shapes)
      .def_property_readonly("output_axes",
                             [](const Spec& spec) {
                               std::vector<std::vector<int>> axes;
                               for (const Statement& statement : spec.outputs)
                                 axes.push_back(statement.axes);
                               return axes;
                             })
      .def(
          "describes",
          [](const Spec& spec, int output) { return spec.outputs.at(output).body != nullptr; },
          py::arg("output"))
      .def("is_opaque",
           [](const Spec& spec) {
             for (const Statement& statement : spec.outputs) {
               if (contains_kind(statement.body, ExprKind::kOpaque)) return true;
             }
             return false;
           })
      .def("text", &print_spec)
      .def(
          "input_needs",
          [](const Spec& spec, const Bounds& ranges) { return input_needs(spec, to_box(ranges)); },
          py::arg("ranges"))
      .def("has_rows", &has_rows, "Whether it tells which places are a row's.")
      .def("table_inputs", &table_inputs, "The inputs of which the content may be a table.")
      .def(
          "with_tables",
          [](const Spec& spec, const std::map<int, py::buffer>& tables) {
            auto told = std::make_shared<Spec>(spec);
            told->tables.resize(spec.input_shapes.size());
            for (const auto& [input, numbers] : tables) {
              auto table = to_table(numbers);
              if (fits(spec, input, *table)) told->tables.at(input) = std::move(table);
            }
            return told;
          },
          py::arg("tables"),
          "The same with the content of inputs, integers, known; what does not fit is left out.")
      .def("has_landings", &has_landings)
      .def(
          "landings",
          [](const Spec& spec, int output, const Bounds& ranges) {
            std::vector<std::optional<std::pair<int64_t, int64_t>>> found;
            for (const auto& range : landings(spec, output, to_box(ranges))) {
              found.emplace_back();
              if (range) found.back() = {range->lo, range->hi};
            }
            return found;
          },
          py::arg("output"), py::arg("ranges"))
      .def(
          "output_region",
          [](const Spec& spec, int output, const Bounds& ranges) {
            return to_bounds(output_region(spec, output, to_box(ranges)).dims);
          },
          py::arg("output"), py::arg("ranges"))
      .def("full_ranges", [](const Spec& spec) { return to_bounds(full_ranges(spec)); })
      .def("splits", &derive_splits)
      .def("weight_sums", &weight_sums)
      .def("without_divisors",
           [](const Spec& spec) {
             auto sums = std::make_shared<Spec>(spec);
             const auto divisors = take_divisors(*sums);
             return std::pair(sums, divisors);
           })
      .def("evaluate", &evaluate_lists, py::arg("inputs"))
      .def("__str__", &Spec::str)
      .def("__repr__", &Spec::str);
}

}  // namespace

// Adds the submodule `tdl`.
void bind_tdl(py::module_& m) {
  py::module_ tdl = m.def_submodule("tdl", "Tensor-as-lambda specifications.");
  py::enum_<ReduceKind>(tdl, "ReduceKind")
      .value("sum", ReduceKind::kSum)
      .value("max", ReduceKind::kMax)
      .value("min", ReduceKind::kMin)
      .value("prod", ReduceKind::kProd)
      .value("logsumexp", ReduceKind::kLogSumExp)
      .value("softmaxmean", ReduceKind::kSoftmaxMean);
  bind_expr(tdl);
  bind_spec(tdl);
}

}  // namespace smex::bindings
