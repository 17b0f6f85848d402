"""Tests of the compiler as text: each .mlir and .test file says on its RUN lines how it is to be run.

ctest sets the environment below (CMakeLists.txt). By hand: point TILEWRIGHT_LIT_TOOLS at the folder of tilewright-opt and
run lit.py on a file or a folder.
"""

import os

import lit.formats

config.name = "Tilewright"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(config.test_source_root))

tools = os.environ.get("TILEWRIGHT_LIT_TOOLS", os.path.join(root, "build", "release", "compiler", "tools"))
llvm = os.environ.get("TILEWRIGHT_LIT_LLVM", "/usr/lib/llvm-19/bin")
config.test_exec_root = os.environ.get("TILEWRIGHT_LIT_OUTPUT", os.path.join(root, "build", "lit"))

config.environment["PATH"] = os.pathsep.join([tools, llvm, os.environ["PATH"]])
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TILEWRIGHT_MODELS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
