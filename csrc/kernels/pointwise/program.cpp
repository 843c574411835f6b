#include "kernels/pointwise/program.h"

#include <sstream>
#include <stdexcept>

#include "kernels/message/names.h"

namespace smex::kernels {
namespace {

[[noreturn]] void fail(const std::string& text, const std::string& why) {
  throw std::invalid_argument("program \"" + text + "\": " + why);
}

/// The values of a program in the order of the text, each made once.
class Reader {
 public:
  Reader(const std::string& text, int num_operands) : text_(text), values_(num_operands) {}

  Instruction call(const std::string& part) {
    std::istringstream words(part);
    std::string name, word;
    words >> name;
    Instruction found;
    int arguments = 0;
    if (!find_op(name, found.op, arguments)) fail(text_, "there is no operation \"" + name + "\"");
    int read = 0;
    for (; words >> word; ++read) {
      if (word[0] == '=') {
        const int place = found.op == MessageOp::kConstant ? 0 : takes_number(found.op) ? 1 : -1;
        if (read != place)
          fail(text_, name + " takes no number as argument " + std::to_string(read));
        found.value = number(word.substr(1));
      } else {
        (read == 0 ? found.a : found.b) = value(word);
      }
    }
    if (takes_number(found.op) && found.b >= 0) fail(text_, name + " takes a number, as =0.5");
    if (read != arguments)
      fail(text_, "expected " + std::to_string(arguments) + " arguments of " + name + ", found " +
                      std::to_string(read));
    found.out = values_++;
    return found;
  }

  int value(const std::string& word) const {
    size_t used = 0;
    int found = -1;
    try {
      found = std::stoi(word, &used);
    } catch (const std::exception&) {
      used = 0;
    }
    if (used != word.size() || found < 0 || found >= values_)
      fail(text_, "expected the number of a value below " + std::to_string(values_) + ", found \"" +
                      word + "\"");
    return found;
  }

  int num_values() const { return values_; }

 private:
  double number(const std::string& word) const {
    std::istringstream stream(word);
    stream.imbue(std::locale::classic());
    double found = 0;
    if (!(stream >> found)) fail(text_, "expected a number, found \"" + word + "\"");
    return found;
  }

  const std::string& text_;
  int values_;
};

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
  const size_t arrow = text.find('>');
  if (arrow == std::string::npos) fail(text, "expected \">\" and the numbers of the results");
  PointwiseProgram program;
  program.num_operands = num_operands;
  Reader reader(text, num_operands);
  std::istringstream calls(text.substr(0, arrow));
  for (std::string part; std::getline(calls, part, ';');) program.code.push_back(reader.call(part));
  std::istringstream outs(text.substr(arrow + 1));
  for (std::string word; outs >> word;) program.outs.push_back(reader.value(word));
  if (program.outs.empty()) fail(text, "expected the numbers of the results behind \">\"");
  share_slots(program, reader.num_values());
  return program;
}

}  // namespace smex::kernels
