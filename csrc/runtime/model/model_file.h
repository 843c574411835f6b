#pragma once

#include <string>
#include <vector>

#include "partition/lower/gather.h"
#include "partition/lower/program.h"
#include "runtime/iteration.h"

namespace smex::runtime {

inline constexpr int64_t kFormatVersion = 2;
inline constexpr const char* kFormatName = "smex.model";

/// What a call gives or returns.
struct ModelTensor {
  std::string name;  ///< of a result its place in what the model returns
  Shape shape;
  std::string dtype;  ///< torch's name without the prefix ("float32")
};

/// A call of a partitioned net with all it needs: what a file of `net.export` has.
///
/// The file is torch's zip archive of one pickled tuple: kFormatName, kFormatVersion, torch's
/// version, the fields of this structure (fields.h), by tensor of the state the numbers of its
/// workers' tiles (-1: none), the numbers of the constants, and the tensors, each once, on the CPU.
/// A structure is the tuple of its fields, a variant that of its alternative's number and value, a
/// list of indices the ends of its runs.
struct ModelFile {
  Program program;
  CallForm form;
  std::vector<WorkerTensors> state;
  std::vector<ModelTensor> inputs;
  std::vector<ModelTensor> outputs;
  std::vector<std::string> devices;  ///< by worker
  std::string plan;                  ///< JSON, as `net.plan.save` writes it
};

/// What a call of it returns, for `gather_outputs`.
std::vector<Returned> returned_of(const ModelFile& file);

/// Replaces the file at once where all is written. Throws UserError that names the path.
void write_model(const std::string& path, const ModelFile& file);

/// Tensors are on the CPU. Throws UserError that names the path and what was expected and found.
ModelFile read_model(const std::string& path);

}  // namespace smex::runtime
