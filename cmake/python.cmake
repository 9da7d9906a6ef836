# The Python module _core, and what the package knows about its own build.

find_package(Python REQUIRED COMPONENTS Interpreter)

# A Python without its development package has no headers, but TensorFlow's wheel carries those of
# the Python version that it is built for.
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c "import sysconfig; print(sysconfig.get_paths()['include'])"
  OUTPUT_VARIABLE TFC_PYTHON_INCLUDE OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT EXISTS "${TFC_PYTHON_INCLUDE}/Python.h")
  set(TFC_PYTHON_INCLUDE "${TFC_TF_DIR}/include/external/local_config_python/python_include")
  if(NOT EXISTS "${TFC_PYTHON_INCLUDE}/Python.h")
    message(FATAL_ERROR "Python.h is missing. Install the development package of this Python (python3-dev on Debian).")
  endif()
  set(Python_INCLUDE_DIR "${TFC_PYTHON_INCLUDE}")
endif()
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)

execute_process(
  COMMAND "${Python_EXECUTABLE}" -m pybind11 --cmakedir
  OUTPUT_VARIABLE TFC_PYBIND11_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
find_package(pybind11 2.13 CONFIG REQUIRED HINTS "${TFC_PYBIND11_DIR}")

file(GLOB TFC_CORE_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/core/*.cc")
pybind11_add_module(_core MODULE NO_EXTRAS ${TFC_CORE_SOURCES})
target_link_libraries(_core PRIVATE tf_collectives)
tfc_own_code(_core)
# The module takes Python's symbols from the interpreter that loads it.
target_link_options(_core PRIVATE -Wl,--unresolved-symbols=ignore-all)
install(TARGETS _core LIBRARY DESTINATION tf_collectives)

configure_file(
  "${PROJECT_SOURCE_DIR}/cmake/_build_info.py.in" "${PROJECT_BINARY_DIR}/_build_info.py" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/_build_info.py" DESTINATION tf_collectives)
