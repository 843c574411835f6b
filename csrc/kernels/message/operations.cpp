#include "kernels/message/operation_table.h"

#include <algorithm>
#include <iterator>

namespace smex::kernels {
namespace {

// The columns `form` and `torch` of a line begin with one of these words.
constexpr Operation unary{};
constexpr Operation lanes{};
constexpr Operation binary{.arguments = 2};
constexpr Operation number{.arguments = 2, .takes_number = true};
constexpr Operation sum{.is_elementwise = false};
constexpr Operation max{.is_elementwise = false, .in_messages = false};

struct ByTorch {
  const char* name = "";
  bool is_condition = false;
};
#define SMEX_TORCH_aten(name, arguments) \
  ByTorch { #name }
#define SMEX_TORCH_compared(name, arguments) \
  ByTorch { #name, /*is_condition=*/true }
#define SMEX_TORCH_by(...) \
  ByTorch {}

constexpr Operation line(MessageOp op, const char* sign, const char* name, const Operation& form,
                         std::string_view to_a, std::string_view to_b, const ByTorch& torch) {
  Operation result = form;
  result.op = op;
  result.name = name;
  result.sign = sign;
  result.has_gradient = to_a != "none" || to_b != "none";
  result.torch = torch.name;
  result.is_condition = torch.is_condition;
  return result;
}

constexpr Operation kOperations[] = {
#define SMEX_LINE(sign, id, name, form, value, to_a, to_b, torch) \
  line(MessageOp::id, sign, #name, form, #to_a, #to_b, SMEX_TORCH_##torch),
#define SMEX_SIGN(...) SMEX_LINE(__VA_ARGS__)
#define SMEX_OP(...) SMEX_LINE("", __VA_ARGS__)
#include "kernels/message/operations.def"
};

}  // namespace

std::span<const Operation> operations() { return kOperations; }

const Operation* find_operation(std::string_view name) {
  const auto found = std::find_if(std::begin(kOperations), std::end(kOperations),
                                  [&](const Operation& known) { return name == known.name; });
  return found == std::end(kOperations) ? nullptr : found;
}

const Operation& operation_of(MessageOp op) {
  return kOperations[static_cast<int>(op) - static_cast<int>(kOperations[0].op)];
}

bool takes_number(MessageOp op) {
  return op > MessageOp::kConstant && operation_of(op).takes_number;
}

}  // namespace smex::kernels
