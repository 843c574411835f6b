// Draws neighbours and runs the GraphSAGE that export.py has written, as TorchScript or compiled by
// AOTInductor.
//
//     graphsage model.pt inputs.pt outputs.pt
//     graphsage model.pt2 inputs.pt outputs.pt
#include <ATen/ATen.h>
#include <smex/graph.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "../tensors.h"

namespace {

/// What the model in a file makes of the tensors of all blocks and the features.
at::Tensor forward(const std::string& path, const std::vector<at::Tensor>& given) {
  if (path.ends_with(".pt2")) {
    torch::inductor::AOTIModelPackageLoader model(path);
    return model.run(given).at(0);
  }
  torch::jit::Module model = torch::jit::load(path);
  return model.forward({given.begin(), given.end()}).toTensor();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::cerr << "usage: graphsage model.pt inputs.pt outputs.pt\n";
    return 2;
  }
  try {
    const at::NoGradGuard no_gradients;
    const std::vector<at::Tensor> inputs = read_tensors(arguments[2]);
    const at::Tensor &source = inputs.at(0), &target = inputs.at(1), &features = inputs.at(2);
    const at::Tensor& seeds = inputs.at(3);

    const smex::Graph graph = smex::Graph::from_edges(source, target, features.size(0));
    at::manual_seed(1);
    const std::vector<smex::Block> blocks = graph.sample_layers(seeds, /*fanouts=*/{10, 5});

    std::vector<at::Tensor> given;
    for (const smex::Block& block : blocks) {
      given.push_back(block.indptr);
      given.push_back(block.indices);
    }
    given.push_back(features.index_select(0, blocks.front().nodes));
    const at::Tensor result = forward(arguments[1], given);

    std::cout << graph.num_edges() << " edges, of which " << blocks[0].num_edges() << " and "
              << blocks[1].num_edges() << " are drawn, result of " << result.sizes() << "\n";
    write_tensors(arguments[3], {result});
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
