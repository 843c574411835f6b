#pragma once

#include <memory>

#include "runtime/processes/communicator.h"
#include "smex/ranks.h"

namespace smex {

struct Ranks::Impl {
  c10::intrusive_ptr<c10d::Store> given;  ///< which may be the server
  c10::intrusive_ptr<c10d::Store> store;  ///< for goodbyes
  std::shared_ptr<runtime::Watcher> watcher;
  std::shared_ptr<runtime::Communicator> communicator;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  /// Says goodbye. Rank 0 waits until the others have, since the store may be its own.
  ~Impl();
};

}  // namespace smex
