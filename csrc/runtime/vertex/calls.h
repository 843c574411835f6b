#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace smex::runtime {

/// A straight line of calls, whose operands are numbered: tensors, and sizes of them.
class Calls {
 public:
  static constexpr int kNone = -1;

  /// An argument that is a value of that number.
  struct Operand {
    int position = 0, value = kNone;
  };

  /// A value's size, or a constant.
  struct Size {
    int value = kNone;
    int64_t constant = 0;
  };

  /// An argument that is a list of tensors, or of values and constants where it is one of integers.
  struct OperandList {
    int position = 0;
    bool of_tensors = true;
    bool optional = false;    ///< some tensors may be absent
    std::vector<int> values;  ///< of tensors; kNone: an absent one
    std::vector<Size> sizes;  ///< otherwise
  };

  /// A call of an operator. Results are counted through lists among them.
  struct OfOperator {
    c10::OperatorHandle op;
    std::vector<c10::IValue> arguments;  ///< one each; None where an operand goes
    std::vector<Operand> operands;
    std::vector<OperandList> lists;
    std::vector<int> results;  ///< kNone: dropped
    int list = kNone;          ///< its only result as it is, a list of tensors
  };

  /// An element of a list of tensors.
  struct OfItem {
    int list = kNone, index = 0;
    int result = kNone;
  };

  /// Arithmetic of two sizes.
  struct OfSizes {
    char operation = '*';  ///< or +, - and / for the quotient rounded down
    Size left, right;
    int result = kNone;
  };

  using Call = std::variant<OfOperator, OfItem, OfSizes>;

  /// The first `given` values are given, `results` are returned.
  Calls(int given, std::vector<Call> calls, std::vector<int> results);

  int given() const { return given_; }

  /// Some call draws random numbers, which come from one generator in the order of the calls.
  bool draws() const;

  /// Makes the calls, and lets each value go after the last that reads it. Throws InternalError
  /// where there are not as many values as are to be given; what the operators throw goes through.
  std::vector<c10::IValue> run(std::vector<c10::IValue> values) const;

 private:
  void number_values();
  void find_last_uses();

  const int given_;
  const std::vector<Call> calls_;
  const std::vector<int> results_;
  int count_ = 0;                        ///< of values
  std::vector<std::vector<int>> dying_;  ///< by call
};

}  // namespace smex::runtime
