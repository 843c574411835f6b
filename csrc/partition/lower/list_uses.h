#pragma once

#include <set>
#include <string>
#include <vector>

#include "partition/lower/program.h"

namespace smex {

/// Calls `visit` with each slot of the worker itself that an instruction reads.
template <typename Visit>
void for_each_read(const Instr& instr, int worker, const Visit& visit) {
  if (const auto* compute = std::get_if<ComputeInstr>(&instr)) {
    for (const Attr& arg : compute->args) {
      if (const auto* one = std::get_if<ValueRef>(&arg)) {
        if (one->id != kNoSlot) visit(one->id);
      } else if (const auto* some = std::get_if<std::vector<ValueRef>>(&arg)) {
        for (const ValueRef& ref : *some) {
          if (ref.id != kNoSlot) visit(ref.id);
        }
      }
    }
  } else if (const auto* fetch = std::get_if<FetchInstr>(&instr)) {
    for (const CopyPart& part : fetch->parts) {
      if (part.worker == worker) visit(part.slot);
    }
  }
}

/// The slot whose memory the outputs of a call share, if they do: outputs of the operators in
/// `views` lie in that of their first operand, but for reshapes that copy.
Slot viewed(const ComputeInstr& compute, const std::set<std::string>& views);

/// Who makes, reads and frees the slots of one worker's instruction list, and which memory they
/// share. Positions are those of the list; -1 stands for none.
class ListUses {
 public:
  /// `backward` picks the list. Outputs of the operators in `views` lie in the memory of their
  /// first operand, but for reshapes that copy.
  ListUses(const Program& program, int worker, bool backward, const std::set<std::string>& views);

  /// The instruction that makes the slot.
  int made(Slot slot) const { return slot_made_[slot]; }

  /// The instruction that frees the slot.
  int freed(Slot slot) const { return freed_[slot]; }

  /// Whether the slot is an output of the program.
  bool is_kept(Slot slot) const { return kept_[slot]; }

  /// The instructions of this worker that read the slot, ascending; one that reads it twice is
  /// there twice.
  std::vector<int>::const_iterator readers_begin(Slot slot) const {
    return readers_.begin() + first_reader_[slot];
  }
  std::vector<int>::const_iterator readers_end(Slot slot) const {
    return readers_.begin() + first_reader_[slot + 1];
  }

  const Shape& shape(Slot slot) const { return *shapes_[slot]; }

  /// The piece of memory in which the slot lies.
  int storage(Slot slot) const { return storage_[slot]; }
  int64_t bytes(int storage) const { return bytes_[storage]; }

  /// By storage: from which instruction on nothing of it is held any more, as far as the list says;
  /// past its end where that is never.
  const std::vector<int>& released() const { return released_; }

  /// Bytes that are held when an instruction has run, and what it frees has gone. What other
  /// workers still read is not counted.
  std::vector<int64_t> held() const;

  /// Bytes that are no longer held by the list, but perhaps for other workers that read them.
  std::vector<int64_t> awaited() const;

 private:
  void find_storages(const Program& program, int worker, const std::set<std::string>& views);
  void allocate(Slot slot, const Shape& shape, int position);
  void note_uses(const std::vector<Instr>& instrs, int worker);
  void note_lifetimes(bool backward);

  const WorkerProgram& program_;
  std::vector<Shape> input_shapes_;
  int length_ = 0;              ///< of the list
  std::vector<int> slot_made_;  ///< by slot
  std::vector<int> freed_;      ///< by slot
  std::vector<bool> kept_;      ///< by slot
  std::vector<int> readers_;    ///< slot after slot
  std::vector<int> first_reader_;
  std::vector<const Shape*> shapes_;  ///< by slot
  std::vector<int> storage_;          ///< by slot
  std::vector<int64_t> bytes_;        ///< by storage, as are the others
  std::vector<int> made_;             ///< in both lists, the backward's behind the forward's
  std::vector<int> released_;
  std::vector<bool> read_remotely_;
};

}  // namespace smex
