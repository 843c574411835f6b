#include "partition/lower/program.h"

#include <algorithm>
#include <sstream>

#include "ir/error.h"

namespace smex {

namespace {

void print_compute(std::ostream& out, const ComputeInstr& compute) {
  for (size_t o = 0; o < compute.outputs.size(); ++o) {
    out << (o ? ", " : "") << compute.outputs[o];
  }
  out << " = " << operator_name(compute) << "  # " << op_label(compute);
  if (compute.inside.dest != kNoSlot) out << ", inside " << compute.inside.dest;
}

void print_fetch(std::ostream& out, const FetchInstr& fetch) {
  out << fetch.dest << " = " << fetch.kind << '(';
  for (size_t p = 0; p < fetch.parts.size(); ++p) {
    const CopyPart& part = fetch.parts[p];
    out << (p ? ", " : "") << part.worker << ':' << part.slot << part.source.str();
  }
  out << ')';
}

void print_move(std::ostream& out, const MoveInstr& move) {
  out << name_of(move.kind);
  for (const Slot slot : move.slots) out << ' ' << slot;
  if (move.bytes > 0) out << "  # " << move.bytes << " bytes";
}

void print(std::ostream& out, const std::vector<Instr>& instrs) {
  for (const Instr& instr : instrs) {
    out << "  ";
    if (const auto* compute = std::get_if<ComputeInstr>(&instr)) print_compute(out, *compute);
    if (const auto* fetch = std::get_if<FetchInstr>(&instr)) print_fetch(out, *fetch);
    if (const auto* free = std::get_if<FreeInstr>(&instr)) out << "free " << free->slot;
    if (const auto* move = std::get_if<MoveInstr>(&instr)) print_move(out, *move);
    out << '\n';
  }
}

/// Bytes of an element of a slot; `what` asks.
int itemsize(const WorkerProgram& program, Slot slot, const char* what) {
  if (slot < 0 || slot >= static_cast<Slot>(program.slot_itemsizes.size())) {
    throw UserError(std::string(what) + ": expected slot_itemsizes for slot " +
                    std::to_string(slot) + ", found " +
                    std::to_string(program.slot_itemsizes.size()) + " of them");
  }
  return program.slot_itemsizes[slot];
}

}  // namespace

int due_of(const Instr& instr) {
  if (const auto* fetch = std::get_if<FetchInstr>(&instr)) return fetch->due;
  const auto* const compute = std::get_if<ComputeInstr>(&instr);
  return compute ? compute->due : -1;
}

const char* name_of(MoveInstr::Kind kind) {
  switch (kind) {
    case MoveInstr::Kind::kWrite:
      return "spill";
    case MoveInstr::Kind::kDrop:
      return "drop";
    case MoveInstr::Kind::kRestore:
      return "restore";
  }
  throw InternalError("a move of no kind");
}

namespace {

/// In how many pieces of memory a part of a dense tensor lies.
double pieces_of(const Region& part, const Shape& shape) {
  double pieces = 1;
  bool is_whole = true;  // all dimensions behind this one
  for (size_t d = shape.size(); d-- > 0;) {
    const int64_t size = part.shape()[d];
    if (!is_whole) pieces *= static_cast<double>(size);
    is_whole = is_whole && size == shape[d];
  }
  return pieces;
}

}  // namespace

OwnCopy own_copy(const FetchInstr& fetch, int worker) {
  OwnCopy own;
  if (fetch.view || fetch.shape_only) return own;
  for (const CopyPart& part : fetch.parts) {
    if (part.worker != worker || part.in_place) continue;
    const auto elements = static_cast<double>(part.dest.numel());
    own.elements += elements;
    if (elements > 0) own.pieces += pieces_of(part.dest, fetch.shape);
    if (part.source.list || part.dest.list) own.kind = "fetch of rows";
  }
  return own;
}

bool reads_others(const FetchInstr& fetch, int worker) {
  if (fetch.view || fetch.shape_only) return false;
  return std::any_of(fetch.parts.begin(), fetch.parts.end(),
                     [&](const CopyPart& part) { return part.worker != worker; });
}

int finished(int due, int position) { return std::max(position, due - 1); }

std::string operator_name(const ComputeInstr& compute) {
  return compute.what.empty() ? compute.target : compute.target + '[' + compute.what + ']';
}

std::string op_label(const ComputeInstr& compute) {
  return compute.op < 0 ? "added" : "op " + std::to_string(compute.op);
}

std::string Program::str() const {
  std::ostringstream out;
  for (size_t w = 0; w < workers.size(); ++w) {
    out << "worker " << w << " forward:\n";
    print(out, workers[w].forward);
    out << "worker " << w << " backward:\n";
    print(out, workers[w].backward);
  }
  return out.str();
}

size_t Program::num_given() const {
  return static_cast<size_t>(std::count_if(
      inputs.begin(), inputs.end(), [](const Binding& input) { return input.contents.empty(); }));
}

int64_t moved_bytes(const Program& program, bool forward, bool backward) {
  int64_t bytes = 0;
  auto count = [&](int worker, const std::vector<Instr>& instrs) {
    for (const Instr& instr : instrs) {
      const auto* const fetch = std::get_if<FetchInstr>(&instr);
      if (!fetch) continue;
      int64_t elements = 0;
      for (const CopyPart& part : fetch->parts) {
        if (part.worker != worker) elements += part.dest.numel();
      }
      if (elements == 0) continue;
      bytes += elements * itemsize(program.workers[worker], fetch->dest, "moved_bytes");
    }
  };
  for (int w = 0; w < program.num_workers; ++w) {
    if (forward) count(w, program.workers[w].forward);
    if (backward) count(w, program.workers[w].backward);
  }
  return bytes;
}

}  // namespace smex
