#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/processes/doorbell.h"

namespace smex::runtime {

/// What a packet is found by.
struct Notice {
  uint64_t pass = 0;    ///< of the sender's, counted from 0
  uint64_t digest = 0;  ///< of the program that runs
  uint64_t offset = 0;  ///< in the segment
  uint64_t bytes = 0;
};

/// Memory in which a process puts the packets that it sends to others of its host, and the bell by
/// which it is woken. The file has no name any more once all have mapped it, so that nothing is
/// left of processes that are killed.
///
/// Each receiver has space of its own, so that one that does not read yet holds up nobody else.
/// Packets for a receiver are noticed in order; space is given back by whoever has read them, in
/// any order, and used again from the oldest on.
class Segment {
 public:
  /// Makes one for packets from `rank` to the others of `size`, of `lane_bytes` for each. Throws
  /// UserError where there is no such memory.
  static std::shared_ptr<Segment> create(const std::string& path, int rank, int size,
                                         size_t lane_bytes);
  /// Maps another process's. Throws UserError.
  static std::shared_ptr<Segment> open(const std::string& path);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  Doorbell& doorbell();

  // ---- the owner, one thread at a time ----

  /// Memory for a packet; nullopt while what is there has not been read, see `await_space`.
  std::optional<uint64_t> allocate(int receiver, uint64_t bytes);
  /// Whether a receiver has fewer notices that it has not taken than fit.
  bool can_notify(int receiver);
  /// Tells a receiver of a packet.
  void notify(int receiver, const Notice& notice);
  /// Whether readers ring the owner's bell when they give space back.
  void await_space(bool on);

  // ---- receivers, one thread at a time each ----

  std::optional<Notice> take(int receiver);

  // ---- anyone ----

  std::byte* data(uint64_t offset) { return base_ + offset; }
  void give_back(uint64_t offset);

 private:
  struct Header;
  struct Lane;
  struct Block;
  /// The owner's view of a receiver's space: where blocks end and begin, and what they take.
  struct Ring {
    uint64_t begin = 0;
    uint64_t head = 0, tail = 0;
    uint64_t used = 0;
  };

  Segment(std::byte* base, size_t bytes) : base_(base), bytes_(bytes) {}
  Header& header() { return *reinterpret_cast<Header*>(base_); }
  Lane& lane(int receiver);
  Block& block(uint64_t offset);
  void reclaim(Ring& ring);

  std::byte* base_;
  size_t bytes_;
  std::vector<Ring> rings_;  ///< of the owner, by receiver
};

}  // namespace smex::runtime
