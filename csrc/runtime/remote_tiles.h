#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/executor.h"
#include "runtime/tile.h"

namespace smex::runtime {

/// What one session gets from the workers of other processes, and what it sends them.
///
/// A tile leaves when all that shares its packet is written; a packet that has come stays until the
/// fetches of this process have read it.
class RemoteTiles {
 public:
  /// The session that this is a part of.
  struct Host {
    std::function<SlotState&(int worker, Slot slot)> slot;
    std::function<void(int worker, Slot slot)> release;  ///< of one reference
    std::function<bool()> is_stopping;
    std::function<void()> check_interrupt;  ///< by the calling thread; may throw
  };

  /// `net` is of whom the program is run.
  RemoteTiles(const Executor& executor, Host host, uint64_t net);

  /// Begins the forward or the backward list. Throws RankFailure.
  void begin(bool backward);
  /// Waits until all that others get is sent. Throws RankFailure, and what the host throws.
  void finish();
  /// Ends what `begin` began, also after an error: nothing of the session is read any more.
  void end();
  /// Whether a list has begun and not ended.
  bool are_open() const { return pass_ != nullptr; }

  /// A slot of a worker of this process holds its tile.
  void written(int worker, Slot slot);
  /// Whether the packet of a copy is there.
  bool is_there(const Copy& copy) const { return pass_->is_there(copy.packet); }
  /// The same of one that nobody needs yet, and is not asked for before others.
  bool has_come(const Copy& copy) const { return pass_->has_come(copy.packet); }
  /// Waits for a packet, and calls `go_on` whenever something else may have come; false where the
  /// host stops first. Throws like `finish`.
  bool await(int worker, const Copy& copy, const std::function<void()>& go_on);
  /// Waits for something of this process, which who makes it true rings the communicator's bell
  /// for.
  void await(int worker, const std::function<bool()>& is_over);
  /// The process that a copy's packet comes from; -1: several, whose parts are added up.
  int sender(const Copy& copy) const { return incoming(copy).from; }
  /// The parcel that a copy reads, of a packet that is there, of elements of this type.
  at::Tensor parcel(const Copy& copy, c10::ScalarType type) const;
  /// A fetch has made its last copy from a packet.
  void read(const Copy& copy);

  /// Enters an instruction into the process's recorder.
  uint64_t record(int worker, size_t position);

 private:
  const Packet& incoming(const Copy& copy) const;
  void await_bell(int worker, std::function<std::vector<int>()> ranks,
                  const std::function<bool()>& is_over);
  void pack(const Packet& packet, const at::Tensor& bytes);

  const Executor& executor_;
  const Host host_;
  Communicator& communicator_;
  const uint64_t digest_;  ///< of the program and the net
  bool backward_ = false;
  std::shared_ptr<Pass> pass_;
  std::unique_ptr<std::atomic<int>[]> sources_left_;  ///< by outgoing packet
  std::unique_ptr<std::atomic<int>[]> readers_left_;  ///< by incoming packet
};

}  // namespace smex::runtime
