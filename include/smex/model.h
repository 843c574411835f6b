#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "smex/export.h"

namespace smex {

/// What a model is called with, in order.
struct InputInfo {
  std::string name;  ///< of the parameter of the Python model's `forward`
  std::vector<int64_t> shape;
  at::ScalarType dtype = at::ScalarType::Undefined;
};

class Ranks;

struct ModelOptions {
  std::vector<c10::Device> devices;  ///< one a worker; empty: those of the net that was exported
  int threads_per_worker = 0;  ///< intra-op threads; 0: torch's, divided by the workers, at least 1
};

/// A partitioned net that Python has written by `net.export(path)`: one call of it, without
/// gradients, on a thread for each worker.
///
/// Results are bit by bit those of the net in Python on the same machine, with as many intra-op
/// threads. Copies share the tiles of parameters and buffers.
class SMEX_API Model {
 public:
  /// Reads a file of `net.export`. Operators that the program calls have to be registered: those of
  /// torch and SMEX are.
  ///
  /// Throws std::invalid_argument that names the file: it is not there, damaged, of another format,
  /// or calls an operator that nobody has registered.
  static Model load(const std::string& path, const ModelOptions& options = {});

  /// Reads a file on each of several processes, which run the workers together: rank r of n those
  /// from r * workers / n on. All processes load the same files in the same order, and call
  /// `forward` in the same order with the same inputs; each gets the whole results. Each keeps its
  /// own workers' tiles. On the CPU only.
  ///
  /// Throws std::invalid_argument as above, and where the workers do not divide over the ranks;
  /// std::runtime_error where another rank has failed, here and in `forward`.
  static Model load(const std::string& path, const Ranks& ranks, const ModelOptions& options = {});

  /// Takes whole tensors, on any device, and returns the whole tensors that the model returns, in
  /// the order of `outputs()`, in memory of their own. Buffers that the model changes are changed.
  /// Calls from several threads take turns.
  ///
  /// Throws std::invalid_argument that names the input where one has another shape or type than in
  /// the call that was exported.
  std::vector<at::Tensor> forward(std::vector<at::Tensor> inputs) const;

  const std::vector<InputInfo>& inputs() const;
  /// By result its place in what the Python model returns: "['logits']"; "" where that is the
  /// tensor itself.
  const std::vector<std::string>& outputs() const;
  int workers() const;
  /// The plan, as JSON: what `net.plan.save` writes.
  const std::string& plan() const;
  /// Those of the workers.
  const std::vector<c10::Device>& devices() const;

 private:
  struct Impl;
  static Model load(const std::string& path, const Ranks* ranks, const ModelOptions& options);
  explicit Model(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace smex
