// Runs a Tree-LSTM over trees of different shapes, whose vertices are scheduled together.
//
//     tree_lstm inputs.pt outputs.pt
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <smex/schedule.h>

#include <exception>
#include <iostream>

#include "../tensors.h"

enum Type { kLeaf, kInner };

/// The trees of sizes [trees], numbers of children [vertices] and children [edges].
smex::InputGraphs read_trees(const at::Tensor& sizes, const at::Tensor& counts,
                             const at::Tensor& children) {
  smex::InputGraphs trees;
  const int64_t* count = counts.const_data_ptr<int64_t>();
  const int64_t* child = children.const_data_ptr<int64_t>();
  for (int64_t n = 0; n < sizes.size(0); ++n) {
    std::vector<std::vector<int64_t>> children_of;
    std::vector<int64_t> types;
    for (int64_t left = sizes[n].item<int64_t>(); left > 0; --left, child += *count++) {
      children_of.emplace_back(child, child + *count);
      types.push_back(*count == 0 ? kLeaf : kInner);
    }
    trees.add(children_of, types);
  }
  return trees;
}

/// The element-wise part of the cell: h and c of gates [rows, 5 * width] and the children's c.
std::tuple<at::Tensor, at::Tensor> cell(const at::Tensor& gates, at::TensorList cells) {
  using Type =
      std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, at::TensorList, at::IntArrayRef);
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("smex::tree_lstm", "").typed<Type>();
  return op.call(gates, cells, {0, 1, 2, 3, 4});
}

int main(int count, char** arguments) {
  if (count != 3) {
    std::cerr << "usage: tree_lstm inputs.pt outputs.pt\n";
    return 2;
  }
  try {
    const at::NoGradGuard no_gradients;
    const std::vector<at::Tensor> inputs = read_tensors(arguments[1]);
    const at::Tensor &w = inputs.at(0), &bias = inputs.at(1), &u = inputs.at(2);
    const smex::InputGraphs trees = read_trees(inputs.at(4), inputs.at(5), inputs.at(6));
    const smex::VertexSchedule schedule = smex::schedule_vertices(trees, /*slots=*/{0, 2});

    const at::Tensor x = inputs.at(3).index_select(0, schedule.vertices);  // by row
    const at::Tensor h = x.new_zeros({x.size(0), u.size(1) / 2}), c = at::zeros_like(h);
    at::Tensor of_inner;  // w x + bias of all inner vertices at once
    int64_t first_inner = 0;
    for (const smex::VertexTask& task : schedule.tasks) {
      const auto rows_of = [&](const at::Tensor& all) {
        return all.slice(0, task.begin, task.end);
      };
      at::Tensor gates;
      std::vector<at::Tensor> cells;
      if (task.type == kLeaf) {
        gates = at::addmm(bias, rows_of(x), w.t());
        cells.assign(2, x.new_zeros({task.size(), h.size(1)}));
      } else {
        if (!of_inner.defined()) {
          first_inner = task.begin;
          of_inner = at::addmm(bias, x.slice(0, first_inner), w.t());
        }
        const at::Tensor left = schedule.children_at(task, 0);
        const at::Tensor right = schedule.children_at(task, 1);
        const at::Tensor states = at::cat({h.index_select(0, left), h.index_select(0, right)}, 1);
        gates = at::addmm(of_inner.slice(0, task.begin - first_inner, task.end - first_inner),
                          states, u.t());
        cells = {c.index_select(0, left), c.index_select(0, right)};
      }
      const auto [task_h, task_c] = cell(gates, cells);
      rows_of(h).copy_(task_h);
      rows_of(c).copy_(task_c);
    }
    std::cout << x.size(0) << " vertices in " << schedule.tasks.size() << " tasks\n";
    write_tensors(arguments[2],
                  {h.index_select(0, schedule.roots), c.index_select(0, schedule.roots)});
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
