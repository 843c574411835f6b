#include "ir/sized.h"

#include <string>
#include <type_traits>

#include "ir/error.h"

namespace smex {

namespace {

template <typename Items>
const auto& of_call(const Items& items, int number, const char* what) {
  if (number >= 0 && number < static_cast<int>(items.size())) return items[number];
  throw InternalError("sized graph: expected " + std::to_string(items.size()) + " " + what +
                      "s a call or more, found a use of " + what + " " + std::to_string(number));
}

int64_t integer(const Attr& number) {
  if (const auto* found = std::get_if<int64_t>(&number)) return *found;
  throw InternalError("sized graph: expected an integer for a size");
}

double real(const Attr& number) {
  if (const auto* found = std::get_if<double>(&number)) return *found;
  return static_cast<double>(integer(number));
}

/// Writes a number to an element of a list of the same kind.
struct ElementWriter {
  const Attr& number;
  size_t element;

  template <typename T>
  void operator()(T& list) const {
    if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
      list.at(element) = integer(number);
    } else if constexpr (std::is_same_v<T, std::vector<double>>) {
      list.at(element) = real(number);
    } else {
      throw InternalError("sized graph: expected a list of numbers to write a number to");
    }
  }
};

}  // namespace

Op& SizedGraph::call_of(Graph& graph, int number) {
  const int ops = static_cast<int>(graph.ops_.size());
  return number < ops ? graph.ops_.at(number) : graph.fusions_.at(number - ops).fused;
}

const Op& SizedGraph::call(int number) const { return call_of(const_cast<Graph&>(graph_), number); }

void SizedGraph::place_size(ValueId value, int dim, int number) {
  graph_.values_.at(value).shape.at(dim);
  sizes_.push_back({value, dim, number});
}

void SizedGraph::place_argument(int call, int arg, int element, int number) {
  call_of(graph_, call).args.at(arg);
  arguments_.push_back({call, arg, element, number});
}

void SizedGraph::place_meaning(int call, int meaning) {
  call_of(graph_, call);
  senses_.push_back({call, meaning});
}

Graph SizedGraph::at(const std::vector<Attr>& numbers, const std::vector<Meaning>& meanings) const {
  Graph graph = graph_;
  for (const Size& size : sizes_) {
    graph.values_[size.value].shape[size.dim] = integer(of_call(numbers, size.number, "number"));
  }
  for (const Argument& place : arguments_) {
    const Attr& number = of_call(numbers, place.number, "number");
    Attr& arg = call_of(graph, place.call).args[place.arg];
    if (place.element < 0) {
      arg = number;
    } else {
      std::visit(ElementWriter{number, static_cast<size_t>(place.element)}, arg);
    }
  }
  for (const Sense& sense : senses_) {
    const Meaning& meaning = of_call(meanings, sense.meaning, "meaning");
    Op& op = call_of(graph, sense.call);
    op.spec = meaning.spec;
    op.local = meaning.local;
  }
  return graph;
}

}  // namespace smex
