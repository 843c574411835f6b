#pragma once

#include <concepts>
#include <type_traits>

#include "partition/lower/program.h"
#include "runtime/iteration.h"
#include "runtime/model/model_file.h"

namespace smex::runtime {

template <typename T, typename Plain>
concept IsA = std::same_as<std::remove_const_t<T>, Plain>;

// What a model's file has of each structure, in this order. Whoever writes and whoever reads call
// the same functions; a change of one is another kFormatVersion.

template <typename Archive, IsA<Interval> T>
void fields(Archive& archive, T& interval) {
  archive(interval.lo, interval.hi);
}

template <typename Archive, IsA<Region> T>
void fields(Archive& archive, T& region) {
  archive(region.dims, region.list, region.axis);
}

template <typename Archive, IsA<ValueRef> T>
void fields(Archive& archive, T& ref) {
  archive(ref.id);
}

template <typename Archive, IsA<Inside> T>
void fields(Archive& archive, T& inside) {
  archive(inside.dest, inside.shape, inside.dtype, inside.offset);
}

/// Without `kind`, by which times are predicted.
template <typename Archive, IsA<ComputeInstr> T>
void fields(Archive& archive, T& instr) {
  archive(instr.op, instr.source, instr.target, instr.what, instr.args, instr.outputs, instr.crop,
          instr.computed, instr.copies, instr.dense, instr.inside, instr.operations, instr.gathered,
          instr.due, instr.anywhere, instr.output_shapes);
}

template <typename Archive, IsA<CopyPart> T>
void fields(Archive& archive, T& part) {
  archive(part.worker, part.slot, part.source, part.dest, part.in_place);
}

template <typename Archive, IsA<FetchInstr> T>
void fields(Archive& archive, T& fetch) {
  archive(fetch.value, fetch.dest, fetch.shape, fetch.dtype, fetch.parts, fetch.reducing,
          fetch.reduce, fetch.fill, fetch.view, fetch.begun, fetch.shape_only, fetch.kind,
          fetch.relayout, fetch.due);
}

template <typename Archive, IsA<FreeInstr> T>
void fields(Archive& archive, T& instr) {
  archive(instr.slot);
}

template <typename Archive, IsA<MoveInstr> T>
void fields(Archive& archive, T& move) {
  archive(move.kind, move.slots, move.bytes);
}

template <typename Archive, IsA<WorkerProgram> T>
void fields(Archive& archive, T& worker) {
  archive(worker.num_slots, worker.remote_reads, worker.slot_names, worker.forward, worker.backward,
          worker.slot_itemsizes);
}

template <typename Archive, IsA<Binding> T>
void fields(Archive& archive, T& binding) {
  archive(binding.value, binding.slots, binding.regions, binding.contents);
}

template <typename Archive, IsA<Program> T>
void fields(Archive& archive, T& program) {
  archive(program.num_workers, program.workers, program.inputs, program.outputs,
          program.device_memory, program.sums_by_peer);
}

template <typename Archive, IsA<CallForm::Given> T>
void fields(Archive& archive, T& given) {
  archive(given.source, given.index, given.changes, given.local);
}

template <typename Archive, IsA<CallForm::Made> T>
void fields(Archive& archive, T& made) {
  archive(made.use, made.index, made.borrowed, made.shape, made.tangents, made.local);
}

/// Without `net`; constants are among the tensors.
template <typename Archive, IsA<CallForm> T>
void fields(Archive& archive, T& form) {
  archive(form.given, form.made, form.num_results, form.draws);
}

template <typename Archive, IsA<ModelTensor> T>
void fields(Archive& archive, T& tensor) {
  archive(tensor.name, tensor.shape, tensor.dtype);
}

/// Without tensors.
template <typename Archive, IsA<ModelFile> T>
void fields(Archive& archive, T& file) {
  archive(file.program, file.form, file.inputs, file.outputs, file.devices, file.plan);
}

}  // namespace smex::runtime
