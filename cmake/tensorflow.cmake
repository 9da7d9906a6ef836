# The TensorFlow to build for: TFC_TF_DIR is its package directory (.../site-packages/tensorflow)
# and TFC_TF_VERSION its version. The build backend sets both; a plain CMake build asks Python.

set(TFC_TF_DIR "" CACHE PATH "Directory of the tensorflow package")
set(TFC_TF_VERSION "" CACHE STRING "Version of that TensorFlow")

# What the backend found goes before what an earlier configuration of this build directory used.
if(DEFINED ENV{TFC_TF_DIR} AND DEFINED ENV{TFC_TF_VERSION})
  set_property(CACHE TFC_TF_DIR PROPERTY VALUE "$ENV{TFC_TF_DIR}")
  set_property(CACHE TFC_TF_VERSION PROPERTY VALUE "$ENV{TFC_TF_VERSION}")
endif()
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
  set_property(CACHE TFC_TF_VERSION PROPERTY VALUE "${TFC_TF_FOUND_VERSION}")
  set_property(CACHE TFC_TF_DIR PROPERTY VALUE "${TFC_TF_FOUND_DIR}")
endif()
string(REGEX MATCH "^[0-9]+\\.[0-9]+" TFC_TF_MINOR "${TFC_TF_VERSION}")
message(STATUS "Building for TensorFlow ${TFC_TF_VERSION} in ${TFC_TF_DIR}")

add_library(tensorflow_framework SHARED IMPORTED)
set_target_properties(tensorflow_framework PROPERTIES
  IMPORTED_LOCATION "${TFC_TF_DIR}/libtensorflow_framework.so.2"
  INTERFACE_INCLUDE_DIRECTORIES "${TFC_TF_DIR}/include"
  INTERFACE_COMPILE_DEFINITIONS "EIGEN_MAX_ALIGN_BYTES=64")
