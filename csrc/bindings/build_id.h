#pragma once

#include <string>

namespace smex::bindings {

/// What the linker wrote into this library to tell it from every other build of it (the GNU build
/// id), in hexadecimal; empty where the linker writes none.
std::string build_id();

}  // namespace smex::bindings
