# Finds the torch of the given Python interpreter: headers, libraries, version.
#
# TorchConfig.cmake is not used: with a CUDA build of torch it insists on a whole CUDA toolkit of
# torch's own version, which compiling SMEX does not need.
#
# Input    Python_EXECUTABLE
# Targets  TorchLibs::torch   headers, libc10, libtorch_cpu, libtorch, torch's OpenMP runtime
#          TorchLibs::python  TorchLibs::torch and libtorch_python
#          TorchLibs::cuda    libc10_cuda, libtorch_cuda; only with a CUDA build of torch
#          TorchLibs::pybind11  the pybind11 headers that torch ships, and nothing else of torch
# Output   TorchLibs_VERSION (2.15.0), TorchLibs_FULL_VERSION (2.15.0+cu132),
#          TorchLibs_CUDA_VERSION (13.2, or empty for a CPU build)

# Reads torch/version.py without importing torch: a hundred times faster, and no GPU is touched.
set(_torch_query [[
import importlib.util, pathlib, runpy, sys
spec = importlib.util.find_spec("torch")
if spec is None or spec.origin is None:
    sys.exit("torch is not installed for " + sys.executable)
root = pathlib.Path(spec.origin).parent
version = runpy.run_path(str(root / "version.py"))
print(root.as_posix(), version["__version__"], version["cuda"] or "", sep="|", end="")
]])
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c "${_torch_query}"
  OUTPUT_VARIABLE _torch_facts ERROR_VARIABLE _torch_error RESULT_VARIABLE _torch_rc)
if(_torch_rc EQUAL 0)
  string(REPLACE "|" ";" _torch_facts "${_torch_facts}")
  list(GET _torch_facts 0 TorchLibs_ROOT)
  list(GET _torch_facts 1 TorchLibs_FULL_VERSION)
  list(GET _torch_facts 2 TorchLibs_CUDA_VERSION)
  string(REGEX MATCH "^[0-9.]*[0-9]" TorchLibs_VERSION "${TorchLibs_FULL_VERSION}")
  # A torch exchanged for another one re-runs CMake.
  set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
               "${TorchLibs_ROOT}/version.py")
  set(TorchLibs_INCLUDE_DIRS "${TorchLibs_ROOT}/include"
                             "${TorchLibs_ROOT}/include/torch/csrc/api/include")
  foreach(_name c10 torch_cpu torch torch_python c10_cuda torch_cuda)
    # No cache entry: the paths must follow the interpreter.
    unset(_torch_lib)
    find_library(_torch_lib ${_name} PATHS "${TorchLibs_ROOT}/lib" NO_DEFAULT_PATH NO_CACHE)
    set(TorchLibs_${_name}_LIBRARY "${_torch_lib}")
  endforeach()
  # at::parallel_for must drive the OpenMP runtime that torch itself has loaded: a second one would
  # keep its own threads and ignore torch.set_num_threads.
  file(GLOB _torch_gomp "${TorchLibs_ROOT}/lib/libgomp*.so*" "${TorchLibs_ROOT}.libs/libgomp*.so*")
  list(POP_FRONT _torch_gomp TorchLibs_OPENMP_LIBRARY)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  TorchLibs
  REQUIRED_VARS TorchLibs_ROOT TorchLibs_c10_LIBRARY TorchLibs_torch_cpu_LIBRARY
                TorchLibs_torch_python_LIBRARY
  VERSION_VAR TorchLibs_VERSION
  REASON_FAILURE_MESSAGE "${_torch_error}")

if(TorchLibs_FOUND AND NOT TARGET TorchLibs::torch)
  add_library(TorchLibs::torch INTERFACE IMPORTED)
  target_include_directories(TorchLibs::torch SYSTEM INTERFACE ${TorchLibs_INCLUDE_DIRS})
  target_compile_definitions(TorchLibs::torch INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
  target_compile_features(TorchLibs::torch INTERFACE cxx_std_20)
  target_link_libraries(TorchLibs::torch INTERFACE
    ${TorchLibs_c10_LIBRARY} ${TorchLibs_torch_cpu_LIBRARY} ${TorchLibs_torch_LIBRARY})
  if(TorchLibs_OPENMP_LIBRARY)
    target_compile_options(TorchLibs::torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
    target_link_libraries(TorchLibs::torch INTERFACE ${TorchLibs_OPENMP_LIBRARY})
  else()
    find_package(OpenMP REQUIRED COMPONENTS CXX)
    target_link_libraries(TorchLibs::torch INTERFACE OpenMP::OpenMP_CXX)
  endif()

  add_library(TorchLibs::python INTERFACE IMPORTED)
  target_link_libraries(TorchLibs::python INTERFACE
    TorchLibs::torch ${TorchLibs_torch_python_LIBRARY})

  if(TorchLibs_CUDA_VERSION AND TorchLibs_torch_cuda_LIBRARY)
    add_library(TorchLibs::cuda INTERFACE IMPORTED)
    target_link_libraries(TorchLibs::cuda INTERFACE
      TorchLibs::torch ${TorchLibs_c10_cuda_LIBRARY} ${TorchLibs_torch_cuda_LIBRARY})
  endif()

  # A folder that holds pybind11 alone, so that torch-free bindings cannot include torch by accident.
  file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/pybind11_only")
  file(CREATE_LINK "${TorchLibs_ROOT}/include/pybind11"
                   "${PROJECT_BINARY_DIR}/pybind11_only/pybind11" SYMBOLIC)
  add_library(TorchLibs::pybind11 INTERFACE IMPORTED)
  target_include_directories(TorchLibs::pybind11 SYSTEM INTERFACE
    "${PROJECT_BINARY_DIR}/pybind11_only")
endif()
