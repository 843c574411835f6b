#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "runtime/session.h"

namespace smex::runtime {

/// What the inputs and outputs of a program are to the call that was captured.
///
/// A call has inputs, which are the caller's whole tensors, and results; it reads tensors of the
/// model's state, which lie in tiles with the workers, and constants. Each result that has a
/// gradient has a tangent, the gradient that backward is given.
struct CallForm {
  enum class Source { kState, kConstant, kInput, kTangent };
  enum class Use {
    kResult,
    kStateUpdate,
    kInputUpdate,
    kStateGradient,
    kInputGradient,
    kNothing,
  };

  struct Given {
    Source source = Source::kInput;
    int index = 0;  ///< among the state, the constants, the inputs or the results
    bool changes =
        false;  ///< the call writes it before backward has read it: gets memory of its own
    /// An input of which the caller gives the rows of this process's workers alone.
    bool local = false;
  };

  struct Made {
    Use use = Use::kNothing;
    int index = 0;              ///< among the results, the state or the inputs
    bool borrowed = false;      ///< may lie in memory that was given
    Shape shape;                ///< of the whole
    std::vector<int> tangents;  ///< of a gradient: by result, those that it is computed from
    bool local = false;         ///< of an input's gradient or new value: of its local rows
  };

  std::vector<Given> given;  ///< by Program::inputs
  std::vector<Made> made;    ///< by Program::outputs
  std::vector<at::Tensor> constants;
  int num_results = 0;
  bool draws = false;  ///< numbers, from a seed of the call
  uint64_t net = 0;    ///< whose call it is, see Executor::start
};

/// A gradient of the state is asked for one worker's tile: (the tensor's index, the worker).
using Shard = std::pair<int, int>;

/// One call: the forward program, and the backward program when it is asked for.
class Iteration {
 public:
  /// `state` has the tiles of each tensor of the model, `inputs` whole tensors.
  Iteration(std::shared_ptr<const CallForm> form, const std::shared_ptr<Executor>& executor,
            std::vector<WorkerTensors> state, const std::vector<at::Tensor>& inputs);

  /// Runs the forward program and returns the whole results, in memory that is neither the state's
  /// nor the inputs'; then writes what the model changes, into the state and into `inputs`.
  std::vector<at::Tensor> run_forward(std::vector<at::Tensor>& inputs);

  /// Runs the backward program for the gradients of the results; an undefined one is zero.
  void run_backward(const std::vector<at::Tensor>& grads);

  /// The whole gradient of each input on its device, then those of `shards`; undefined where no
  /// gradient that was given is read.
  std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& grads,
                                    const std::vector<c10::Device>& input_devices,
                                    const std::vector<Shard>& shards);

  const std::shared_ptr<Session>& session() const { return session_; }

 private:
  WorkerTensors tiles_of(const CallForm::Given& given, size_t position,
                         const std::vector<at::Tensor>& inputs) const;
  /// `first_row` is where `given` begins in the whole.
  WorkerTensors scatter(size_t position, const at::Tensor& given, int64_t first_row = 0) const;
  /// The rows of an input that this process's workers hold.
  Interval local_rows(int input) const;
  at::Tensor gather(size_t position) const;
  void write_updates(std::vector<at::Tensor>& inputs);

  std::shared_ptr<const CallForm> form_;
  std::shared_ptr<Executor> executor_;
  std::vector<WorkerTensors> state_;
  std::shared_ptr<Session> session_;
  std::vector<std::pair<std::vector<int64_t>, c10::ScalarType>> results_;  ///< shapes and types
};

}  // namespace smex::runtime
