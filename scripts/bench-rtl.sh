#!/usr/bin/env bash
# Prints how fast the RTL under Verilator and the SystemC model are, side by side, one core each: kcycles/s and MMAC/s of
# processor time. A machine's model that is missing is built first, which its rates do not count.
# Networks are those of TILEWRIGHT_MODELS, if it is set.
set -euo pipefail
cd "$(dirname "$0")/.."
tilewright=${TILEWRIGHT:-build/release/bin/tilewright}
export SYSTEMC_DISABLE_COPYRIGHT_MESSAGE=1
measure() { # machine, model and further arguments
  local machine=$1
  shift
  echo "$* on $machine"
  "$tilewright" verify "$@" --hw "$machine"
}
measure gemmini_16x16_int8 gemm:512x512x512:int8
if [ -n "${TILEWRIGHT_MODELS:-}" ]; then
  measure gemmini_16x16_int8 "$TILEWRIGHT_MODELS/mlperf_tiny_ic_resnet8_int8_qdq/model.onnx"
  measure gemmini_16x16_int8 "$TILEWRIGHT_MODELS/mlperf_tiny_kws_dscnn_int8_qdq/model.onnx"
  measure gemmini_16x16_fp32 "$TILEWRIGHT_MODELS/resnet20_cifar10_static/model.onnx"
fi
