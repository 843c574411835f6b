#include "runtime/processes/failure.h"

#include <array>

#include "ir/error.h"
#include "runtime/processes/fields.h"

namespace smex::runtime {
namespace {
constexpr std::array kKindNames{"raised", "gone", "silent", "store", "absent", "left"};
}

std::string Failure::message() const {
  if (kind != Kind::kRaised) return text;
  std::string message = "rank " + std::to_string(rank) + " failed";
  if (!where.empty()) message += " in " + where;
  return message + ": " + text;
}

const char* name(Failure::Kind kind) { return kKindNames.at(static_cast<size_t>(kind)); }

std::string encode(const Failure& failure) {
  std::string where = failure.where;  // the text comes last and may hold anything
  for (char& c : where) {
    if (c == kFieldEnd) c = ' ';
  }
  return join_fields({name(failure.kind), std::to_string(failure.rank), where, failure.text});
}

Failure decode(const std::string& text) {
  const std::vector<std::string> fields = split_fields(text, 4);
  for (size_t kind = 0; kind < kKindNames.size() && fields.size() == 4; ++kind) {
    if (fields[0] != kKindNames[kind]) continue;
    return {std::stoi(fields[1]), fields[2], fields[3], static_cast<Failure::Kind>(kind)};
  }
  throw InternalError("Watcher: the store holds \"" + text + "\" in place of a failure");
}

}  // namespace smex::runtime
