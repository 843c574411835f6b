#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace smex::runtime {

/// Between the fields of what processes tell each other through the store.
inline constexpr char kFieldEnd = '\x1f';

inline std::string join_fields(const std::vector<std::string>& fields) {
  std::string text;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) text += kFieldEnd;
    text += fields[i];
  }
  return text;
}

/// At most `limit` fields, of which the last has the rest.
inline std::vector<std::string> split_fields(std::string_view text, size_t limit) {
  std::vector<std::string> fields;
  while (fields.size() + 1 < limit) {
    const size_t end = text.find(kFieldEnd);
    if (end == std::string_view::npos) break;
    fields.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  fields.emplace_back(text);
  return fields;
}

}  // namespace smex::runtime
