# The GPU backend: a library of its own that the runtime opens when the first operation on a GPU
# appears. It needs neither CUDA nor NCCL to be built, and opens both by name.

file(GLOB_RECURSE TFC_CUDA_SOURCES CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/src/cuda/*.cc" "${PROJECT_SOURCE_DIR}/src/communicators/nccl/*.cc")
add_library(tf_collectives_cuda_objects OBJECT ${TFC_CUDA_SOURCES})
target_include_directories(tf_collectives_cuda_objects
  PUBLIC "${PROJECT_SOURCE_DIR}/include"
  PRIVATE "${PROJECT_SOURCE_DIR}/src")
tfc_own_code(tf_collectives_cuda_objects)

add_library(tf_collectives_cuda SHARED $<TARGET_OBJECTS:tf_collectives_cuda_objects>)
target_link_libraries(tf_collectives_cuda PRIVATE tf_collectives Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(tf_collectives_cuda PROPERTIES LINKER_LANGUAGE CXX)
tfc_own_code(tf_collectives_cuda)
install(TARGETS tf_collectives_cuda LIBRARY DESTINATION tf_collectives)
