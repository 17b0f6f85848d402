# Debian packages of what is installed, by cpack (scripts/package.sh, docs/packages.md). Each component is one package:
# tool is tilewright, library is libtilewright0, devel is libtilewright-dev, python is python3-tilewright.
set(version ${PROJECT_VERSION})
set(soname libtilewright${PROJECT_VERSION_MAJOR})
set(CPACK_COMPONENTS_ALL tool library devel)

set(CPACK_DEBIAN_TOOL_PACKAGE_NAME tilewright)
set(CPACK_DEBIAN_TOOL_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_TOOL_PACKAGE_RECOMMENDS "python3-tilewright (= ${version})")
# What `tilewright doctor` lists: simulating the RTL, and other runtimes to compare with.
set(CPACK_DEBIAN_TOOL_PACKAGE_SUGGESTS "verilator, make, clang-14 | g++, libdnnl2")
set(CPACK_DEBIAN_TOOL_DESCRIPTION [[compiler of neural networks and simulator of a tensor accelerator
Tilewright compiles ONNX networks for a cache-less tensor accelerator and
simulates every cycle of it. Reports say how many cycles each layer took and
the cause of every cycle lost.
.
This package holds the command tilewright, the machines that it knows, the
accelerator in SystemVerilog, manual pages and completions of bash, zsh and
fish.]])

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${soname})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
# The library finds machines in share/tilewright.
set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "tilewright (= ${version})")
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION [[compiler and simulator of a tensor accelerator, shared library
Tilewright compiles ONNX networks for a cache-less tensor accelerator and
simulates every cycle of it.
.
This package holds libtilewright, its interface for C.]])

set(CPACK_DEBIAN_DEVEL_PACKAGE_NAME libtilewright-dev)
set(CPACK_DEBIAN_DEVEL_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVEL_PACKAGE_DEPENDS "${soname} (= ${version})")
set(CPACK_DEBIAN_DEVEL_PACKAGE_SUGGESTS cmake)
set(CPACK_DEBIAN_DEVEL_DESCRIPTION [[compiler and simulator of a tensor accelerator, development files
Tilewright compiles ONNX networks for a cache-less tensor accelerator and
simulates every cycle of it.
.
This package holds the header of libtilewright, its configuration for CMake
and the headers for plug-ins of the compiler.]])

if(TARGET tilewright-python)
  list(APPEND CPACK_COMPONENTS_ALL python)
  # The extension module is for one version of Python.
  execute_process(COMMAND ${PYTHON_EXECUTABLE} -c "import sys; print('python3 (>= %d.%d), python3 (<< %d.%d)' % (*sys.version_info[:2], sys.version_info[0], sys.version_info[1] + 1))"
    OUTPUT_VARIABLE python OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-tilewright)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "${python}, python3-numpy, tilewright (= ${version}), ${soname} (= ${version})")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS "python3-yaml")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "python3-pandas, python3-matplotlib, python3-optuna, python3-distributed")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/scripts/debian/postinst ${CMAKE_SOURCE_DIR}/scripts/debian/prerm)
  set(CPACK_DEBIAN_PYTHON_DESCRIPTION [[compiler and simulator of a tensor accelerator, Python package
Tilewright compiles ONNX networks for a cache-less tensor accelerator and
simulates every cycle of it.
.
This package holds the Python package tilewright and what the commands sweep,
sensitivity, report and view of tilewright run.]])
endif()

# Licences where Debian has them; other installations hold no share/doc.
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} name)
  install(FILES ${CMAKE_SOURCE_DIR}/scripts/debian/copyright DESTINATION share/doc/${CPACK_DEBIAN_${name}_PACKAGE_NAME}
    COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "Tilewright maintainers <maintainers@tilewright.invalid>")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/scripts/cmake/DebianTree.cmake)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Where dpkg-shlibdeps finds libtilewright for the extension module.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
