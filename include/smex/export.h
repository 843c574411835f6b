#pragma once

/// Marks what the library offers; all else in it is hidden.
#if defined(__GNUC__)
#define SMEX_API __attribute__((visibility("default")))
#else
#define SMEX_API
#endif
