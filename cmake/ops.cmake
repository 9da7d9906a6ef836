# The TensorFlow op library.

file(GLOB TFC_OPS_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tf_ops/*.cc")
add_library(tf_collectives_ops MODULE ${TFC_OPS_SOURCES})
set_target_properties(tf_collectives_ops PROPERTIES PREFIX "")
target_include_directories(tf_collectives_ops PRIVATE "${PROJECT_SOURCE_DIR}/tf_ops")
target_link_libraries(tf_collectives_ops PRIVATE tf_collectives tensorflow_framework)
# Reading these headers takes longer than compiling a kernel does.
target_precompile_headers(tf_collectives_ops PRIVATE
  <tensorflow/core/framework/common_shape_fns.h>
  <tensorflow/core/framework/op.h>
  <tensorflow/core/framework/op_kernel.h>
  <tensorflow/core/framework/resource_mgr.h>
  <tensorflow/core/framework/resource_var.h>
  <tensorflow/core/framework/shape_inference.h>)
tfc_own_code(tf_collectives_ops)
# One source serves six TensorFlow versions, and what the newest deprecates the oldest needs.
target_compile_options(tf_collectives_ops PRIVATE -Wno-deprecated-declarations)
install(TARGETS tf_collectives_ops LIBRARY DESTINATION tf_collectives)
