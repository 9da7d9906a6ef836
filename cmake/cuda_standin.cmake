# The CUDA stand-in of tests/cuda_standin: libraries with the names of CUDA's, for tests alone. Nothing
# here is installed. It is built with the CUDA headers of TensorFlow's GPU wheel, so that each of its
# functions has the signature that TensorFlow calls.

set(TFC_BUILD_CUDA_STANDIN "AUTO" CACHE STRING
  "Build the CUDA stand-in: ON, OFF, or AUTO for where the TensorFlow to build for has CUDA's headers")
set_property(CACHE TFC_BUILD_CUDA_STANDIN PROPERTY STRINGS AUTO ON OFF)
if(TFC_BUILD_CUDA_STANDIN STREQUAL "AUTO" AND NOT EXISTS "${TFC_TF_DIR}/include/xla/tsl/cuda/nccl.inc")
  message(STATUS "No CUDA stand-in: it needs the headers of TensorFlow's GPU wheel")
  return()
elseif(NOT TFC_BUILD_CUDA_STANDIN)
  return()
elseif(NOT TFC_TF_DIR)
  include(cmake/tensorflow.cmake)
endif()

set(TFC_CUDA_INCLUDE "${TFC_TF_DIR}/include/third_party/gpus/cuda/include")
set(TFC_NCCL_INCLUDE "${TFC_TF_DIR}/include/external/cuda_nccl/include")
set(TFC_CCCL_INCLUDE "${TFC_TF_DIR}/include/external/cuda_cccl/libcudacxx/include")
set(TFC_CUDA_SYMBOLS "${TFC_TF_DIR}/include/xla/tsl/cuda")
set(TFC_CUDA_STANDIN_SOURCE "${PROJECT_SOURCE_DIR}/tests/cuda_standin")
set(TFC_CUDA_STANDIN_DIR "${PROJECT_BINARY_DIR}/cuda_standin")

# A stub of each function that TensorFlow knows in the library. They are weak, so what the library's own
# sources define takes their place.
function(tfc_cuda_stubs source library symbols failure)
  file(STRINGS "${TFC_CUDA_SYMBOLS}/${symbols}.inc" lines REGEX "^ *\"[A-Za-z_0-9]+\",?$")
  set(text "extern \"C\" int cuda_standin_missing(const char* library, const char* function, int result);\n")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "[A-Za-z_0-9]+" name "${line}")
    string(APPEND text "extern \"C\" __attribute__((weak, visibility(\"default\"))) ")
    if(name MATCHES "(Error|Status|Result)(Name|String)$")
      string(APPEND text "const char* ${name}() { return \"not supported by the CUDA stand-in\"; }\n")
    else()
      string(APPEND text
        "int ${name}() { return cuda_standin_missing(\"${library}\", \"${name}\", ${failure}); }\n")
    endif()
  endforeach()
  file(CONFIGURE OUTPUT "${source}" CONTENT "${text}" @ONLY)
endfunction()

# tfc_cuda_library(TARGET FILE_NAME VERSION SYMBOLS FAILURE source...)
function(tfc_cuda_library target name version symbols failure)
  set(stubs "${PROJECT_BINARY_DIR}/cuda_standin_stubs/${name}.cc")
  tfc_cuda_stubs("${stubs}" "lib${name}.so.${version}" "${symbols}" "${failure}")
  add_library(${target} SHARED ${ARGN} "${stubs}")
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME "${name}"
    VERSION "${version}"
    SOVERSION "${version}"
    LIBRARY_OUTPUT_DIRECTORY "${TFC_CUDA_STANDIN_DIR}")
  target_include_directories(${target} PRIVATE "${TFC_CUDA_STANDIN_SOURCE}")
  target_include_directories(${target} SYSTEM PRIVATE
    "${TFC_CUDA_INCLUDE}" "${TFC_NCCL_INCLUDE}" "${TFC_CCCL_INCLUDE}")
  target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  # TensorFlow exports stubs under CUDA's names, which calls among our own functions must not reach.
  target_link_options(${target} PRIVATE -Wl,-Bsymbolic)
  tfc_own_code(${target})
  if(NOT target STREQUAL "cuda_standin_driver")
    target_link_libraries(${target} PRIVATE cuda_standin_driver)
  endif()
endfunction()

file(GLOB TFC_CUDA_STANDIN_DRIVER CONFIGURE_DEPENDS
  "${TFC_CUDA_STANDIN_SOURCE}/common/*.cc" "${TFC_CUDA_STANDIN_SOURCE}/driver/*.cc")
file(GLOB TFC_CUDA_STANDIN_RUNTIME CONFIGURE_DEPENDS "${TFC_CUDA_STANDIN_SOURCE}/runtime/*.cc")
file(GLOB TFC_CUDA_STANDIN_NCCL CONFIGURE_DEPENDS "${TFC_CUDA_STANDIN_SOURCE}/nccl/*.cc")

# The numbers are what each library returns for "not supported".
tfc_cuda_library(cuda_standin_driver cuda 1 cuda 801 ${TFC_CUDA_STANDIN_DRIVER})
tfc_cuda_library(cuda_standin_runtime cudart 12 cudart 801 ${TFC_CUDA_STANDIN_RUNTIME})
tfc_cuda_library(cuda_standin_nccl nccl 2 nccl 5 ${TFC_CUDA_STANDIN_NCCL})
tfc_cuda_library(cuda_standin_nvml nvidia-ml 1 nvml 3 "${TFC_CUDA_STANDIN_SOURCE}/others/nvml.cc")
tfc_cuda_library(cuda_standin_cudnn cudnn 9 cudnn 3000 "${TFC_CUDA_STANDIN_SOURCE}/others/cudnn.cc")
tfc_cuda_library(cuda_standin_cublas cublas 12 cublas 15)
tfc_cuda_library(cuda_standin_cublaslt cublasLt 12 cublasLt 15)
tfc_cuda_library(cuda_standin_cufft cufft 11 cufft 16)
tfc_cuda_library(cuda_standin_cusolver cusolver 11 cusolver 7)
tfc_cuda_library(cuda_standin_cusparse cusparse 12 cusparse 10)

# TensorFlow's own symbols have this version.
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/cuda_standin_stubs/cudart.map"
  CONTENT "libcudart.so.12 { global: *; };\n")
target_link_options(cuda_standin_runtime PRIVATE
  "-Wl,--version-script=${PROJECT_BINARY_DIR}/cuda_standin_stubs/cudart.map")

# The kernels of tf_collectives, compiled for the CPU.
add_library(cuda_standin_kernels MODULE "${PROJECT_SOURCE_DIR}/tests/cuda_kernels/standin_kernels.cc")
set_target_properties(cuda_standin_kernels PROPERTIES
  OUTPUT_NAME "tf_collectives_kernels"
  LIBRARY_OUTPUT_DIRECTORY "${TFC_CUDA_STANDIN_DIR}")
target_include_directories(cuda_standin_kernels PRIVATE
  "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
tfc_own_code(cuda_standin_kernels)

# The tests of the stand-in itself.
add_library(cuda_standin_test_kernels MODULE "${TFC_CUDA_STANDIN_SOURCE}/tests/kernels_for_tests.cc")
set_target_properties(cuda_standin_test_kernels PROPERTIES
  OUTPUT_NAME "test_kernels"
  LIBRARY_OUTPUT_DIRECTORY "${TFC_CUDA_STANDIN_DIR}")
target_include_directories(cuda_standin_test_kernels PRIVATE "${TFC_CUDA_STANDIN_SOURCE}")
tfc_own_code(cuda_standin_test_kernels)

add_library(cuda_standin_testing STATIC
  "${TFC_CUDA_STANDIN_SOURCE}/tests/support.cc" "${PROJECT_SOURCE_DIR}/tests/cpp/testing.cc")
target_include_directories(cuda_standin_testing PUBLIC "${TFC_CUDA_STANDIN_SOURCE}" "${PROJECT_SOURCE_DIR}/tests/cpp")
target_include_directories(cuda_standin_testing SYSTEM PUBLIC
  "${TFC_CUDA_INCLUDE}" "${TFC_NCCL_INCLUDE}" "${TFC_CCCL_INCLUDE}")
target_compile_definitions(cuda_standin_testing PUBLIC
  "TEST_KERNELS=\"$<TARGET_FILE:cuda_standin_test_kernels>\"")
target_link_libraries(cuda_standin_testing PUBLIC Threads::Threads cuda_standin_driver cuda_standin_nccl)
tfc_own_code(cuda_standin_testing)

file(GLOB TFC_CUDA_STANDIN_TESTS CONFIGURE_DEPENDS "${TFC_CUDA_STANDIN_SOURCE}/tests/*_test.cc")
if(TFC_SANITIZE STREQUAL "thread")
  # Its programs race on purpose.
  list(FILTER TFC_CUDA_STANDIN_TESTS EXCLUDE REGEX "mistakes_of_ops_test")
endif()
foreach(source IN LISTS TFC_CUDA_STANDIN_TESTS)
  get_filename_component(name "${source}" NAME_WE)
  add_executable(cuda_standin.${name} "${source}")
  set_target_properties(cuda_standin.${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests"
    INSTALL_RPATH "${TFC_CUDA_STANDIN_DIR}")
  target_link_libraries(cuda_standin.${name} PRIVATE cuda_standin_testing)
  add_dependencies(cuda_standin.${name} cuda_standin_test_kernels)
  tfc_own_code(cuda_standin.${name})
  add_test(NAME cuda_standin.${name} COMMAND cuda_standin.${name})
  set_tests_properties(cuda_standin.${name} PROPERTIES TIMEOUT 120)
endforeach()
