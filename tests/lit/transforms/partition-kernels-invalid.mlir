// RUN: sed s/@model/@main/ %s | not tilewright-opt -graph-partition-kernels=array=int4 2>&1 | FileCheck %s --check-prefix=ARRAY
// RUN: not tilewright-opt %s -graph-partition-kernels 2>&1 | FileCheck %s --check-prefix=MAIN
// RUN: not tilewright-opt %s -graph-legalize-types 2>&1 | FileCheck %s --check-prefix=MAIN

// ARRAY: error: array is "int4", expected int8, bf16 or fp32
// MAIN: error: no function @main with one block
func.func @model(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
