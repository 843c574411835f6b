// run_model model.smex inputs.pt outputs.pt calls: calls a model several times, and writes what the
// last call has returned. Torch's generator begins with the seed 5; errors go to standard error.
// Where RANK is set it is one of several processes, and writes to outputs.pt with its rank behind.
#include <ATen/Context.h>
#include <smex/model.h>
#include <smex/ranks.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

#include "../../../examples/cpp/tensors.h"

namespace {

smex::Model load(const std::string& path, std::string& outputs) {
  if (std::getenv("RANK") == nullptr) return smex::Model::load(path);
  const auto ranks = smex::Ranks::from_environment(std::chrono::seconds(60));
  outputs += "." + std::to_string(ranks.rank());
  return smex::Model::load(path, ranks);
}

}  // namespace

int main(int, char** arguments) {
  at::manual_seed(5);
  try {
    std::string path = arguments[3];
    const smex::Model model = load(arguments[1], path);
    for (const smex::InputInfo& input : model.inputs()) {
      std::cout << "input " << input.name << " " << at::IntArrayRef(input.shape) << " "
                << input.dtype << "\n";
    }
    std::cout << "plan " << model.plan() << "\n";
    for (const std::string& place : model.outputs()) std::cout << "output " << place << "\n";
    std::cout << std::flush;
    std::vector<at::Tensor> outputs;
    for (int call = 0; call < std::stoi(arguments[4]); ++call) {
      outputs = model.forward(read_tensors(arguments[2]));
    }
    write_tensors(path.c_str(), outputs);
  } catch (const std::invalid_argument& error) {
    std::cerr << "invalid_argument: " << error.what() << "\n";
    return 1;
  } catch (const std::runtime_error& error) {
    std::cerr << "runtime_error: " << error.what() << "\n";
    return 2;
  }
}
