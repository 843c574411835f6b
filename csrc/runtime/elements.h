#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <utility>

#include "ir/region.h"
#include "tdl/spec.h"

namespace smex::runtime {

/// The lists of regions as tensors of positions from the begin of their hulls, by device: made
/// once, before threads read them.
class ListTensors {
 public:
  /// Of a region that is a box there is none.
  void add(const Region& region, c10::Device device);
  /// Throws InternalError for a list that was not added.
  const at::Tensor& of(const Region& region, c10::Device device) const;

 private:
  struct Known {
    std::shared_ptr<const IndexList> list;  ///< so that its address stays its own
    at::Tensor positions;
  };
  std::map<std::pair<const IndexList*, int>, Known> known_;
};

/// Copies a region of `from` to one of `into`, of as many elements: rows that are listed are
/// gathered and scattered. Throws InternalError where a region is outside of its tensor.
void copy_elements(const at::Tensor& into, const Region& dest, const at::Tensor& from,
                   const Region& source, const ListTensors& lists);

/// Reduces instead of copying.
void combine_elements(const at::Tensor& into, const Region& dest, const at::Tensor& from,
                      const Region& source, tdl::ReduceKind kind, const ListTensors& lists);

void fill_elements(const at::Tensor& tensor, const Region& region, double value,
                   const ListTensors& lists);

}  // namespace smex::runtime
