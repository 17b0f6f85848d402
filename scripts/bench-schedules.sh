#!/usr/bin/env bash
# Compares the schedules serial and double_buffer, layer by layer, and rewrites docs/schedules.md. The networks are those of the folder
# TILEWRIGHT_MODELS. TILEWRIGHT_BENCH names a tilewright-bench that is built already.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${TILEWRIGHT_MODELS:-}" ]; then
  echo "bench-schedules: TILEWRIGHT_MODELS is not set; it must name the folder that holds mobilenetv2_1.0_int8_qdq/model.onnx and" \
    "squeezenet1.1_fp32/model.onnx" >&2
  exit 1
fi
if [ -z "${TILEWRIGHT_BENCH:-}" ]; then
  scripts/build.sh release tilewright-bench
  TILEWRIGHT_BENCH=build/release/bin/tilewright-bench
fi
export SYSTEMC_DISABLE_COPYRIGHT_MESSAGE=1
page=$(mktemp)
trap 'rm -f "$page"' EXIT

cat >"$page" <<'TEXT'
# The schedules compared

Made by `scripts/bench-schedules.sh`; simulated cycles, the same on every host.

`serial` has one buffer per operand and no two engines at work at once; `double_buffer` loads tiles ahead into a second buffer where the
compiler's model sees a gain. Both compile the same kernels; each picks its own tiles.

- **serial, double_buffer**: the cycles by which a layer moves the last retirement of the program on. Layers overlap at their borders
  under `double_buffer` (the next layer's weights load while the layer before computes), so one with the very same instructions can differ
  by some percent, and a small layer by more: what it gains or loses, its neighbour loses or gains. **ratio** is serial / double_buffer.
- **alone**: the same layer as a program of its own, from start to done, so that no neighbour blurs it.
- **DMA busy**: part of the layer's cycles, under `serial`, in which some load or store engine issues a burst or moves data (label `busy`,
  [timing.md](timing.md)). **DMA in flight**: the same with the cycles in which it waits for the DRAM's data or latency (labels
  `dram_bandwidth` and `dram_latency`). **compute busy**: part in which the tensor or the vector engine is busy.
- **both**: DMA and compute are at least 30 % each; `busy` with either meaning of DMA, `in flight` with the second only.
TEXT

add() { # network machine [option...]
  local network=$1 machine=$2
  shift 2
  echo "schedules: $network on $machine" >&2
  {
    echo
    echo "## $network on $machine"
    echo
    echo "\`tilewright-bench schedules \$TILEWRIGHT_MODELS/$network/model.onnx $machine $*${*:+ }--markdown\`"
    echo
    "$TILEWRIGHT_BENCH" schedules "$TILEWRIGHT_MODELS/$network/model.onnx" "$machine" "$@" --markdown
  } >>"$page"
}

add mobilenetv2_1.0_int8_qdq vdla_16x16 --shape image=1,3,244,244
add mobilenetv2_1.0_int8_qdq gemmini_16x16_int8 --shape image=1,3,244,244
add squeezenet1.1_fp32 gemmini_16x16_fp32
add squeezenet1.1_fp32 gemmini_16x16_bf16
cp "$page" docs/schedules.md
chmod 644 docs/schedules.md
echo "wrote docs/schedules.md"
