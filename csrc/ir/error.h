#pragma once

#include <stdexcept>
#include <string>

namespace smex {

/// The caller asked for something impossible; the text names the object, what was expected and
/// found.
class UserError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// SMEX broke one of its own invariants; the text is for a bug report.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace smex
