# The C++ tests: every tests/cpp/**/<name>_test.cc is a program and a CTest test of its own. What the
# tests share lies in the other files of tests/cpp. CTest runs those called <name>_gpu_test.cc on the
# CUDA stand-in; started by hand, they take the GPU of the machine.

file(GLOB_RECURSE TFC_TEST_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/cpp/*.cc")
set(TFC_TEST_SHARED_SOURCES ${TFC_TEST_SOURCES})
list(FILTER TFC_TEST_SOURCES INCLUDE REGEX "_test\\.cc$")
list(FILTER TFC_TEST_SHARED_SOURCES EXCLUDE REGEX "_test\\.cc$")

add_library(tfc_testing STATIC
  $<TARGET_OBJECTS:tf_collectives_objects>
  $<TARGET_OBJECTS:tf_collectives_cuda_objects>
  ${TFC_TEST_SHARED_SOURCES})
target_include_directories(tfc_testing PUBLIC
  "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src"
  "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/tests/cpp")
target_link_libraries(tfc_testing PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(tfc_testing PROPERTIES LINKER_LANGUAGE CXX)
tfc_own_code(tfc_testing)

# This one compares declarations of ours with the headers in TensorFlow's wheel for GPUs.
set(TFC_DECLARATIONS_TEST "${PROJECT_SOURCE_DIR}/tests/cpp/cuda/declarations_test.cc")
set(TFC_CUDA_INCLUDE "${TFC_TF_DIR}/include/third_party/gpus/cuda/include")
set(TFC_NCCL_INCLUDE "${TFC_TF_DIR}/include/external/cuda_nccl/include")
if(EXISTS "${TFC_CUDA_INCLUDE}/cuda.h" AND EXISTS "${TFC_NCCL_INCLUDE}/nccl.h")
  set_source_files_properties("${TFC_DECLARATIONS_TEST}" PROPERTIES COMPILE_OPTIONS
    "-isystem;${TFC_CUDA_INCLUDE};-isystem;${TFC_NCCL_INCLUDE};-isystem;${TFC_TF_DIR}/include/external/cuda_cccl/libcudacxx/include")
else()
  list(REMOVE_ITEM TFC_TEST_SOURCES "${TFC_DECLARATIONS_TEST}")
  add_test(NAME cuda.declarations_test COMMAND "${CMAKE_COMMAND}" -E echo
    "Skipped: cuda.h and nccl.h aren't in the TensorFlow of this build ('${TFC_TF_DIR}').")
  set_tests_properties(cuda.declarations_test PROPERTIES SKIP_REGULAR_EXPRESSION "Skipped:")
endif()

foreach(source IN LISTS TFC_TEST_SOURCES)
  file(RELATIVE_PATH name "${PROJECT_SOURCE_DIR}/tests/cpp" "${source}")
  string(REGEX REPLACE "\\.cc$" "" name "${name}")
  string(REPLACE "/" "." target "${name}")
  add_executable(${target} "${source}")
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_link_libraries(${target} PRIVATE tfc_testing)
  tfc_own_code(${target})
  if(target MATCHES "_gpu_test$")
    list(APPEND TFC_GPU_TESTS ${target})
  else()
    add_test(NAME ${target} COMMAND ${target})
    set_tests_properties(${target} PROPERTIES TIMEOUT 120)
  endif()
endforeach()
