#pragma once

#include <string>

#include "tdl/spec.h"

namespace smex::tdl {

/// The full text of a spec, which `parse_spec` reads back:
///
///     index i=2, j=4, k=3
///     input [2,3], [3,4]
///     [i,j] = sum{k}(mul(#0[i,k], #1[k,j]))
///
/// A whole index is `kh=3!`, a padded read `#0{0}[n,oh+kh-1]`, an opaque `name<…>`, an output
/// without body `[i] = none`. Index expressions use functions too: `add(i, 1)`.
std::string print_spec(const Spec& spec);

/// Reads what `print_spec` wrote. Throws UserError with the position, what was expected and found.
Spec parse_spec(const std::string& text);

}  // namespace smex::tdl
