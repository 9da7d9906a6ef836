# Flags of our own code.

find_program(TFC_CCACHE ccache)
mark_as_advanced(TFC_CCACHE)
if(TFC_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without this sloppiness ccache never caches a file that uses a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    "${TFC_CCACHE}")
endif()

# TensorFlow's wheels are built with this ABI, so that strings can cross the boundary.
add_compile_definitions(_GLIBCXX_USE_CXX11_ABI=1)

# Instrumented code takes several times as long to optimise, hence -O1. The checks that are left out
# find what crashes anyway, and double the time that the compiler takes.
if(TFC_SANITIZE STREQUAL "address")
  add_compile_options(-O1 -g1 -fno-omit-frame-pointer
    -fsanitize=address,undefined -fno-sanitize=null,vptr -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
elseif(TFC_SANITIZE STREQUAL "thread")
  add_compile_options(-O1 -g1 -fno-omit-frame-pointer -fsanitize=thread)
  add_link_options(-fsanitize=thread)
elseif(TFC_SANITIZE)
  message(FATAL_ERROR "TFC_SANITIZE is '${TFC_SANITIZE}'; use address, thread, or leave it empty.")
endif()

function(tfc_own_code target)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough
    # Contracting a product and a sum into one rounding would make a result depend on whether
    # the vector or the scalar path handled the element.
    -ffp-contract=off)
  if(TFC_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(NOT TFC_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,--no-undefined)
  endif()
endfunction()

# Files named *_avx2.cc are chosen at run time by the CPU, so only they may use its instructions.
function(tfc_select_simd_sources list_name)
  set(sources ${${list_name}})
  set(avx2_sources ${sources})
  list(FILTER avx2_sources INCLUDE REGEX "_avx2\\.cc$")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    if(avx2_sources)
      set_source_files_properties(${avx2_sources} PROPERTIES COMPILE_OPTIONS "-mavx2;-mf16c;-mfma")
    endif()
  else()
    list(FILTER sources EXCLUDE REGEX "_avx2\\.cc$")
  endif()
  set(${list_name} ${sources} PARENT_SCOPE)
endfunction()
