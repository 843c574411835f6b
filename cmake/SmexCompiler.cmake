# Language level, warnings, sanitizers and compiler cache shared by every native target.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(SMEX_CCACHE ccache)
mark_as_advanced(SMEX_CCACHE)
if(SMEX_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths below the sources are taken as relative, so that clones and build folders share results.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}"
    CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros "${SMEX_CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}")
endif()

# Compiler output through ninja keeps its colours only when asked to.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fdiagnostics-color=auto>)

# smex_warnings: for SMEX's own code; torch's headers are included as system headers.
add_library(smex_warnings INTERFACE)
target_compile_options(smex_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns of overlapping copies inside std::string's operator+ (GCC bug 105651), and of
  # members of a variant that it moves.
  target_compile_options(smex_warnings INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-maybe-uninitialized>")
endif()
if(SMEX_WERROR)
  target_compile_options(smex_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()

if(SMEX_SANITIZE)
  # -O1 is compiled as fast as -O0 and runs the searches' tests in half the time.
  add_compile_options(-fsanitize=${SMEX_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer -g -O1)
  add_link_options(-fsanitize=${SMEX_SANITIZE})
endif()
