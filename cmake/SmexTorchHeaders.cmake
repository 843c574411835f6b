# smex_use_torch_headers(target): gives a target torch's headers in compiled form.
#
# They take longer to read than most files that include them take to compile. Files still include
# what they use, so that they compile without this too (SMEX_PRECOMPILED_HEADERS=OFF).

option(SMEX_PRECOMPILED_HEADERS "Read torch's headers once for all files" ON)

if(SMEX_PRECOMPILED_HEADERS)
  # A target of its own, with the definitions that all who use it have.
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/torch_headers.cpp" CONTENT "" @ONLY)
  add_library(smex_torch_headers OBJECT "${PROJECT_BINARY_DIR}/torch_headers.cpp")
  target_link_libraries(smex_torch_headers PRIVATE TorchLibs::torch smex_warnings)
  if(SMEX_WITH_CUDA)
    target_link_libraries(smex_torch_headers PRIVATE smex_cuda)
  endif()
  set(_headers
    ATen/Parallel.h ATen/TensorOperators.h ATen/core/Tensor.h ATen/core/dispatch/Dispatcher.h
    ATen/ops/empty.h ATen/ops/empty_like.h torch/csrc/autograd/custom_function.h torch/library.h)
  list(TRANSFORM _headers REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>")
  target_precompile_headers(smex_torch_headers PRIVATE ${_headers})
endif()

function(smex_use_torch_headers target)
  if(SMEX_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} REUSE_FROM smex_torch_headers)
  endif()
endfunction()
