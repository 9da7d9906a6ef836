# The GPU backend: a library of its own that the runtime opens when the first operation on a GPU
# appears. It needs neither CUDA nor NCCL to be built, and opens both by name.

# Its kernels are compiled by NVRTC, which comes from PyPI. Where it is missing, the library says so
# when the kernels are needed.
set(TFC_CUDA_KERNELS "${PROJECT_SOURCE_DIR}/src/cuda/kernels/kernels.cu")
set(TFC_NVRTC "")
find_package(Python COMPONENTS Interpreter)
if(Python_FOUND AND EXISTS "${TFC_CUDA_KERNELS}")
  execute_process(
    COMMAND "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/build_backend/cuda_kernels.py" find
    OUTPUT_VARIABLE TFC_NVRTC OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
set(TFC_KERNEL_IMAGES "${PROJECT_BINARY_DIR}/cuda/kernel_images.cc")
if(TFC_NVRTC)
  message(STATUS "Compiling CUDA kernels with ${TFC_NVRTC}")
  file(GLOB TFC_CUDA_KERNEL_HEADERS CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cuda/kernels/*.h")
  add_custom_command(
    OUTPUT "${TFC_KERNEL_IMAGES}"
    COMMAND "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/build_backend/cuda_kernels.py" compile
      "${TFC_NVRTC}" "${PROJECT_SOURCE_DIR}/src" "${PROJECT_BINARY_DIR}/cuda" "${TFC_CUDA_KERNELS}"
    DEPENDS "${PROJECT_SOURCE_DIR}/build_backend/cuda_kernels.py"
      "${TFC_CUDA_KERNELS}" ${TFC_CUDA_KERNEL_HEADERS} "${TFC_NVRTC}"
    COMMENT "Compiling CUDA kernels" VERBATIM)
else()
  message(STATUS "No CUDA kernels: nvidia-cuda-nvrtc-cu12 isn't installed for ${Python_EXECUTABLE}")
  set(TFC_KERNEL_IMAGES "${PROJECT_SOURCE_DIR}/cmake/no_kernel_images.cc")
endif()

file(GLOB_RECURSE TFC_CUDA_SOURCES CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/src/cuda/*.cc" "${PROJECT_SOURCE_DIR}/src/communicators/nccl/*.cc")
add_library(tf_collectives_cuda_objects OBJECT ${TFC_CUDA_SOURCES} "${TFC_KERNEL_IMAGES}")
target_include_directories(tf_collectives_cuda_objects
  PUBLIC "${PROJECT_SOURCE_DIR}/include"
  PRIVATE "${PROJECT_SOURCE_DIR}/src")
tfc_own_code(tf_collectives_cuda_objects)

add_library(tf_collectives_cuda SHARED $<TARGET_OBJECTS:tf_collectives_cuda_objects>)
target_link_libraries(tf_collectives_cuda PRIVATE tf_collectives Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(tf_collectives_cuda PROPERTIES LINKER_LANGUAGE CXX)
tfc_own_code(tf_collectives_cuda)
install(TARGETS tf_collectives_cuda LIBRARY DESTINATION tf_collectives)
