# Finds MLIR 22 for the folders that are configured after this file, and
# declares the libraries they share.

find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
set(LLVM_RUNTIME_OUTPUT_INTDIR ${PROJECT_BINARY_DIR}/bin)
set(LLVM_LIBRARY_OUTPUT_INTDIR ${PROJECT_BINARY_DIR}/lib)
set(MLIR_BINARY_DIR ${PROJECT_BINARY_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
separate_arguments(TANDEM_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")
add_definitions(${TANDEM_LLVM_DEFINITIONS})

# What most files of the compiler include of MLIR and LLVM, and none of our own
# headers: an include that a file forgets still shows in every other build.
if(TANDEM_PRECOMPILED_HEADERS)
  file(WRITE ${PROJECT_BINARY_DIR}/cmake/PrecompiledHeaders.cpp "")
  add_library(TandemPrecompiledHeaders OBJECT
    ${PROJECT_BINARY_DIR}/cmake/PrecompiledHeaders.cpp)
  target_precompile_headers(TandemPrecompiledHeaders PRIVATE
    <mlir/Dialect/Func/IR/FuncOps.h>
    <mlir/IR/Builders.h>
    <mlir/IR/BuiltinOps.h>
    <mlir/IR/OpImplementation.h>
    <mlir/IR/PatternMatch.h>
    <mlir/Pass/PassManager.h>
    <llvm/ADT/TypeSwitch.h>
    <llvm/Support/raw_ostream.h>)
endif()

# tandem_compiler_library(name sources... DEPENDS targets... LINK libraries...)
#
# A static library of the compiler. MLIR and LLVM themselves come from Debian's
# shared libraries and are linked by the tools only: naming MLIR's static
# archives here would bring a second copy of every pass.
function(tandem_compiler_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  if(TANDEM_PRECOMPILED_HEADERS)
    target_precompile_headers(${name} REUSE_FROM TandemPrecompiledHeaders)
  endif()
endfunction()
