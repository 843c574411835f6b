// Runs a transformer that export.py has partitioned.
//
//     transformer model.smex inputs.pt outputs.pt
#include <smex/model.h>

#include <exception>
#include <iostream>

#include "../tensors.h"

int main(int count, char** arguments) {
  if (count != 4) {
    std::cerr << "usage: transformer model.smex inputs.pt outputs.pt\n";
    return 2;
  }
  try {
    const smex::Model model = smex::Model::load(arguments[1]);
    const std::vector<at::Tensor> outputs = model.forward(read_tensors(arguments[2]));
    std::cout << model.workers() << " workers, result of " << outputs.at(0).sizes() << "\n";
    write_tensors(arguments[3], outputs);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
