# The TensorFlow to build for: TFC_TF_DIR is its package directory (.../site-packages/tensorflow)
# and TFC_TF_VERSION its version. The build backend sets both; a plain CMake build asks Python.

set(TFC_TF_DIR "$ENV{TFC_TF_DIR}" CACHE PATH "Directory of the tensorflow package")
set(TFC_TF_VERSION "$ENV{TFC_TF_VERSION}" CACHE STRING "Version of that TensorFlow")

if(NOT TFC_TF_DIR OR NOT TFC_TF_VERSION)
  find_package(Python REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/build_backend/target_tensorflow.py"
    OUTPUT_VARIABLE TFC_TF_FOUND OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE TFC_TF_FAILED)
  if(TFC_TF_FAILED)
    message(FATAL_ERROR "No TensorFlow to build for; the reason stands above.")
  endif()
  list(GET TFC_TF_FOUND 0 TFC_TF_FOUND_VERSION)
  list(GET TFC_TF_FOUND 1 TFC_TF_FOUND_DIR)
  set(TFC_TF_VERSION "${TFC_TF_FOUND_VERSION}" CACHE STRING "Version of that TensorFlow" FORCE)
  set(TFC_TF_DIR "${TFC_TF_FOUND_DIR}" CACHE PATH "Directory of the tensorflow package" FORCE)
endif()
string(REGEX MATCH "^[0-9]+\\.[0-9]+" TFC_TF_MINOR "${TFC_TF_VERSION}")
message(STATUS "Building for TensorFlow ${TFC_TF_VERSION} in ${TFC_TF_DIR}")

add_library(tensorflow_framework SHARED IMPORTED)
set_target_properties(tensorflow_framework PROPERTIES
  IMPORTED_LOCATION "${TFC_TF_DIR}/libtensorflow_framework.so.2"
  INTERFACE_INCLUDE_DIRECTORIES "${TFC_TF_DIR}/include"
  INTERFACE_COMPILE_DEFINITIONS "EIGEN_MAX_ALIGN_BYTES=64")
