#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tdl/spec.h"

namespace smex::tdl {

struct Linear;

/// What a Linear multiplies: an index, or the quotient or remainder of a Linear by a positive
/// constant.
struct Atom {
  enum class Kind { kIndex, kDiv, kMod } kind = Kind::kIndex;
  int index = -1;                       ///< kIndex
  std::shared_ptr<const Linear> inner;  ///< kDiv, kMod
  int64_t divisor = 1;                  ///< kDiv, kMod

  bool mentions(int index) const;
  bool operator==(const Atom& other) const;
};

struct Term {
  int64_t coefficient = 0;
  Atom atom;
  bool operator==(const Term&) const = default;
};

/// `offset + Σ coefficient · atom`, equal atoms merged and none with coefficient 0.
struct Linear {
  int64_t offset = 0;
  std::vector<Term> terms;

  bool mentions(int index) const;
  bool operator==(const Linear&) const = default;
};

/// The quotient rounded down.
int64_t floor_div(int64_t a, int64_t b);

/// The normal form of an index expression; nothing when it depends on data or is not of this form.
/// Quotients and remainders that the indices' extents make trivial are simplified away.
std::optional<Linear> linear_form(const Expr& expr, const std::vector<Index>& indices);

/// The values that the form takes: exact for affine forms, quotients of them, and remainders whose
/// operand stays in one block or covers a whole one. Empty, at its lower corner, when an index it
/// uses is empty.
Interval range_of(const Linear& linear, const IndexRanges& ranges);

}  // namespace smex::tdl
