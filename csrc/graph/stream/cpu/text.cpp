#include <charconv>
#include <cstring>

#include "graph/stream/stream.h"

namespace smex::graph {
namespace {

const char* past_blanks(const char* at, const char* end) {
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\r')) ++at;
  return at;
}

/// Whether a line is `columns` numbers and nothing else.
bool parse_line(const char* at, const char* end, char delimiter, int64_t columns, int64_t* out) {
  for (int64_t c = 0; c < columns; ++c) {
    at = past_blanks(at, end);
    if (c > 0 && at < end && *at == delimiter) at = past_blanks(at + 1, end);
    const auto [after, error] = std::from_chars(at, end, out[c]);
    if (error != std::errc()) return false;
    const bool is_apart =
        after == end || *after == delimiter || *after == ' ' || *after == '\t' || *after == '\r';
    if (!is_apart) return false;
    at = after;
  }
  return past_blanks(at, end) == end;
}

}  // namespace

ParsedText parse_numbers(const char* text, int64_t size, char delimiter, int64_t columns,
                         int64_t* out) {
  ParsedText found;
  const char* const end = text + size;
  for (const char* line = text; line < end;) {
    const auto* const newline =
        static_cast<const char*>(std::memchr(line, '\n', static_cast<size_t>(end - line)));
    const char* const line_end = newline ? newline : end;
    const char* const begin = past_blanks(line, line_end);
    const bool is_empty = begin == line_end || *begin == '#' || *begin == '%';
    if (!is_empty) {
      if (!parse_line(begin, line_end, delimiter, columns, out + found.num_lines * columns)) {
        found.bad_place = line - text;
        return found;
      }
      ++found.num_lines;
    }
    line = line_end + 1;
  }
  return found;
}

}  // namespace smex::graph
