#pragma once

#include <torch/csrc/jit/serialization/pickle.h>

#include <fstream>
#include <iterator>
#include <vector>

/// The tensors of a list that `torch.save` has written.
inline std::vector<at::Tensor> read_tensors(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<at::Tensor> tensors;
  const c10::IValue list = torch::jit::pickle_load(bytes);
  for (const c10::IValue& item : list.toListRef()) {
    tensors.push_back(item.toTensor());
  }
  return tensors;
}

/// Writes a tuple that `torch.load` reads.
inline void write_tensors(const char* path, const std::vector<at::Tensor>& tensors) {
  std::vector<c10::IValue> items(tensors.begin(), tensors.end());
  const std::vector<char> bytes =
      torch::jit::pickle_save(c10::ivalue::Tuple::create(std::move(items)));
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
}
