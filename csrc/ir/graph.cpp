#include "ir/graph.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "ir/error.h"

namespace smex {

namespace {

void append_operand(std::vector<ValueId>& operands, ValueId id) {
  if (id == kNoValue) return;
  if (std::find(operands.begin(), operands.end(), id) == operands.end()) operands.push_back(id);
}

template <typename T>
void print_list(std::ostream& out, const std::vector<T>& items) {
  out << '[';
  for (size_t i = 0; i < items.size(); ++i) out << (i ? ", " : "") << items[i];
  out << ']';
}

struct AttrPrinter {
  std::ostream& out;
  void operator()(std::monostate) const { out << "None"; }
  void operator()(bool flag) const { out << (flag ? "True" : "False"); }
  void operator()(int64_t number) const { out << number; }
  void operator()(double number) const { out << number; }
  void operator()(const std::complex<double>& number) const { out << number; }
  void operator()(const std::string& text) const { out << '"' << text << '"'; }
  void operator()(const std::vector<int64_t>& list) const { print_list(out, list); }
  void operator()(const std::vector<double>& list) const { print_list(out, list); }
  void operator()(const std::vector<bool>& list) const { print_list(out, list); }
  void operator()(const ValueRef& ref) const {
    if (ref.id == kNoValue) {
      out << "None";
    } else {
      out << '%' << ref.id;
    }
  }
  void operator()(const std::vector<ValueRef>& refs) const {
    out << '[';
    for (size_t i = 0; i < refs.size(); ++i) {
      if (i) out << ", ";
      (*this)(refs[i]);
    }
    out << ']';
  }
};

void print_value(std::ostream& out, const Value& value) {
  out << '%' << value.id << ": " << value.dtype;
  print_list(out, value.shape);
}

}  // namespace

int64_t Value::numel() const { return Region::whole(shape).numel(); }

std::string str(const Attr& arg) {
  std::ostringstream out;
  std::visit(AttrPrinter{out}, arg);
  return std::move(out).str();
}

std::vector<ValueId> tensor_operands(const std::vector<Attr>& args) {
  std::vector<ValueId> operands;
  for (const Attr& arg : args) {
    if (const auto* ref = std::get_if<ValueRef>(&arg)) append_operand(operands, ref->id);
    if (const auto* refs = std::get_if<std::vector<ValueRef>>(&arg)) {
      for (const ValueRef& ref : *refs) append_operand(operands, ref.id);
    }
  }
  return operands;
}

std::vector<int> Graph::input_itemsizes(const Op& op) const {
  std::vector<int> found;
  for (const ValueId input : op.inputs) found.push_back(value(input).itemsize);
  return found;
}

ValueId Graph::add_value(std::string name, Shape shape, std::string dtype, int itemsize,
                         Role role) {
  Value value;
  value.id = static_cast<ValueId>(values_.size());
  value.name = std::move(name);
  value.shape = std::move(shape);
  value.dtype = std::move(dtype);
  value.itemsize = itemsize;
  value.role = role;
  values_.push_back(std::move(value));
  return values_.back().id;
}

OpId Graph::add_op(Op op) {
  op.id = static_cast<OpId>(ops_.size());
  op.inputs = tensor_operands(op.args);
  for (ValueId input : op.inputs) values_.at(input).users.push_back(op.id);
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    if (op.outputs[i] == kNoValue) continue;
    Value& value = values_.at(op.outputs[i]);
    value.producer = op.id;
    value.output_index = static_cast<int>(i);
  }
  ops_.push_back(std::move(op));
  return ops_.back().id;
}

void Graph::add_output(GraphOutput output) { outputs_.push_back(std::move(output)); }

void Graph::add_fusion(Fusion fusion) {
  fusion.fused.inputs = tensor_operands(fusion.fused.args);
  std::sort(fusion.members.begin(), fusion.members.end());
  fusions_.push_back(std::move(fusion));
}

void Graph::give_parts(std::vector<GivenParts> parts) {
  for (const auto& [id, dim, ends] : parts) {
    const int64_t size = value(id).shape.at(dim);
    if (ends->size() < 2 || ends->front() != 0 || ends->back() != size ||
        !std::is_sorted(ends->begin(), ends->end())) {
      throw InternalError("parts of dimension " + std::to_string(dim) + " of " + value(id).name +
                          " do not ascend from 0 to " + std::to_string(size));
    }
  }
  given_parts_ = std::move(parts);
}

void Graph::give_weightings(std::vector<Weighting> weightings) {
  for (const Weighting& weighting : weightings) {
    double all = 0;
    for (const double share : weighting.shares) {
      if (!std::isfinite(share) || share < 0) {
        throw UserError("weights \"" + weighting.name + "\": expected numbers from 0 on, found " +
                        std::to_string(share));
      }
      all += share;
    }
    if (!(all > 0)) {
      throw UserError("weights \"" + weighting.name + "\": nothing is left to any worker");
    }
  }
  weightings_ = std::make_shared<const std::vector<Weighting>>(std::move(weightings));
}

void Graph::set_regions(const std::vector<int>& regions) {
  if (regions.size() != ops_.size())
    throw InternalError("a graph's regions are not one for each op");
  for (Op& op : ops_) op.region = regions[op.id];
  for (Fusion& fusion : fusions_) {
    std::set<int> found;  // of what only gradients need nothing is given up
    for (OpId member : fusion.members) {
      if (!op(member).backward) found.insert(regions[member]);
    }
    fusion.fused.region = found.size() == 1 ? *found.begin() : kNoRegion;
  }
}

int64_t Graph::num_input_elements() const {
  int64_t elements = 0;
  for (const Value& value : values_) {
    if (value.role == Role::kInput) elements += value.numel();
  }
  return elements;
}

std::string Graph::str() const {
  std::ostringstream out;
  for (const Op& op : ops_) {
    bool first = true;
    for (ValueId id : op.outputs) {
      if (!first) out << ", ";
      first = false;
      if (id == kNoValue) {
        out << '_';
      } else {
        print_value(out, values_[id]);
      }
    }
    out << " = " << op.target << '(';
    for (size_t i = 0; i < op.args.size(); ++i) {
      if (i) out << ", ";
      std::visit(AttrPrinter{out}, op.args[i]);
    }
    out << ')';
    if (!op.module_path.empty()) out << "  # " << op.module_path;
    out << '\n';
  }
  return out.str();
}

void Graph::verify() const {
  auto fail = [](const Op& op, const std::string& what) {
    throw InternalError("graph: op %" + std::to_string(op.id) + " (" + op.target + "): " + what);
  };
  for (const Op& op : ops_) {
    for (ValueId input : op.inputs) {
      if (input < 0 || input >= static_cast<ValueId>(values_.size())) {
        fail(op, "operand %" + std::to_string(input) + " is not a value of the graph");
      }
      if (values_[input].producer >= op.id) {
        fail(op, "operand %" + std::to_string(input) + " is produced later, by op %" +
                     std::to_string(values_[input].producer));
      }
    }
    for (ValueId output : op.outputs) {
      if (output != kNoValue && values_.at(output).producer != op.id) {
        fail(op, "output %" + std::to_string(output) + " is produced by another op");
      }
    }
  }
}

}  // namespace smex
