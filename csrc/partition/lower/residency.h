#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "partition/lower/program.h"

namespace smex {

/// What each worker of a program holds while its lists go by. When fetches come may change in the
/// meantime, `due` in the instructions, and nothing else: what that does not touch is found once.
class Residency {
 public:
  /// Outputs of the operators in `view_targets` alias their first operand, but for reshapes that
  /// copy. Keeps a reference to the program. Throws UserError where shapes or bytes of elements are
  /// not given, or a slot is read before it is written.
  Residency(const Program& program, const std::set<std::string>& view_targets);

  /// Takes note of what `due` has become.
  void update();

  /// By worker and slot the instruction of the owner after which nobody else surely reads it any
  /// more, counted through both lists; -1: nobody does at all. Other workers have read a tile once
  /// its owner has fetched what a reader made later, or all have finished the forward.
  const std::vector<std::vector<int>>& done() const { return done_; }

  /// Bytes of live tensors of a worker: before the first instruction, and after each one of the
  /// forward and the backward list, before what it lets go is freed. See `peak_bytes`.
  std::vector<int64_t> held(int worker) const;

 private:
  /// A slot of a worker's own that an instruction reads which may come late.
  struct LateRead {
    const Instr* instr = nullptr;
    int position = 0;  ///< of the instruction, in both lists, as all others here
    Slot slot = kNoSlot;
  };

  struct Worker {
    int length = 0, forward = 0;   ///< of both lists, and of the first
    std::vector<int> storage;      ///< by slot; -1: not written
    std::vector<int> freed;        ///< by slot; kNever: not at all
    std::vector<int64_t> bytes;    ///< by storage
    std::vector<int> made;         ///< by storage; -1: given; kNever: given on the host
    std::vector<LateRead> late;    ///< ascending by position
    std::vector<int64_t> changes;  ///< what moves to and from the host change, by position
  };

  /// A part of another worker's slot that a fetch reads.
  struct RemotePart {
    const FetchInstr* fetch = nullptr;
    int reader = 0, position = 0;
    int owner = 0;
    Slot slot = kNoSlot;
    int reached = 0;  ///< which of the pair's `reached`
  };

  /// How far a reader has come by when it has fetched what an owner wrote.
  struct Pair {
    std::vector<int> reached;  ///< ascending: where in the owner's lists the tiles are written
    std::vector<int> soonest;  ///< of each the instruction of the reader that has fetched it
  };

  class Scan;

  void list_remote_parts();
  int end_of(int worker, int due, int position) const;
  Pair& pair(int reader, int owner) { return pairs_[reader * program_.num_workers + owner]; }

  const Program& program_;
  std::vector<Worker> workers_;
  std::vector<RemotePart> parts_;
  std::vector<Pair> pairs_;
  std::vector<std::vector<int>> done_;
};

/// `Residency::held` of the program as it is. Throws UserError where there is no such worker.
std::vector<int64_t> held_bytes(const Program& program, int worker,
                                const std::set<std::string>& view_targets);

/// Peak bytes of live tensors per worker, as the runtime counts them for the slowest of its peers:
/// every storage once, graph inputs and outputs included, parameters and buffers all the time.
/// Walks the instruction lists; a tile that peers fetch is counted until the worker fetches what
/// they have made since, as it may be ahead of them, and a fetch is as late as it may be. Tiles on
/// the host do not count.
std::vector<int64_t> peak_bytes(const Program& program, const std::set<std::string>& view_targets);

}  // namespace smex
