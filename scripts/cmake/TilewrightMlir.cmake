# LLVM, MLIR and the functions that build the compiler's libraries. Included once, by compiler/CMakeLists.txt; the functions
# and targets it makes serve runtime/ and tests/ too. Nothing of LLVM's own flags leaks: LLVM's and MLIR's headers arrive
# through the interface target TilewrightMlir, and only what links a compiler library sees them.

# The imported targets must be visible in sibling folders (runtime, tests).
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
# MLIR's version file wants major.minor; MLIR itself then asks for exactly its LLVM.
find_package(MLIR 19.1 REQUIRED CONFIG PATHS /usr/lib/llvm-19/lib/cmake/mlir)
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL OFF)

set(TW_LLVM_TOOLS_DIR "${LLVM_TOOLS_BINARY_DIR}" CACHE INTERNAL "FileCheck, not, split-file and the other LLVM tools")
set(TW_MLIR_TBLGEN "${LLVM_TOOLS_BINARY_DIR}/mlir-tblgen" CACHE INTERNAL "MLIR's TableGen")
set(TW_MLIR_INCLUDE_DIRS ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
list(REMOVE_DUPLICATES TW_MLIR_INCLUDE_DIRS)
set(TW_MLIR_INCLUDE_DIRS "${TW_MLIR_INCLUDE_DIRS}" CACHE INTERNAL "where LLVM's and MLIR's headers are")

# Only the two shared libraries: a component target beside them would bring a second copy of every registration.
add_library(TilewrightMlir INTERFACE)
target_include_directories(TilewrightMlir SYSTEM INTERFACE ${TW_MLIR_INCLUDE_DIRS})
target_link_libraries(TilewrightMlir INTERFACE MLIR LLVM)

# One precompiled header for every translation unit that includes MLIR.
add_library(TilewrightMlirPch OBJECT ${CMAKE_SOURCE_DIR}/compiler/MlirPch.cpp)
target_include_directories(TilewrightMlirPch PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
target_link_libraries(TilewrightMlirPch PUBLIC TilewrightMlir)
target_precompile_headers(TilewrightMlirPch PRIVATE ${CMAKE_SOURCE_DIR}/compiler/MlirPch.h)
set_target_properties(TilewrightMlirPch PROPERTIES PCH_INSTANTIATE_TEMPLATES ON)

# tw_use_mlir_pch(target ...): compiles the targets (libraries, tools, tests) with the shared precompiled header.
function(tw_use_mlir_pch)
  foreach(target ${ARGN})
    target_link_libraries(${target} PRIVATE TilewrightMlir)
    target_precompile_headers(${target} REUSE_FROM TilewrightMlirPch)
    # The header is compiled for libraries: a program that shares it cannot be compiled as -fPIE.
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE)
      set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${target} PRIVATE -fPIC)
    endif()
  endforeach()
endfunction()

# tw_add_compiler_library(Name SOURCES a.cpp ... LINK lib ... DEPENDS IncGen ...): tw_add_library with MLIR.
function(tw_add_compiler_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;DEPENDS" ${ARGN})
  tw_add_library(${name} SOURCES ${ARG_SOURCES} LINK ${ARG_LINK} TilewrightMlir DEPENDS ${ARG_DEPENDS})
  target_precompile_headers(${name} REUSE_FROM TilewrightMlirPch)
endfunction()

# tw_tablegen(File.td OUTPUT File.h.inc [TOOL tool] [ARGS -gen-op-decls ...]): one run of mlir-tblgen, or of a tool of our own;
# File.h.inc lands in the build tree under the same path, so `#include "compiler/<folder>/File.h.inc"` finds it.
function(tw_tablegen td)
  cmake_parse_arguments(ARG "" "OUTPUT;TOOL" "ARGS" ${ARGN})
  if(NOT ARG_TOOL)
    set(ARG_TOOL ${TW_MLIR_TBLGEN})
  endif()
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${ARG_OUTPUT})
  set(includes -I ${CMAKE_SOURCE_DIR} -I ${CMAKE_CURRENT_SOURCE_DIR})
  foreach(folder ${TW_MLIR_INCLUDE_DIRS})
    list(APPEND includes -I ${folder})
  endforeach()
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${ARG_TOOL} ${ARG_ARGS} ${includes} ${CMAKE_CURRENT_SOURCE_DIR}/${td} --write-if-changed -d ${output}.d
            -o ${output}
    DEPENDS ${ARG_TOOL} ${CMAKE_CURRENT_SOURCE_DIR}/${td}
    DEPFILE ${output}.d
    COMMENT "TableGen ${ARG_OUTPUT}")
  set_property(DIRECTORY APPEND PROPERTY TW_TABLEGEN_OUTPUTS ${output})
endfunction()

# tw_tablegen_target(Name): a target that runs every tw_tablegen of this folder so far; libraries that include the results
# name it under DEPENDS.
function(tw_tablegen_target name)
  get_property(outputs DIRECTORY PROPERTY TW_TABLEGEN_OUTPUTS)
  add_custom_target(${name} DEPENDS ${outputs})
endfunction()

# tw_add_dialect(NameIncGen DIALECT name TD NameOps.td [ENUMS] [ATTRS] [TYPES]): NameOps.h.inc, NameOps.cpp.inc and
# NameOpsDialect.h.inc, NameOpsDialect.cpp.inc, on request NameOpsEnums.*, NameOpsAttrs.*, NameOpsTypes.*.
function(tw_add_dialect target)
  cmake_parse_arguments(ARG "ENUMS;ATTRS;TYPES" "DIALECT;TD" "" ${ARGN})
  get_filename_component(stem ${ARG_TD} NAME_WE)
  tw_tablegen(${ARG_TD} OUTPUT ${stem}.h.inc ARGS -gen-op-decls)
  tw_tablegen(${ARG_TD} OUTPUT ${stem}.cpp.inc ARGS -gen-op-defs)
  tw_tablegen(${ARG_TD} OUTPUT ${stem}Dialect.h.inc ARGS -gen-dialect-decls -dialect=${ARG_DIALECT})
  tw_tablegen(${ARG_TD} OUTPUT ${stem}Dialect.cpp.inc ARGS -gen-dialect-defs -dialect=${ARG_DIALECT})
  if(ARG_ENUMS)
    tw_tablegen(${ARG_TD} OUTPUT ${stem}Enums.h.inc ARGS -gen-enum-decls)
    tw_tablegen(${ARG_TD} OUTPUT ${stem}Enums.cpp.inc ARGS -gen-enum-defs)
  endif()
  if(ARG_ATTRS)
    tw_tablegen(${ARG_TD} OUTPUT ${stem}Attrs.h.inc ARGS -gen-attrdef-decls -attrdefs-dialect=${ARG_DIALECT})
    tw_tablegen(${ARG_TD} OUTPUT ${stem}Attrs.cpp.inc ARGS -gen-attrdef-defs -attrdefs-dialect=${ARG_DIALECT})
  endif()
  if(ARG_TYPES)
    tw_tablegen(${ARG_TD} OUTPUT ${stem}Types.h.inc ARGS -gen-typedef-decls -typedefs-dialect=${ARG_DIALECT})
    tw_tablegen(${ARG_TD} OUTPUT ${stem}Types.cpp.inc ARGS -gen-typedef-defs -typedefs-dialect=${ARG_DIALECT})
  endif()
  tw_tablegen_target(${target})
endfunction()

# tw_add_passes(NamePassIncGen TD NamePasses.td PREFIX Name): NamePasses.h.inc from -gen-pass-decls.
function(tw_add_passes target)
  cmake_parse_arguments(ARG "" "TD;PREFIX" "" ${ARGN})
  get_filename_component(stem ${ARG_TD} NAME_WE)
  tw_tablegen(${ARG_TD} OUTPUT ${stem}.h.inc ARGS -gen-pass-decls -name ${ARG_PREFIX})
  add_custom_target(${target} DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/${stem}.h.inc)
endfunction()
