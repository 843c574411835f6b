#pragma once
#include <algorithm>

// What a test leaves out under a sanitizer, where it takes some thirty times as long: the plain
// build runs all of it.

namespace smex::test {

#ifdef __SANITIZE_ADDRESS__
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// The number of random cases to try, of `cases` in the plain build.
constexpr int random_cases(int cases) { return kSanitized ? std::max(cases / 10, 1) : cases; }

}  // namespace smex::test
