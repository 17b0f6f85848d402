#!/usr/bin/env bash
# Checks the dependency rule isa <- hw-configs <- {compiler, simulator} <- runtime <- tests on every #include.
set -u
cd "$(dirname "$0")/../.."
status=0
forbid() { # folder pattern
  if grep -rnE "^#include [\"<]($2)" --include='*.h' --include='*.cpp' "$1"; then
    echo "lint: $1 must not include $2" >&2
    status=1
  fi
}
forbid isa 'hw-configs/|compiler/|simulator/|runtime/'
forbid isa/timing 'systemc|yaml-cpp|llvm/|mlir/'
forbid hw-configs 'compiler/|simulator/|runtime/|llvm/|mlir/|systemc'
forbid compiler 'simulator/|runtime/|systemc'
forbid simulator 'compiler/|runtime/|llvm/|mlir/|yaml-cpp'
exit $status
