#include "kernels/pointwise/program.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "kernels/message/operation_table.h"
#include "kernels/message/text.h"

namespace smex::kernels {
namespace {

[[noreturn]] void fail(const std::string& text, const std::string& why) {
  throw std::invalid_argument("program \"" + text + "\": " + why);
}

/// Turns the formulas of a program into instructions, each distinct one once.
class Compiler {
 public:
  Compiler(const std::string& text, int num_operands, std::vector<Instruction>& code)
      : text_(text), code_(code), num_values_(num_operands) {
    for (int i = 0; i < num_operands; ++i) values_.push_back(i);
  }

  void add(const Message& formula) { values_.push_back(value_of(formula)); }

  /// Where the value is that the text has by this number.
  int value(int number) const {
    const int count = static_cast<int>(values_.size());
    if (number >= count)
      fail(text_, "expected the number of a value below " + std::to_string(count) + ", found \"" +
                      std::to_string(number) + "\"");
    return values_[number];
  }

  int num_values() const { return num_values_; }

 private:
  int value_of(const Message& m) {
    if (m->op == MessageOp::kOperand) return value(m->operand);
    const auto [known, is_new] = known_.emplace(to_string(m), 0);
    if (is_new) known->second = new_instruction(m);
    return known->second;
  }

  /// Of two one may be a number.
  int argument(const Message& m, Instruction& next) {
    if (m->op != MessageOp::kConstant) return value_of(m);
    next.value = m->value;
    return -1;
  }

  int new_instruction(const Message& m) {
    Instruction next{m->op, 0, -1, -1, m->value};
    if (m->op == MessageOp::kSumLast) {
      add_up(m->a, next);
    } else if (m->op != MessageOp::kConstant) {
      const Operation& called = operation_of(m->op);
      const bool takes_any = !called.takes_number && m->b;
      next.a = takes_any ? argument(m->a, next) : value_of(m->a);
      if (called.takes_number) next.value = m->b->value;
      if (takes_any) next.b = next.a < 0 ? value_of(m->b) : argument(m->b, next);
    }
    next.out = num_values_++;
    code_.push_back(next);
    return next.out;
  }

  /// Products and squares need not be there to be added up.
  void add_up(const Message& m, Instruction& next) {
    next.a = value_of(m);
    const auto made = std::find_if(code_.begin(), code_.end(),
                                   [&](const Instruction& step) { return step.out == next.a; });
    if (made == code_.end()) return;
    const Instruction factors = *made;
    const bool is_product = factors.op == MessageOp::kMul && factors.a >= 0 && factors.b >= 0;
    const bool is_square = factors.op == MessageOp::kPow && factors.value == 2;
    if (!is_product && !is_square) return;
    next.a = factors.a;
    next.b = is_square ? factors.a : factors.b;
  }

  const std::string& text_;
  std::vector<Instruction>& code_;
  int num_values_;
  std::vector<int> values_;
  std::map<std::string, int> known_;
};

/// Leaves out what no result is made of.
void drop_unused(PointwiseProgram& program, int num_values) {
  std::vector<bool> is_used(num_values);
  for (const int out : program.outs) is_used[out] = true;
  const auto is_dropped = [&](const Instruction& step) {
    if (!is_used[step.out]) return true;
    if (step.a >= 0) is_used[step.a] = true;
    if (step.b >= 0) is_used[step.b] = true;
    return false;
  };
  auto& code = program.code;
  code.erase(code.begin(), std::remove_if(code.rbegin(), code.rend(), is_dropped).base());
}

/// Gives values that are not needed at the same time the same slot.
void share_slots(PointwiseProgram& program, int num_values) {
  std::vector<int> last_use(num_values, -1), slot_of(num_values), free;
  for (size_t i = 0; i < program.code.size(); ++i) {
    for (const int value : {program.code[i].a, program.code[i].b})
      if (value >= 0) last_use[value] = static_cast<int>(i);
  }
  for (const int out : program.outs) last_use[out] = static_cast<int>(program.code.size());
  for (int i = 0; i < program.num_operands; ++i) slot_of[i] = i;
  program.num_slots = program.num_operands;
  for (size_t i = 0; i < program.code.size(); ++i) {
    Instruction& step = program.code[i];
    const int a = step.a, b = step.b, out = step.out;
    for (const int value : {a, b == a ? -1 : b}) {
      if (value >= program.num_operands && last_use[value] == static_cast<int>(i))
        free.push_back(slot_of[value]);
    }
    if (a >= 0) step.a = slot_of[a];
    if (b >= 0) step.b = slot_of[b];
    if (free.empty()) free.push_back(program.num_slots++);
    step.out = slot_of[out] = free.back();
    free.pop_back();
  }
  for (int& out : program.outs) out = slot_of[out];
}

}  // namespace

PointwiseProgram parse_pointwise(const std::string& text, int num_operands) {
  const PointwiseText read = parse_program(text);
  PointwiseProgram program;
  program.num_operands = num_operands;
  Compiler compiler(text, num_operands, program.code);
  for (const Message& formula : read.formulas) compiler.add(formula);
  for (const int result : read.results) program.outs.push_back(compiler.value(result));
  program.columns = read.columns;
  program.conditions = read.conditions;
  drop_unused(program, compiler.num_values());
  share_slots(program, compiler.num_values());
  const auto is_by_rows = [](const Instruction& step) {
    return step.op != MessageOp::kConstant && !operation_of(step.op).is_elementwise;
  };
  program.by_rows =
      std::any_of(program.code.begin(), program.code.end(), is_by_rows) ||
      std::find(program.columns.begin(), program.columns.end(), true) != program.columns.end();
  return program;
}

}  // namespace smex::kernels
