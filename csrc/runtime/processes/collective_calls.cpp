#include "runtime/processes/collective_calls.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <tuple>

namespace smex::runtime {
namespace {

constexpr bool kAsync = true;
constexpr int64_t kTimeoutOfTheGroup = -1;

template <class Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

c10::intrusive_ptr<c10d::ReduceOp> sum() {
  return c10::make_intrusive<c10d::ReduceOp>(c10d::ReduceOp::SUM);
}

}  // namespace

Work all_to_all(const Group& group, at::Tensor& received, at::Tensor& sent,
                std::vector<int64_t> receives, std::vector<int64_t> sends) {
  static const auto op = find<Work(at::Tensor&, at::Tensor&, const Group&, std::vector<int64_t>,
                                   std::vector<int64_t>, bool, int64_t)>("c10d::alltoall_base_");
  return op.call(received, sent, group, std::move(receives), std::move(sends), kAsync,
                 kTimeoutOfTheGroup);
}

Work all_gather(const Group& group, at::Tensor& received, at::Tensor& sent) {
  static const auto op =
      find<std::tuple<at::Tensor, Work>(at::Tensor&, at::Tensor&, const Group&, bool, int64_t)>(
          "c10d::_allgather_base_");
  return std::get<1>(op.call(received, sent, group, kAsync, kTimeoutOfTheGroup));
}

Work all_reduce(const Group& group, at::Tensor& tensor) {
  static const auto op = find<std::tuple<std::vector<at::Tensor>, Work>(
      at::TensorList, const Group&, const c10::intrusive_ptr<c10d::ReduceOp>&,
      const std::optional<at::Tensor>&, bool, int64_t)>("c10d::allreduce_");
  return std::get<1>(op.call(tensor, group, sum(), std::nullopt, kAsync, kTimeoutOfTheGroup));
}

Work reduce_scatter(const Group& group, at::Tensor& received, at::Tensor& sent) {
  static const auto op =
      find<std::tuple<at::Tensor, Work>(at::Tensor&, at::Tensor&, const Group&,
                                        const c10::intrusive_ptr<c10d::ReduceOp>&, bool, int64_t)>(
          "c10d::_reduce_scatter_base_");
  return std::get<1>(op.call(received, sent, group, sum(), kAsync, kTimeoutOfTheGroup));
}

}  // namespace smex::runtime
