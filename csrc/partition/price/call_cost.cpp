#include "partition/price/call_cost.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "partition/plan/coarsen.h"

namespace smex {
namespace {

/// Results that are larger lie in pages of their own, which the system fills with zeros first.
constexpr double kKeptByMalloc = 512 << 10;

std::string text_of(const Shape& shape) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d) {
    text += (d ? ", " : "") + std::to_string(shape[d]);
  }
  return text + "]";
}

double squared_distance(const CallWork& a, const CallWork& b) {
  double sum = 0;
  for (const auto& [x, y] : {std::pair{a.operations, b.operations}, std::pair{a.bytes, b.bytes},
                             std::pair{a.gathered, b.gathered}}) {
    const double ratio = std::log((x + 1) / (y + 1));
    sum += ratio * ratio;
  }
  return sum;
}

/// Below it, 1 % of what calls do, two are the same.
constexpr double kNear = 1e-4;

}  // namespace

void CallWork::add_result(double size, int item) {
  bytes += size;
  add_memory(size, item);
}

void CallWork::add_memory(double size, int item) {
  fresh += std::max(0.0, size - kKeptByMalloc);
  itemsize = item;
}

double CallCost::seconds(const CallWork& work) const {
  const double sum = call + operation * work.operations + byte * work.bytes +
                     gathered_byte * work.gathered + fresh_byte * work.fresh;
  double logarithms = 0, weights = 0;
  for (const MeasuredFactor& each : measured) {
    const double weight = 1 / (kNear + squared_distance(each.work, work));
    logarithms += weight * std::log(each.factor);
    weights += weight;
  }
  return weights > 0 ? sum * std::exp(logarithms / weights) : sum;
}

const CallCost* find_cost(const CallCosts& costs, const std::string& kind,
                          const std::string& target, int itemsize) {
  for (const std::string* name : {&kind, &target}) {
    if (const auto known = costs.find(*name); known != costs.end()) {
      if (const auto cost = known->second.find(itemsize); cost != known->second.end()) {
        return &cost->second;
      }
    }
  }
  return nullptr;
}

std::string call_kind(const Graph& graph, const Op& op) {
  std::string kind = op.target;
  for (const ValueId input : op.inputs) {
    const Value& value = graph.value(input);
    kind += ' ';
    if (value.producer >= 0) {
      const Op& producer = graph.op(value.producer);
      if (producer.spec && is_data_movement(*producer.spec)) kind += producer.target;
    }
    kind += text_of(value.shape);
  }
  for (const Attr& arg : op.args) {
    const bool is_tensor =
        std::holds_alternative<ValueRef>(arg) || std::holds_alternative<std::vector<ValueRef>>(arg);
    if (!is_tensor) kind += ' ' + str(arg);
  }
  return kind;
}

}  // namespace smex
