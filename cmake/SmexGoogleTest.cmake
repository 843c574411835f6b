# Finds GoogleTest, or fetches it. Sets SMEX_HAVE_GTEST; with it the target GTest::gtest exists.
#
# In order: an installed package; the sources that Debian's googletest package unpacks; the sources
# inside the PyPI package ros-gtest-vendor; the project's release archive. The last two only with
# SMEX_DOWNLOADS.

option(SMEX_DOWNLOADS "Fetch GoogleTest where it is not installed" ON)
set(_gtest_url "https://github.com/google/googletest/archive/refs/tags/v1.14.0.tar.gz")
set(_gtest_sha256 8ad598c73ad796e0d8280b082cebd82a630d73e73cd3c70057938a6501bba5d7)

# Builds the library from the folder that holds include/gtest and src/gtest-all.cc.
function(smex_gtest_from_sources folder)
  add_library(smex_gtest STATIC "${folder}/src/gtest-all.cc")
  target_include_directories(smex_gtest SYSTEM PUBLIC "${folder}/include" PRIVATE "${folder}")
  find_package(Threads REQUIRED)
  target_link_libraries(smex_gtest PUBLIC Threads::Threads)
  add_library(GTest::gtest ALIAS smex_gtest)
  message(STATUS "GoogleTest: built from ${folder}")
endfunction()

# The path of GoogleTest's sources inside a folder, or empty.
function(smex_gtest_locate root out)
  file(GLOB_RECURSE found "${root}/gtest-all.cc")
  set(${out} "" PARENT_SCOPE)
  if(found)
    list(GET found 0 first)
    cmake_path(GET first PARENT_PATH first)
    cmake_path(GET first PARENT_PATH first)
    set(${out} "${first}" PARENT_SCOPE)
  endif()
endfunction()

# The wheel's sources do not depend on the Python it is tagged for.
function(smex_gtest_from_pypi folder)
  find_package(Python QUIET COMPONENTS Interpreter)
  if(NOT Python_Interpreter_FOUND)
    return()
  endif()
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -m pip --quiet --disable-pip-version-check download --no-deps
            --only-binary=:all: --python-version 3.11 --platform manylinux_2_28_x86_64
            --dest "${folder}" ros-gtest-vendor==1.15.1
    OUTPUT_QUIET ERROR_QUIET TIMEOUT 120)
  file(GLOB wheel "${folder}/*.whl")
  if(wheel)
    file(ARCHIVE_EXTRACT INPUT ${wheel} DESTINATION "${folder}")
  endif()
endfunction()

function(smex_gtest_from_release folder)
  file(DOWNLOAD "${_gtest_url}" "${folder}/googletest.tar.gz" STATUS status TIMEOUT 60)
  list(GET status 0 code)
  if(NOT code EQUAL 0)
    return()
  endif()
  file(SHA256 "${folder}/googletest.tar.gz" sha256)
  if(sha256 STREQUAL _gtest_sha256)
    file(ARCHIVE_EXTRACT INPUT "${folder}/googletest.tar.gz" DESTINATION "${folder}")
  endif()
endfunction()

set(SMEX_HAVE_GTEST ON)
find_package(GTest QUIET)
if(TARGET GTest::gtest)
  message(STATUS "GoogleTest: ${GTest_DIR}")
elseif(EXISTS /usr/src/googletest/googletest/src/gtest-all.cc)
  smex_gtest_from_sources(/usr/src/googletest/googletest)
else()
  set(_gtest_folder "${PROJECT_BINARY_DIR}/googletest")
  smex_gtest_locate("${_gtest_folder}" _gtest_sources)
  foreach(_origin pypi release)
    # Tried once in a build folder: without a network each attempt may wait for its time limit.
    if(SMEX_DOWNLOADS AND NOT _gtest_sources AND NOT SMEX_GTEST_TRIED_${_origin})
      set(SMEX_GTEST_TRIED_${_origin} ON CACHE INTERNAL "")
      cmake_language(CALL smex_gtest_from_${_origin} "${_gtest_folder}")
      smex_gtest_locate("${_gtest_folder}" _gtest_sources)
    endif()
  endforeach()
  if(_gtest_sources)
    smex_gtest_from_sources("${_gtest_sources}")
  else()
    set(SMEX_HAVE_GTEST OFF)
  endif()
endif()
