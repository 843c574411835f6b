// Python's view of csrc/partition/vertices.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <utility>

#include "bindings/bindings.h"
#include "partition/vertices/boundaries.h"
#include "partition/vertices/features.h"
#include "partition/vertices/ranges.h"

namespace py = pybind11;

namespace smex::bindings {
namespace {

/// By vertex and one more the seconds of all before it, by several models.
py::array_t<double> seconds_before(
    int64_t rows, double each,
    const std::vector<std::pair<const FeatureSums*, VertexFeatures>>& models) {
  std::vector<double> sums(rows + 1);
  for (int64_t row = 0; row <= rows; ++row) sums[row] = each * static_cast<double>(row);
  for (const auto& [features, weights] : models) {
    const std::vector<double> own = features->weighted(weights);
    for (int64_t row = 0; row <= rows; ++row) sums[row] += own.at(row);
  }
  return py::array_t<double>(rows + 1, sums.data());
}

}  // namespace

void bind_vertices(py::module_& m) {
  py::class_<EdgeWalk>(m, "EdgeWalk", "How a call walks a graph's edges.")
      .def_readonly("op", &EdgeWalk::op)
      .def_readonly("width", &EdgeWalk::width)
      .def_property_readonly("rows", &EdgeWalk::rows)
      .def_property_readonly(
          "structure",
          [](const EdgeWalk& walk) {
            return std::make_tuple(reinterpret_cast<uintptr_t>(walk.bounds),
                                   reinterpret_cast<uintptr_t>(walk.sources), walk.width);
          },
          "Equal for walks of equal features.");
  m.def("edge_walks", &edge_walks, py::arg("graph"),
        "Of all calls whose structure is known, one for the rows of each.");
  m.def(
      "walked_rows",
      [](const Graph& graph, const Plan& plan, const std::vector<EdgeWalk>& walks) {
        std::vector<std::vector<std::pair<int64_t, int64_t>>> found;
        for (const std::vector<Interval>& workers : walked_rows(graph, plan, walks)) {
          auto& rows = found.emplace_back();
          for (const Interval& range : workers) rows.emplace_back(range.lo, range.hi);
        }
        return found;
      },
      py::arg("graph"), py::arg("plan"), py::arg("walks"),
      "By walk and worker the rows [begin, end) that a plan has computed there.");
  py::class_<FeatureSums>(m, "FeatureSums")
      .def(py::init<const EdgeWalk&>(), py::arg("walk"), py::call_guard<py::gil_scoped_release>())
      .def("of", &FeatureSums::of, py::arg("begin"), py::arg("end"),
           "ROC's five features of the vertices of a range, and three of what misses caches.");
  m.attr("FEATURES") = kVertexFeatures;
  m.def("seconds_before", &seconds_before, py::arg("rows"), py::arg("each"), py::arg("models"),
        "By vertex and one more the seconds of all before it: `each` of every vertex, and its "
        "features times their weights.");
  m.def(
      "min_max_ranges",
      [](const py::array_t<double, py::array::c_style | py::array::forcecast>& before,
         const std::vector<double>& speeds, const std::vector<double>& offsets) {
        const std::vector<double> sums(before.data(), before.data() + before.size());
        const py::gil_scoped_release release;
        std::vector<RangeWorker> workers;
        for (size_t n = 0; n < speeds.size(); ++n) workers.push_back({speeds[n], offsets.at(n)});
        auto ends = min_max_ranges(sums, workers);
        const double seconds = range_seconds(sums, workers, ends);
        return std::make_pair(std::move(ends), seconds);
      },
      py::arg("sums"), py::arg("speeds"), py::arg("offsets"),
      "0 and the ends of contiguous ranges whose last worker ends the earliest, and when.");
}

}  // namespace smex::bindings
