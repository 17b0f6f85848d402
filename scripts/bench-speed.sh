#!/usr/bin/env bash
# Prints how long compiling and simulating two networks takes on this host, on one core, as a Markdown table. The networks are those of
# the folder TILEWRIGHT_MODELS. TILEWRIGHT_BENCH names a tilewright-bench that is built already.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${TILEWRIGHT_MODELS:-}" ]; then
  echo "bench-speed: TILEWRIGHT_MODELS is not set; it must name the folder that holds squeezenet1.1_fp32/model.onnx and" \
    "mobilenetv2_1.0_int8_qdq/model.onnx" >&2
  exit 1
fi
if [ -z "${TILEWRIGHT_BENCH:-}" ]; then
  scripts/build.sh release tilewright-bench
  TILEWRIGHT_BENCH=build/release/bin/tilewright-bench
fi
export SYSTEMC_DISABLE_COPYRIGHT_MESSAGE=1
"$TILEWRIGHT_BENCH" speed "$TILEWRIGHT_MODELS/squeezenet1.1_fp32/model.onnx" gemmini_16x16_fp32 --runs "${1:-9}" --markdown
"$TILEWRIGHT_BENCH" speed "$TILEWRIGHT_MODELS/mobilenetv2_1.0_int8_qdq/model.onnx" gemmini_16x16_int8 --shape image=1,3,244,244 \
  --runs "${1:-9}" --markdown | tail -n +3
