# smex_simd_sources(target file.cpp ... [OPTIMISE -O3]): compiles each file once for every
# instruction set that a CPU kernel is chosen for when the program runs (csrc/kernels/cpu/isa.h).
#
# The file puts all it defines into the namespace SMEX_ISA, whose name is set here.

string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" _processor)
if(_processor MATCHES "x86_64|amd64")
  set(SMEX_SIMD_SETS default avx2 avx512)
  set(_flags_avx2 -mavx2 -mfma -mf16c)
  set(_flags_avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl
                    -mprefer-vector-width=512)
else()
  set(SMEX_SIMD_SETS default)
endif()

# What must be wide is written with vectors, and -O3's copies of loops take twice as long to compile
# without being faster; loops that the compiler makes wide are worth it as they are to -O3. Sums of
# rows are a tenth faster with -O3. Processors without AVX2 are from before 2013. Sanitizers make
# these files slow to compile, and they are not for speed.
function(smex_simd_optimise isa wanted out)
  if(SMEX_SANITIZE)
    set(level -O0)
  elseif(isa STREQUAL "default" AND _flags_avx2)
    set(level -O1)
  elseif(wanted)
    set(level "${wanted}")
  else()
    set(level -O2 -fvect-cost-model=dynamic)
  endif()
  set(${out} "${level}" PARENT_SCOPE)
endfunction()

function(smex_simd_sources target)
  cmake_parse_arguments(arg "" "OPTIMISE" "" ${ARGN})
  foreach(file IN LISTS arg_UNPARSED_ARGUMENTS)
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    cmake_path(GET file STEM name)
    foreach(isa IN LISTS SMEX_SIMD_SETS)
      smex_simd_optimise(${isa} "${arg_OPTIMISE}" optimise)
      set(unit "${CMAKE_CURRENT_BINARY_DIR}/${name}.${isa}.cpp")
      file(CONFIGURE OUTPUT "${unit}" CONTENT "#include \"${file}\"\n" @ONLY)
      # Contracting to fused multiply-adds is what the instruction sets are for; -Wpsabi warns of
      # vectors passed between functions, which are all inlined; GCC 12's own headers are taken for
      # uninitialised, and an anonymous namespace of an included file for a mistake.
      set_source_files_properties("${unit}" TARGET_DIRECTORY ${target} PROPERTIES
        COMPILE_DEFINITIONS "SMEX_ISA=isa_${isa}"
        COMPILE_OPTIONS "${optimise};-fno-math-errno;-fno-trapping-math;-Wno-psabi;-Wno-maybe-uninitialized;-Wno-uninitialized;-Wno-subobject-linkage;${_flags_${isa}}")
      target_sources(${target} PRIVATE "${unit}")
    endforeach()
  endforeach()
endfunction()
