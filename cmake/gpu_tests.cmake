# Runs the tests that need a GPU on the CUDA stand-in, where there is one.

if(NOT TARGET cuda_standin_driver)
  return()
endif()
foreach(target IN LISTS TFC_GPU_TESTS)
  add_dependencies(${target} cuda_standin_driver cuda_standin_nccl cuda_standin_kernels)
  add_test(NAME ${target} COMMAND ${target})
  set_tests_properties(${target} PROPERTIES
    TIMEOUT 120
    ENVIRONMENT "LD_LIBRARY_PATH=${TFC_CUDA_STANDIN_DIR};CUDA_STANDIN_KERNELS=$<TARGET_FILE:cuda_standin_kernels>;CUDA_STANDIN_JITTER_US=200")
endforeach()
