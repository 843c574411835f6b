#pragma once

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "partition/lower/exchange.h"
#include "partition/lower/program.h"
#include "partition/plan/plan.h"
#include "partition/price/machine.h"

namespace smex {

/// What a transfer occupies meanwhile: the receiver, a number below that of processes; between
/// nodes, of which each has a port, the receiving node's way in and the other's way out.
struct OccupiedPorts {
  std::array<int, 3> numbers{-1, -1, -1};
  int count = 0;

  void add(int port) { numbers.at(count++) = port; }
  const int* begin() const { return numbers.data(); }
  const int* end() const { return numbers.data() + count; }
  auto operator<=>(const OccupiedPorts&) const = default;
};

/// What one process sends another of a relayout, and what that takes.
struct Transfer {
  Message message;
  std::span<const std::pair<int, Slot>> sources;  ///< tiles, by worker
  std::span<const std::pair<int, int>> readers;  ///< fetches: workers, and positions in their lists
  double bytes = 0;
  double seconds = 0;  ///< on its way
  double latency = 0;
  double charged = 0;  ///< of the seconds the receiver's own, if it computes meanwhile
  OccupiedPorts ports;
};

/// What processes send each other in a list.
class Transfers {
 public:
  /// Worker `w` is one of process `ranks[w]`. What is sent goes over the machine's link between the
  /// two. Throws like `list_sent_parts`.
  Transfers(const Program& program, const Mesh& mesh, const Machine& machine,
            const std::vector<int>& ranks, bool backward);
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  int size() const { return static_cast<int>(all_.size()); }
  const Transfer& operator[](int number) const { return all_[number]; }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  std::vector<Transfer> all_;  ///< ascending by message
  // What these show, one after another.
  std::vector<std::pair<int, Slot>> sources_;
  std::vector<std::pair<int, int>> readers_;
};

}  // namespace smex
