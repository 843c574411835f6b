#include "tdl/linear.h"

#include <cmath>

namespace smex::tdl {

int64_t floor_div(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
}

namespace {

void add_term(Linear& linear, const Term& term) {
  for (auto it = linear.terms.begin(); it != linear.terms.end(); ++it) {
    if (!(it->atom == term.atom)) continue;
    it->coefficient += term.coefficient;
    if (it->coefficient == 0) linear.terms.erase(it);
    return;
  }
  if (term.coefficient != 0) linear.terms.push_back(term);
}

Linear sum(Linear a, const Linear& b, int64_t scale) {
  a.offset += b.offset * scale;
  for (Term term : b.terms) {
    term.coefficient *= scale;
    add_term(a, term);
  }
  return a;
}

Linear constant(int64_t value) {
  Linear linear;
  linear.offset = value;
  return linear;
}

Linear single(Atom atom) {
  Linear linear;
  linear.terms.push_back({1, std::move(atom)});
  return linear;
}

Interval full_range(const Linear& linear, const std::vector<Index>& indices) {
  IndexRanges ranges;
  for (const Index& index : indices) ranges.push_back({0, index.extent});
  return range_of(linear, ranges);
}

std::optional<Linear> divided(const Linear& inner, int64_t divisor, bool quotient,
                              const std::vector<Index>& indices) {
  if (divisor <= 0) return std::nullopt;
  if (divisor == 1) return quotient ? inner : constant(0);
  if (inner.terms.empty()) {
    const int64_t q = floor_div(inner.offset, divisor);
    return constant(quotient ? q : inner.offset - q * divisor);
  }
  const Interval range = full_range(inner, indices);
  if (!range.empty() && range.lo >= 0 && range.hi <= divisor) {
    return quotient ? constant(0) : inner;
  }
  Atom atom;
  atom.kind = quotient ? Atom::Kind::kDiv : Atom::Kind::kMod;
  atom.inner = std::make_shared<const Linear>(inner);
  atom.divisor = divisor;
  return single(std::move(atom));
}

Interval range_of(const Atom& atom, const IndexRanges& ranges) {
  if (atom.kind == Atom::Kind::kIndex) return ranges[atom.index];
  const Interval inner = range_of(*atom.inner, ranges);
  const int64_t first = floor_div(inner.lo, atom.divisor);
  const int64_t last = floor_div(inner.hi - 1, atom.divisor);
  if (atom.kind == Atom::Kind::kDiv) {
    return inner.empty() ? Interval{first, first} : Interval{first, last + 1};
  }
  const int64_t lo = inner.lo - first * atom.divisor;
  if (inner.empty()) return {lo, lo};
  if (first == last) return {lo, lo + inner.size()};
  return {0, atom.divisor};
}

}  // namespace

bool Atom::mentions(int wanted) const {
  return kind == Kind::kIndex ? index == wanted : inner->mentions(wanted);
}

bool Atom::operator==(const Atom& other) const {
  if (kind != other.kind) return false;
  if (kind == Kind::kIndex) return index == other.index;
  return divisor == other.divisor && *inner == *other.inner;
}

bool Linear::mentions(int index) const {
  for (const Term& term : terms) {
    if (term.atom.mentions(index)) return true;
  }
  return false;
}

std::optional<Linear> linear_form(const Expr& expr, const std::vector<Index>& indices) {
  if (expr.kind == ExprKind::kConst) {
    if (expr.value != std::floor(expr.value)) return std::nullopt;
    return constant(static_cast<int64_t>(expr.value));
  }
  if (expr.kind == ExprKind::kIndex) {
    Atom atom;
    atom.index = expr.index;
    return single(std::move(atom));
  }
  if (expr.kind != ExprKind::kCall || expr.args.empty() || expr.args.size() > 2)
    return std::nullopt;
  const auto a = linear_form(*expr.args[0], indices);
  if (!a) return std::nullopt;
  if (expr.name == "neg") return sum(Linear{}, *a, -1);
  if (expr.args.size() != 2) return std::nullopt;
  const auto b = linear_form(*expr.args[1], indices);
  if (!b) return std::nullopt;
  if (expr.name == "add") return sum(*a, *b, 1);
  if (expr.name == "sub") return sum(*a, *b, -1);
  if (expr.name == "mul" && b->terms.empty()) return sum(Linear{}, *a, b->offset);
  if (expr.name == "mul" && a->terms.empty()) return sum(Linear{}, *b, a->offset);
  if (!b->terms.empty()) return std::nullopt;
  if (expr.name == "floordiv") return divided(*a, b->offset, /*quotient=*/true, indices);
  if (expr.name == "mod") return divided(*a, b->offset, /*quotient=*/false, indices);
  return std::nullopt;
}

Interval range_of(const Linear& linear, const IndexRanges& ranges) {
  int64_t lo = linear.offset;
  int64_t last = linear.offset;
  bool empty = false;
  for (const Term& term : linear.terms) {
    const Interval range = range_of(term.atom, ranges);
    empty = empty || range.empty();
    const int64_t at_first = term.coefficient * range.lo;
    const int64_t at_last = range.empty() ? at_first : term.coefficient * (range.hi - 1);
    lo += std::min(at_first, at_last);
    last += std::max(at_first, at_last);
  }
  return empty ? Interval{lo, lo} : Interval{lo, last + 1};
}

}  // namespace smex::tdl
