#include "runtime/elements.h"

#include <ATen/ATen.h>

#include "ir/error.h"
#include "runtime/tile.h"

namespace smex::runtime {
namespace {

std::pair<const IndexList*, int> key(const Region& region, c10::Device device) {
  return {region.list.get(), device.is_cpu() ? -1 : device.index()};
}

at::Tensor hull_view(const at::Tensor& tensor, const Region& region) {
  return region.list ? box_view(tensor, Region{region.dims}) : box_view(tensor, region);
}

/// A view of a box, of a list a copy.
at::Tensor elements(const at::Tensor& tensor, const Region& region, const ListTensors& lists) {
  at::Tensor hull = hull_view(tensor, region);
  if (!region.list) return hull;
  return at::index_select(hull, region.axis, lists.of(region, tensor.device()));
}

void combine(at::Tensor into, const at::Tensor& from, tdl::ReduceKind kind) {
  switch (kind) {
    case tdl::ReduceKind::kSum:
      into.add_(from);
      return;
    case tdl::ReduceKind::kProd:
      into.mul_(from);
      return;
    case tdl::ReduceKind::kMax:
      at::maximum_out(into, into, from);
      return;
    case tdl::ReduceKind::kMin:
      at::minimum_out(into, into, from);
      return;
    case tdl::ReduceKind::kLogSumExp:
      at::logaddexp_out(into, into, from);
      return;
    case tdl::ReduceKind::kSoftmaxMean:
      break;  // weighed and then added
  }
  throw InternalError("a fetch does not reduce by this");
}

}  // namespace

void ListTensors::add(const Region& region, c10::Device device) {
  if (!region.list) return;
  Known& known = known_[key(region, device)];
  if (known.list) return;
  known.list = region.list;
  const std::vector<int64_t> indices = shifted(*region.list, -region.list->hull().lo).indices();
  known.positions = at::tensor(indices, at::kLong).to(device);
}

const at::Tensor& ListTensors::of(const Region& region, c10::Device device) const {
  const auto known = known_.find(key(region, device));
  if (known == known_.end()) {
    throw InternalError("the list of region " + region.str() + " was not made ready");
  }
  return known->second.positions;
}

void copy_elements(const at::Tensor& into, const Region& dest, const at::Tensor& from,
                   const Region& source, const ListTensors& lists) {
  at::Tensor place = hull_view(into, dest);
  if (dest.list) {
    const at::Tensor given = elements(from, source, lists).to(place.options());
    place.index_copy_(dest.axis, lists.of(dest, into.device()), given);
  } else if (source.list && place.device() == from.device() && place.dtype() == from.dtype()) {
    at::index_select_out(place, hull_view(from, source), source.axis,
                         lists.of(source, from.device()));
  } else {
    place.copy_(elements(from, source, lists), /*non_blocking=*/true);
  }
}

void combine_elements(const at::Tensor& into, const Region& dest, const at::Tensor& from,
                      const Region& source, tdl::ReduceKind kind, const ListTensors& lists) {
  const at::Tensor given = elements(from, source, lists).to(into.device());
  at::Tensor place = hull_view(into, dest);
  if (!dest.list) {
    combine(std::move(place), given, kind);
    return;
  }
  const at::Tensor& positions = lists.of(dest, into.device());
  at::Tensor reduced = at::index_select(place, dest.axis, positions);
  combine(reduced, given, kind);
  place.index_copy_(dest.axis, positions, reduced);
}

void fill_elements(const at::Tensor& tensor, const Region& region, double value,
                   const ListTensors& lists) {
  at::Tensor place = hull_view(tensor, region);
  if (region.list) {
    place.index_fill_(region.axis, lists.of(region, tensor.device()), value);
  } else {
    place.fill_(value);
  }
}

}  // namespace smex::runtime
