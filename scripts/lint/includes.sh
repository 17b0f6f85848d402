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
# Research libraries use the product, never the other way round.
for folder in compiler/*/; do
  [ "$folder" = compiler/research/ ] || forbid "$folder" 'compiler/research/'
done
forbid runtime 'compiler/research/'
forbid simulator 'compiler/|runtime/|llvm/|mlir/|yaml-cpp'
exit $status
