// run_model model.smex inputs.pt outputs.pt calls: calls a model several times, and writes what the
// last call has returned. Torch's generator begins with the seed 5; errors go to standard error.
#include <ATen/Context.h>
#include <smex/model.h>

#include <exception>
#include <iostream>
#include <string>

#include "../../../examples/cpp/tensors.h"

int main(int, char** arguments) {
  at::manual_seed(5);
  try {
    const smex::Model model = smex::Model::load(arguments[1]);
    for (const smex::InputInfo& input : model.inputs()) {
      std::cout << "input " << input.name << " " << at::IntArrayRef(input.shape) << " "
                << input.dtype << "\n";
    }
    std::cout << "plan " << model.plan() << "\n";
    for (const std::string& place : model.outputs()) std::cout << "output " << place << "\n";
    std::vector<at::Tensor> outputs;
    for (int call = 0; call < std::stoi(arguments[4]); ++call) {
      outputs = model.forward(read_tensors(arguments[2]));
    }
    write_tensors(arguments[3], outputs);
  } catch (const std::invalid_argument& error) {
    std::cerr << "invalid_argument: " << error.what() << "\n";
    return 1;
  }
}
