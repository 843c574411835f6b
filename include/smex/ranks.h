#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>

#include "smex/export.h"

namespace smex {

/// Processes that run models together: how they find, reach and watch each other.
///
/// Those of one host put what they send each other into shared memory. A rank that fails, ends or
/// falls silent is told to the others within seconds, who throw in place of waiting for it.
class SMEX_API Ranks {
 public:
  using Seconds = std::chrono::duration<double>;

  /// As the environment tells: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which `torchrun` sets
  /// for any program (`torchrun --no-python --nproc-per-node 2 ./serve`).
  ///
  /// Throws std::invalid_argument that names the variable which is missing or no number,
  /// std::runtime_error where a rank has not come within `timeout`.
  static Ranks from_environment(Seconds timeout = std::chrono::minutes(5));

  /// In a store that all processes reach, with keys for these ranks alone. Where they are on
  /// several hosts they speak through `group`, a group of torch's of the same ranks and for nothing
  /// else; on one host it may be null.
  ///
  /// Throws std::invalid_argument where they share no memory and have no group.
  Ranks(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
        c10::intrusive_ptr<c10d::ProcessGroup> group = {},
        Seconds timeout = std::chrono::minutes(5));

  int rank() const;
  int size() const;

 private:
  friend class Model;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace smex
