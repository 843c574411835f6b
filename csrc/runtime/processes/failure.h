#pragma once

#include <stdexcept>
#include <string>

namespace smex::runtime {

/// What ended the work of several processes.
struct Failure {
  enum class Kind {
    kRaised,  ///< a rank met an error of its own
    kGone,    ///< a rank's process is gone, without a goodbye
    kSilent,  ///< a rank has stopped to answer
    kStore,   ///< the store through which the ranks speak is gone
    kAbsent,  ///< a rank has never come
    kLeft,    ///< a rank has ended in good order while others wait for it
  };

  int rank = -1;      ///< whose fault it is; -1 where nobody knows
  std::string where;  ///< the instruction that failed, or empty
  std::string text;   ///< the error's own text
  Kind kind = Kind::kRaised;

  /// A sentence for the user.
  std::string message() const;
};

/// "raised", "gone", "silent", "store", "absent" or "left".
const char* name(Failure::Kind kind);

/// As one string, and back; `decode` throws InternalError for what `encode` has not made.
std::string encode(const Failure& failure);
Failure decode(const std::string& text);

/// Becomes smex.RankFailure in Python.
class RankFailure : public std::runtime_error {
 public:
  explicit RankFailure(Failure failure)
      : std::runtime_error(failure.message()), failure(std::move(failure)) {}

  Failure failure;
};

}  // namespace smex::runtime
