#include "partition/program.h"

#include <map>
#include <sstream>

namespace smex {

namespace {

void print_compute(std::ostream& out, const ComputeInstr& compute) {
  for (size_t o = 0; o < compute.outputs.size(); ++o) {
    out << (o ? ", " : "") << compute.outputs[o];
  }
  out << " = " << compute.target << "  # op " << compute.op;
}

void print_fetch(std::ostream& out, const FetchInstr& fetch) {
  out << fetch.dest << " = " << fetch.kind << '(';
  for (size_t p = 0; p < fetch.parts.size(); ++p) {
    const CopyPart& part = fetch.parts[p];
    out << (p ? ", " : "") << part.worker << ':' << part.slot << Region{part.source}.str();
  }
  out << ')';
}

void print(std::ostream& out, const std::vector<Instr>& instrs) {
  for (const Instr& instr : instrs) {
    out << "  ";
    if (instr.kind == InstrKind::kCompute) print_compute(out, instr.compute);
    if (instr.kind == InstrKind::kFetch) print_fetch(out, instr.fetch);
    if (instr.kind == InstrKind::kFree) out << "free " << instr.free.slot;
    out << '\n';
  }
}

}  // namespace

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

int64_t moved_bytes(const Program& program, bool forward, bool backward) {
  static const std::map<std::string, int> kItemSizes{
      {"float64", 8}, {"float32", 4}, {"float16", 2},   {"bfloat16", 2},
      {"int64", 8},   {"int32", 4},   {"int16", 2},     {"int8", 1},
      {"uint8", 1},   {"bool", 1},    {"complex64", 8}, {"complex128", 16}};
  int64_t bytes = 0;
  auto count = [&](int worker, const std::vector<Instr>& instrs) {
    for (const Instr& instr : instrs) {
      if (instr.kind != InstrKind::kFetch) continue;
      for (const CopyPart& part : instr.fetch.parts) {
        if (part.worker == worker) continue;
        bytes += Region{part.dest}.numel() * kItemSizes.at(instr.fetch.dtype);
      }
    }
  };
  for (int w = 0; w < program.num_workers; ++w) {
    if (forward) count(w, program.workers[w].forward);
    if (backward) count(w, program.workers[w].backward);
  }
  return bytes;
}

}  // namespace smex
