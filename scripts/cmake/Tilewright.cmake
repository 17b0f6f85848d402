# Compiler settings and the few functions every folder's CMakeLists.txt uses.

# Debian's SystemC library is compiled as C++17 and links with nothing else.
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Asserts stay on in every build type: they are cheap beside the arithmetic, and a broken invariant must not become a number.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
add_compile_options(-Wall -Wextra -Wno-unused-parameter -ffp-contract=off -fno-omit-frame-pointer)
add_link_options(-fuse-ld=lld-14)
# The same objects make the program and libtilewright.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
endif()
if(TILEWRIGHT_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

# tw_add_library(Name SOURCES a.cpp ... LINK lib ...): a static library whose include path is the repository path.
function(tw_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# tw_fuzz(target ...): libraries in which coverage leads libFuzzer. These are flags of code generation, so the precompiled header
# serves here too.
function(tw_fuzz)
  if(TILEWRIGHT_FUZZ)
    foreach(target ${ARGN})
      target_compile_options(${target} PRIVATE -fsanitize-coverage=inline-8bit-counters,indirect-calls,trace-cmp,pc-table)
    endforeach()
  endif()
endfunction()

# tw_share(path name): a file or folder that the program looks for in its installation, as share/tilewright/<name> of the build tree.
function(tw_share path name)
  get_filename_component(folder ${CMAKE_BINARY_DIR}/share/tilewright/${name} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  file(CREATE_LINK ${path} ${CMAKE_BINARY_DIR}/share/tilewright/${name} SYMBOLIC)
endfunction()

# tw_install_share(folder FILES f... | DIRECTORY d... [OPTIONAL] [FILTER how files are chosen...]): what the program looks for in
# share/tilewright/<folder> of an installation and of a wheel.
function(tw_install_share folder)
  cmake_parse_arguments(ARG "OPTIONAL" "" "FILES;DIRECTORY;FILTER" ${ARGN})
  set(what FILES ${ARG_FILES})
  if(ARG_DIRECTORY)
    set(what DIRECTORY ${ARG_DIRECTORY})
  endif()
  set(optional)
  if(ARG_OPTIONAL)
    set(optional OPTIONAL)
  endif()
  install(${what} DESTINATION share/tilewright/${folder} ${optional} ${ARG_FILTER})
  install(${what} DESTINATION tilewright/share/tilewright/${folder} COMPONENT wheel EXCLUDE_FROM_ALL ${optional} ${ARG_FILTER})
endfunction()

# tw_add_test(Name SOURCES a.cpp ... LINK lib ... [LABELS l]): a GoogleTest program, one ctest entry and process per case.
function(tw_add_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest)
  target_compile_definitions(${name} PRIVATE TILEWRIGHT_SOURCE_DIR="${CMAKE_SOURCE_DIR}" TILEWRIGHT_BINARY_DIR="${CMAKE_BINARY_DIR}")
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 600
                       ENVIRONMENT "SYSTEMC_DISABLE_COPYRIGHT_MESSAGE=1")
endfunction()
