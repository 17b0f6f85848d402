#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tilewright compile --target cpu`: C programs use what it writes, here and on emulated processors (docs/cpu.md).

Environment: TILEWRIGHT is the binary, TILEWRIGHT_SOURCE_DIR the source tree.
"""

import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

import numpy as np

BINARY = os.environ["TILEWRIGHT"]
SOURCE = pathlib.Path(os.environ["TILEWRIGHT_SOURCE_DIR"])
DIGITS = SOURCE / "tests/data/digits"
DOCUMENT = (SOURCE / "docs/cpu.md").read_text()

# Reads images from standard input and writes their logits, with as many threads as the argument says.
PROGRAM = """#include "NAME.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static _Alignas(UPPER_ARENA_ALIGNMENT) char arena[UPPER_ARENA_BYTES];
int main(int argc, char **argv) {
  float image[UPPER_IMAGE_COUNT], logits[UPPER_LOGITS_COUNT];
  NAME_threads *threads = argc > 1 ? NAME_threads_create((unsigned)atoi(argv[1])) : NULL;
  int status = 0;
  while (!status && fread(image, sizeof image, 1, stdin) == 1) {
    memset(arena, 0xa5, sizeof arena); // nothing in it matters
    status = NAME_run(image, logits, arena, sizeof arena, threads);
    fwrite(logits, sizeof logits, 1, stdout);
  }
  NAME_threads_destroy(threads);
  return status;
}
"""


def need(*programs, files=()):
    """Skips the test where something is not installed; ctest sees the line and calls the whole entry skipped."""
    missing = [program for program in programs if not shutil.which(program)] + [file for file in files if not os.path.exists(file)]
    if missing:
        print(f"skipped: scripts/setup.sh tests installs {', '.join(missing)}", file=sys.stderr)
        raise unittest.SkipTest(", ".join(missing))


class BundleTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.images = np.load(DIGITS / "images.npy")[:12]

    def execute(self, *command, status=0, data=b"", **environment):
        """Runs it in the test's folder. Returns the bytes of standard output, and of standard error where it fails."""
        result = subprocess.run(list(map(str, command)), cwd=self.path, input=data, capture_output=True, timeout=300, env={**os.environ, **environment})
        self.assertEqual(result.returncode, status, f"{command}\n{result.stdout[-2000:]}\n{result.stderr.decode(errors='replace')}")
        return result.stdout if status == 0 else result.stderr

    def compile(self, model, *options, **others):
        """What is expected of the int8 network is what ONNX says, so rounding is strict."""
        error = self.execute(BINARY, "compile", model, "--target", "cpu", "--math", "strict", *options, **others)
        return error.decode()

    def write(self, name, text):
        (self.path / name).write_text(text)

    def program(self, name, text, *libraries, compiler=("cc",)):
        """Compiles and links as a user does: with the C compiler, and with nothing of ours but the libraries."""
        self.write(f"{name}.c", text)
        folders = [f"-I{pathlib.Path(library).parent}" for library in libraries]
        self.execute(*compiler, "-Wall", "-Wextra", "-Werror", *folders, f"{name}.c", *libraries, "-o", name, "-lm", "-lpthread")

    def any_program(self, library, name):
        """A program that reads all inputs of a library, one behind the other, and writes all outputs; made from the header alone.
        Returns what the header says of its tensors: kind, name, element type and shape."""
        header = (self.path / library.replace("lib" + name + ".a", name + ".h")).read_text()
        arguments = re.search(rf"int {name}_run\((.*?), void \*arena", header).group(1).split(", ")
        lines, calls, ends = [], [], []
        for argument in arguments:
            element, variable = argument.replace("const ", "").split(" *")
            count = f"{name}_{variable}_COUNT".upper()
            lines.append(f"  {element} *{variable} = calloc({count} + 1, sizeof *{variable});")
            calls.append(variable)
            if argument.startswith("const "):
                lines.append(f"  if (fread({variable}, sizeof *{variable}, {count}, stdin) != {count}) return 99;")
            else:
                ends.append(f"  fwrite({variable}, sizeof *{variable}, {count}, stdout);")
        upper = name.upper()
        self.program("any", "\n".join([f'#include "{name}.h"', "#include <stdio.h>", "#include <stdlib.h>", "#include <string.h>", "int main(void) {",
                                       f"  void *arena = aligned_alloc({upper}_ARENA_ALIGNMENT, ({upper}_ARENA_BYTES + 63) / 64 * 64);",
                                       f"  memset(arena, 0xa5, {upper}_ARENA_BYTES); // nothing in it matters", *lines,
                                       f"  {name}_threads *threads = {name}_threads_create(2);",
                                       f"  int status = {name}_run({', '.join(calls)}, arena, {upper}_ARENA_BYTES, threads);",
                                       f"  {name}_threads_destroy(threads);", *ends, "  return status;", "}", ""]), library)
        tensors = re.findall(r"/\* (Input|Output) '(.*?)': (\w+) \[(.*?)\], row-major", header)
        return [(kind, tensor, element, [int(dim) for dim in shape.split(", ") if dim]) for kind, tensor, element, shape in tensors]

    def logits(self, *command):
        out = self.execute(*command, data=self.images.astype(np.float32).tobytes())
        return np.frombuffer(out, np.float32).reshape(-1, 10)

    def assert_right(self, logits, form):
        expected = np.load(DIGITS / f"logits_{form}.npy")[: len(self.images)]
        # Sums in another order: a few units in the last place of the largest value. A wrong int8 would be 0.0357 away, the scale of the result.
        np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-5 * np.ptp(expected))


class NativeTest(BundleTest):
    def test_ten_lines_of_c(self):
        for form in ["fp32", "int8_qdq"]:
            self.compile(DIGITS / f"digits_{form}.onnx", "--name", "digits", "-o", form)
            self.assertEqual(sorted(os.listdir(self.path / form)), ["digits.h", "libdigits.a"])
            self.program(form + ".exe", PROGRAM.replace("NAME", "digits").replace("UPPER", "DIGITS"), f"{form}/libdigits.a")
            alone = self.logits(f"./{form}.exe")
            self.assert_right(alone, form)
            for threads in [1, 2, 5]:
                np.testing.assert_array_equal(self.logits(f"./{form}.exe", threads), alone)

    def test_lesser_processors(self):
        if os.uname().machine != "x86_64":
            self.skipTest("the processors are those of x86_64")
        for form in ["fp32", "int8_qdq"]:
            for processor in ["x86-64", "haswell"]: # SSE2; AVX2 without VNNI, which every AVX-512 host has
                if processor == "haswell" and " avx2 " not in pathlib.Path("/proc/cpuinfo").read_text():
                    continue
                self.compile(DIGITS / f"digits_{form}.onnx", "--name", "digits", "--cpu", processor, "-o", processor)
                self.program("program", PROGRAM.replace("NAME", "digits").replace("UPPER", "DIGITS"), f"{processor}/libdigits.a")
                self.assert_right(self.logits("./program"), form)

    def test_two_libraries_in_one_program_with_threads_of_its_own(self):
        for form in ["fp32", "int8_qdq"]:
            self.compile(DIGITS / f"digits_{form}.onnx", "-o", "lib")
        self.assertEqual(sorted(os.listdir(self.path / "lib")), [f"{stem}digits_{form}{end}" for stem, end in [("", ".h"), ("lib", ".a")] for form in ["fp32", "int8_qdq"]])
        self.program("both", """#include "digits_fp32.h"
#include "digits_int8_qdq.h"
#include <pthread.h>
#include <stdio.h>
static float image[64], logits[4][10];
static void *run(void *argument) {
  long i = (long)argument;
  static _Alignas(64) char arenas[4][DIGITS_FP32_ARENA_BYTES + DIGITS_INT8_QDQ_ARENA_BYTES + 64];
  for (int n = 0; n < 200; ++n)
    if (i % 2 ? digits_fp32_run(image, logits[i], arenas[i], sizeof arenas[i], NULL) : digits_int8_qdq_run(image, logits[i], arenas[i], sizeof arenas[i], NULL))
      return argument;
  return NULL;
}
int main(void) {
  pthread_t threads[4];
  while (fread(image, sizeof image, 1, stdin) == 1) {
    for (long i = 0; i < 4; ++i)
      pthread_create(&threads[i], NULL, run, (void *)i);
    for (long i = 0; i < 4; ++i)
      pthread_join(threads[i], NULL);
    fwrite(logits, sizeof logits, 1, stdout);
  }
  return 0;
}
""".replace("[4][DIGITS_FP32_ARENA_BYTES + DIGITS_INT8_QDQ_ARENA_BYTES + 64]", "[4][(DIGITS_FP32_ARENA_BYTES + DIGITS_INT8_QDQ_ARENA_BYTES) / 64 * 64]"),
                     "lib/libdigits_fp32.a", "lib/libdigits_int8_qdq.a")
        logits = self.logits("./both").reshape(-1, 4, 10)
        for i in range(4):
            self.assert_right(logits[:, i], "fp32" if i % 2 else "int8_qdq")

    def test_tensors_of_every_kind_and_results_that_no_kernel_writes(self):
        self.write("net.mlir", """func.func @main(%x: tensor<4x8xi8>, %w: tensor<8x4xi8>) -> (tensor<4x4xi32>, tensor<4x8xi8>, tensor<2xi64>, tensor<4x4xi32>) {
  %k = arith.constant dense<[5, -6]> : tensor<2xi64>
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4x4xi32>
  %z = linalg.fill ins(%c0 : i32) outs(%e : tensor<4x4xi32>) -> tensor<4x4xi32>
  %m = linalg.matmul ins(%x, %w : tensor<4x8xi8>, tensor<8x4xi8>) outs(%z : tensor<4x4xi32>) -> tensor<4x4xi32>
  return %m, %x, %k, %m : tensor<4x4xi32>, tensor<4x8xi8>, tensor<2xi64>, tensor<4x4xi32>
}
""")
        self.compile("net.mlir", "-o", "net")
        header = (self.path / "net/net.h").read_text()
        arguments = re.search(r"int net_run\((.*?)\);", header).group(1)
        self.assertEqual([argument.rsplit("*", 1)[0].strip() for argument in arguments.split(",")[:6]],
                         ["const int8_t", "const int8_t", "int32_t", "int8_t", "int64_t", "int32_t"])
        self.program("net.exe", """#include "net.h"
#include <stdio.h>
int main(void) {
  static int8_t x[32], w[32], same[32];
  static int32_t sums[16], again[16];
  static int64_t constant[2];
  static _Alignas(NET_ARENA_ALIGNMENT) char arena[NET_ARENA_BYTES];
  if (fread(x, sizeof x, 1, stdin) != 1 || fread(w, sizeof w, 1, stdin) != 1)
    return 99;
  int status = net_run(x, w, sums, same, constant, again, arena, sizeof arena, NULL);
  fwrite(sums, sizeof sums, 1, stdout);
  fwrite(same, sizeof same, 1, stdout);
  fwrite(constant, sizeof constant, 1, stdout);
  fwrite(again, sizeof again, 1, stdout);
  return status;
}
""", "net/libnet.a")
        x = np.arange(-16, 16, dtype=np.int8).reshape(4, 8)
        w = (np.arange(32) * 7 - 100).astype(np.int8).reshape(8, 4)
        sums = (x.astype(np.int32) @ w.astype(np.int32)).tobytes()
        self.assertEqual(self.execute("./net.exe", data=x.tobytes() + w.tobytes()), sums + x.tobytes() + np.array([5, -6], np.int64).tobytes() + sums)

    def test_operators_by_element_and_at_places(self):
        """Numpy's values; those of functions to a few units of the last place, as C libraries differ."""
        from onnx import TensorProto, helper
        nodes = [helper.make_node("GreaterOrEqual", ["x", "y"], ["isAbove"]), helper.make_node("Not", ["isAbove"], ["isBelow"]),
                 helper.make_node("Where", ["isBelow", "x", "y"], ["least"]), helper.make_node("Abs", ["least"], ["size"]),
                 helper.make_node("Log", ["size"], ["log"]), helper.make_node("Sin", ["log"], ["sine"]),
                 helper.make_node("Gather", ["sine", "i"], ["rows"], axis=0), helper.make_node("Cast", ["least"], ["wide"], to=TensorProto.DOUBLE),
                 helper.make_node("BitShift", ["u", "v"], ["shifted"], direction="LEFT"), helper.make_node("Mod", ["i", "three"], ["rest"])]
        value = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [7, 33]), value("y", TensorProto.FLOAT, [33]), value("i", TensorProto.INT64, [5]),
                                               value("u", TensorProto.UINT16, [9]), value("v", TensorProto.UINT16, [9])],
                                  [value("isAbove", TensorProto.BOOL, [7, 33]), value("rows", TensorProto.FLOAT, [5, 33]), value("wide", TensorProto.DOUBLE, [7, 33]),
                                   value("shifted", TensorProto.UINT16, [9]), value("rest", TensorProto.INT64, [5])],
                                  [helper.make_tensor("three", TensorProto.INT64, [], [3])])
        (self.path / "m.onnx").write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
        self.compile("m.onnx", "--name", "net", "-o", "lib")
        tensors = self.any_program("lib/libnet.a", "net")
        self.assertEqual([element for _, _, element, _ in tensors], ["float", "float", "int64", "uint16", "uint16", "bool", "float", "double", "uint16", "int64"])
        random = np.random.default_rng(1)
        x, y = (random.standard_normal(shape).astype(np.float32) for shape in [(7, 33), 33])
        x[0, :4] = [np.nan, np.inf, -np.inf, 0]
        i = np.array([6, -1, 0, -7, 3])
        u, v = random.integers(0, 65536, 9).astype(np.uint16), np.array([0, 1, 2, 3, 7, 15, 16, 17, 65535], np.uint16)
        out = self.execute("./any", data=b"".join(tensor.tobytes() for tensor in [x, y, i, u, v]))
        least = np.where(x >= y, y, x)
        with np.errstate(all="ignore"):
            sine = np.sin(np.log(np.abs(least)))
        expected = [x >= y, sine[i], least.astype(np.float64), np.where(v < 16, u << np.minimum(v, 15), 0).astype(np.uint16), i % 3]
        for tensor in expected:
            actual = np.frombuffer(out, tensor.dtype, tensor.size).reshape(tensor.shape)
            out = out[tensor.nbytes:]
            if tensor.dtype == np.float32:
                np.testing.assert_allclose(actual, tensor, rtol=1e-5, atol=1e-5)
            else:
                np.testing.assert_array_equal(actual, tensor)
        self.assertEqual(out, b"")

    def test_names_that_c_would_not_have(self):
        from onnx import TensorProto, helper, save
        inputs, outputs = ["x:0", "x_0", "X.0", "int", "arena", "*/ int"], ["1", "x_0_count", "linux"]
        value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])
        nodes = [helper.make_node("Sum", inputs, ["1"]), helper.make_node("Sub", ["x:0", "x_0"], ["x_0_count"]), helper.make_node("Sub", ["int", "*/ int"], ["linux"])]
        save(helper.make_model(helper.make_graph(nodes, "g", [value(name) for name in inputs], [value(name) for name in outputs]),
                               opset_imports=[helper.make_opsetid("", 13)]), self.path / "net.onnx")
        self.compile("net.onnx", "-o", "lib")
        tensors = self.any_program("lib/libnet.a", "net")
        self.assertEqual([tensor[2:] for tensor in tensors], [("float", [2])] * 9)
        x = np.arange(12, dtype=np.float32).reshape(6, 2) ** 2
        y = np.frombuffer(self.execute("./any", data=x.tobytes()), np.float32).reshape(3, 2)
        np.testing.assert_array_equal(y, [x.sum(0), x[0] - x[1], x[3] - x[5]])

    def test_wrong_arguments_are_return_codes(self):
        self.compile(DIGITS / "digits_fp32.onnx", "--name", "d", "-o", ".")
        self.program("wrong", """#include "d.h"
#include <assert.h>
#undef NDEBUG
int main(void) {
  static _Alignas(D_ARENA_ALIGNMENT) char arena[D_ARENA_BYTES + D_ARENA_ALIGNMENT];
  static float x[D_IMAGE_COUNT + 1], y[D_LOGITS_COUNT + 1];
  assert(d_run(x, y, arena, D_ARENA_BYTES, NULL) == D_OK);
  assert(d_run(NULL, y, arena, D_ARENA_BYTES, NULL) == D_NULL_POINTER);
  assert(d_run(x, NULL, arena, D_ARENA_BYTES, NULL) == D_NULL_POINTER);
  assert(d_run(x, y, NULL, D_ARENA_BYTES, NULL) == D_NULL_POINTER);
  assert(d_run(x, y, arena, D_ARENA_BYTES - 1, NULL) == D_SMALL_ARENA);
  assert(d_run(x, y, arena + 8, D_ARENA_BYTES, NULL) == D_MISALIGNED);
  assert(d_run((float *)((char *)x + 2), y, arena, D_ARENA_BYTES, NULL) == D_MISALIGNED);
  assert(d_run(x, (float *)((char *)y + 1), arena, D_ARENA_BYTES, NULL) == D_MISALIGNED);
  assert(d_run(x, x + D_IMAGE_COUNT - 1, arena, D_ARENA_BYTES, NULL) == D_OVERLAP);
  assert(d_run((float *)arena, y, arena, D_ARENA_BYTES, NULL) == D_OVERLAP);
  assert(d_run(x, (float *)(arena + D_ARENA_BYTES - 4), arena, D_ARENA_BYTES, NULL) == D_OVERLAP);
  return 0;
}
""", "./libd.a")
        self.execute("./wrong")

    def test_weights_in_a_file(self):
        self.compile(DIGITS / "digits_fp32.onnx", "--name", "d", "--weights", "file", "-o", "lib")
        self.assertEqual(sorted(os.listdir(self.path / "lib")), ["d.h", "d.weights.bin", "libd.a"])
        self.program("loads", """#include "d.h"
#include <stdio.h>
int main(int argc, char **argv) {
  static _Alignas(D_ARENA_ALIGNMENT) char arena[D_ARENA_BYTES];
  float image[D_IMAGE_COUNT], logits[D_LOGITS_COUNT];
  const void *weights;
  int status = d_load_weights(argc > 1 ? argv[1] : NULL, &weights);
  if (status)
    return weights ? 99 : status;
  while (!status && fread(image, sizeof image, 1, stdin) == 1 && !(status = d_run(image, logits, weights, arena, sizeof arena, NULL)))
    fwrite(logits, sizeof logits, 1, stdout);
  d_unload_weights(weights);
  return status;
}
""".replace("  const void *weights;", "  const void *weights = NULL;"), "lib/libd.a")
        self.assert_right(self.logits("./loads", "lib/d.weights.bin"), "fp32")
        weights = (self.path / "lib/d.weights.bin").read_bytes()
        self.assertIn(f"#define D_WEIGHTS_BYTES {len(weights)}\n", (self.path / "lib/d.h").read_text())
        damaged = bytearray(weights)
        damaged[len(weights) // 2] ^= 1
        for content in [b"", weights[:-1], weights + b"\0", damaged]:
            (self.path / "wrong.bin").write_bytes(content)
            self.execute("./loads", "wrong.bin", status=6)
        self.execute("./loads", "none.bin", status=5)
        (self.path / "folder").mkdir()
        os.mkfifo(self.path / "pipe")
        for unreadable in ["folder", "pipe"]:
            self.execute("./loads", unreadable, status=5)
        self.program("over", """#include "d.h"
int main(void) {
  static _Alignas(D_ARENA_ALIGNMENT) char arena[D_ARENA_BYTES], image[sizeof(float) * D_IMAGE_COUNT];
  const void *weights = NULL;
  if (d_load_weights("lib/d.weights.bin", &weights))
    return 99;
  return d_run((float *)image, (float *)weights, weights, arena, sizeof arena, NULL);
}
""", "lib/libd.a")
        self.execute("./over", status=4)
        self.execute("./loads", status=1)

    def test_equal_compilations_are_equal_files(self):
        for folder in ["a", "b"]:
            self.compile(DIGITS / "digits_int8_qdq.onnx", "--weights", "file", "-o", folder)
        for name in os.listdir(self.path / "a"):
            self.assertEqual((self.path / "a" / name).read_bytes(), (self.path / "b" / name).read_bytes(), name)

    def test_libraries_show_their_own_names_alone(self):
        """Besides its functions a program sees nothing of a library, and of others it only uses the C library's."""
        self.compile(DIGITS / "digits_int8_qdq.onnx", "--name", "d", "-o", ".")
        self.program("small", '#include "d.h"\nint main(void) { return d_run(0, 0, 0, 0, 0) != D_NULL_POINTER; }\n', "./libd.a", compiler=("cc", "-shared", "-fPIC"))
        defined = {line.split()[-1] for line in self.execute("nm", "-D", "--defined-only", "small").decode().splitlines()}
        self.assertLessEqual(defined, {"main", "d_run", "d_threads_create", "d_threads_destroy"})
        used = {line.split()[-1].split("@")[0] for line in self.execute("nm", "-D", "-u", "small").decode().splitlines()}
        self.assertEqual([name for name in used if name.startswith(("tw_", "__kmpc", "_Z"))], [])


class ModelsTest(BundleTest):
    """Networks that others made, with what ONNX Runtime makes of their inputs."""

    def test_real_networks(self):
        if "TILEWRIGHT_MODELS" not in os.environ:
            print("skipped: TILEWRIGHT_MODELS is not set", file=sys.stderr)
            self.skipTest("TILEWRIGHT_MODELS")
        import onnx
        from onnx import numpy_helper

        def read(stem):
            if stem.with_suffix(".npy").exists():
                return np.load(stem.with_suffix(".npy"))
            return numpy_helper.to_array(onnx.load_tensor(stem.with_suffix(".pb")))

        elements = {"float": np.float32, "uint8": np.uint8, "int8": np.int8, "int64": np.int64}
        # The tolerances are those of docs/files.md.
        for model, tolerance in [("mlperf_tiny_ic_resnet8_fp32", 1e-4), ("mlperf_tiny_ic_resnet8_int8_qdq", 0.02), ("mlperf_tiny_kws_dscnn_int8_qdq", 0.02),
                                 ("npm_blazeface_front_128", 1e-4), ("npm_ppocr_v2_cls", 1e-4), ("squeezenet1.1_fp16", 2e-3), ("ultraface_slim320_simplified", 1e-4)]:
            folder = pathlib.Path(os.environ["TILEWRIGHT_MODELS"]) / model
            data = folder / "test_data_set_0"
            inputs = read(data / "input_0")
            name = json.loads((data / "inputs.json").read_text())[0]["name"]
            self.compile(folder / "model.onnx", "--name", "net", "-o", "lib", "--shape", f"{name}={','.join(map(str, inputs.shape))}")
            tensors = self.any_program("lib/libnet.a", "net")
            out = self.execute("./any", data=b"".join(inputs.astype(elements[element]).tobytes() for kind, _, element, _ in tensors if kind == "Input"))
            for index, (_, name, element, shape) in enumerate(tensor for tensor in tensors if tensor[0] == "Output"):
                actual = np.frombuffer(out, elements[element], int(np.prod(shape))).astype(np.float64)
                out = out[actual.size * np.dtype(elements[element]).itemsize:]
                expected = read(data / f"output_{index}").astype(np.float64).ravel()
                np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.ptp(expected), err_msg=f"{model} {name}")


class EmitTest(BundleTest):
    def test_one_object_is_the_library(self):
        self.compile(DIGITS / "digits_fp32.onnx", "--name", "digits", "-o", "lib")
        self.compile(DIGITS / "digits_fp32.onnx", "--name", "digits", "--emit", "obj")
        self.program("program", PROGRAM.replace("NAME", "digits").replace("UPPER", "DIGITS").replace('"digits.h"', '"lib/digits.h"'), "./digits.o")
        self.assert_right(self.logits("./program"), "fp32")

    def test_text_of_all_kernels(self):
        llvm = self.execute(BINARY, "compile", "gemm:8x8x8:fp32", "--target", "cpu", "--name", "g", "--emit", "llvm", "--arch", "aarch64").decode()
        self.assertIn('target triple = "aarch64-unknown-linux-gnu"', llvm)
        self.assertRegex(llvm, r"define .*i32 @g_run\(")
        self.assertRegex(llvm, r"define hidden .*void @g_kernel_\w+\(")
        for processor, pattern in [(["--arch", "aarch64"], r"\tfmla\tv\d+\.4s"), (["--cpu", "haswell", "--arch", "x86_64"], r"\tvfmadd\w+\t.*%ymm"),
                                   (["--cpu", "skylake-avx512", "--arch", "x86_64"], r"\tvfmadd\w+\t.*%zmm"),
                                   (["--arch", "riscv64", "--features", "+v"], r"\tvfmacc\.v")]:
            self.compile("gemm:64x64x64:fp32", "--emit", "asm", "-o", "g.s", *processor)
            self.assertRegex((self.path / "g.s").read_text(), pattern)
        for processor, pattern in [(["--arch", "aarch64", "--cpu", "neoverse-n1"], r"\tsdot\tv\d+\.4s"), (["--arch", "aarch64", "--features", "+i8mm"], r"\tusdot\tv\d+\.4s"),
                                   (["--arch", "x86_64", "--cpu", "cascadelake"], r"\tvpdpbusd\t.*%zmm"), (["--arch", "x86_64", "--cpu", "alderlake"], r"\tvpdpbusd\t.*%ymm"),
                                   (["--arch", "x86_64", "--cpu", "haswell"], r"\tvpmaddwd\t.*%ymm")]:
            self.compile("gemm:64x64x64:int8", "--emit", "asm", "-o", "g.s", *processor)
            self.assertRegex((self.path / "g.s").read_text(), pattern)
        self.compile("gemm:64x64x64:fp32", "--emit", "asm", "-o", "g.s", "--cpu", "x86-64", "--arch", "x86_64")
        self.assertNotRegex((self.path / "g.s").read_text(), r"%[yz]mm|vfmadd")


class CrossTest(BundleTest):
    ARM = ("clang-14", "--target=aarch64-linux-gnu", "-fuse-ld=lld-14"), ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")
    RISCV = ("clang-14", "--target=riscv64-linux-gnu", "-march=rv64gc"), ("qemu-riscv64", "-L", "/usr/riscv64-linux-gnu")

    def setUp(self):
        super().setUp()
        self.images = self.images[:3] # emulation takes its time
        need("clang-14", "ld.lld-14", "qemu-aarch64", "riscv64-linux-gnu-ld", "qemu-riscv64",
             files=[f"/usr/{path}" for arch in ["aarch64", "riscv64"] for path in [f"{arch}-linux-gnu/include/stdio.h", f"lib/gcc-cross/{arch}-linux-gnu"]])

    def digits(self, arch, options, emulated, compiler, emulator, forms=("fp32", "int8_qdq")):
        for form in forms:
            self.compile(DIGITS / f"digits_{form}.onnx", "--name", "digits", "--arch", arch, *options, "-o", "lib")
            self.program("program", PROGRAM.replace("NAME", "digits").replace("UPPER", "DIGITS"), "lib/libdigits.a", compiler=compiler)
            for threads in [(), (2,)]:
                self.assert_right(self.logits(*emulator, "-cpu", emulated, "./program", *threads), form)

    def products(self, arch, options, emulated, compiler, emulator):
        """Sums of products of bytes, their extremes among them, are exact, whichever instructions make them."""
        rows, depth, columns = 13, 67, 37
        self.write("net.mlir", f"""func.func @main(%x: tensor<{rows}x{depth}xi8>, %w: tensor<{depth}x{columns}xi8>) -> tensor<{rows}x{columns}xi32> {{
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<{rows}x{columns}xi32>
  %z = linalg.fill ins(%c0 : i32) outs(%e : tensor<{rows}x{columns}xi32>) -> tensor<{rows}x{columns}xi32>
  %m = linalg.matmul ins(%x, %w : tensor<{rows}x{depth}xi8>, tensor<{depth}x{columns}xi8>) outs(%z : tensor<{rows}x{columns}xi32>) -> tensor<{rows}x{columns}xi32>
  return %m : tensor<{rows}x{columns}xi32>
}}
""")
        random = np.random.default_rng(1)
        x, w = (random.choice([-128, -127, -1, 0, 1, 100, 127], shape).astype(np.int8) for shape in [(rows, depth), (depth, columns)])
        self.compile("net.mlir", "--arch", arch, *options, "-o", "lib")
        self.program("net", f"""#include "net.h"
#include <stdio.h>
static int8_t x[{rows * depth}], w[{depth * columns}];
static int32_t sums[{rows * columns}];
static _Alignas(NET_ARENA_ALIGNMENT) char arena[NET_ARENA_BYTES];
int main(void) {{
  if (fread(x, sizeof x, 1, stdin) != 1 || fread(w, sizeof w, 1, stdin) != 1)
    return 99;
  int status = net_run(x, w, sums, arena, sizeof arena, NULL);
  fwrite(sums, sizeof sums, 1, stdout);
  return status;
}}
""", "lib/libnet.a", compiler=compiler)
        sums = np.frombuffer(self.execute(*emulator, "-cpu", emulated, "./net", data=x.tobytes() + w.tobytes()), np.int32).reshape(rows, columns)
        np.testing.assert_array_equal(sums, x.astype(np.int32) @ w.astype(np.int32), str(options))

    def test_aarch64(self):
        # Without dot products; with those of signed bytes; with those of mixed signs.
        for options, emulated in [([], "cortex-a53"), (["--cpu", "cortex-a53"], "cortex-a53"), (["--cpu", "neoverse-n1"], "neoverse-n1"), (["--cpu", "neoverse-n2"], "max")]:
            self.digits("aarch64", options, emulated, *self.ARM)
            self.products("aarch64", options, emulated, *self.ARM)

    def test_riscv(self):
        self.digits("riscv64", [], "rv64", *self.RISCV)
        self.products("riscv64", [], "rv64", *self.RISCV)

    def test_riscv_with_vectors(self):
        for length, features in [(128, "+v"), (512, "+v"), (256, "+v,+zvl256b")]:
            emulated = f"rv64,v=true,vext_spec=v1.0,vlen={length}"
            # QEMU 7.2 aborts where vfcvt.rtz.x.f.v is the first instruction of a block that rounds, which the int8 network has.
            self.digits("riscv64", ["--features", features], emulated, *self.RISCV, forms=["fp32"])
            self.products("riscv64", ["--features", features], emulated, *self.RISCV)
        self.execute("qemu-riscv64", "-L", "/usr/riscv64-linux-gnu", "-cpu", "rv64,v=true,vext_spec=v1.0,vlen=128", "./program", status=7, data=bytes(256))


class RefusalTest(BundleTest):
    def fails(self, *options, message, model=DIGITS / "digits_fp32.onnx"):
        error = self.compile(model, *options, status=1)
        self.assertIn(message, error)
        self.assertEqual(len(error.strip().splitlines()), 1, error)

    def test_processors_that_llvm_has_no_code_for(self):
        self.fails("--arch", "riscv64", "--features=+zfinx", message="LLVM makes no code for the processor of --arch, --cpu and --features: ")

    def test_processors(self):
        self.fails("--cpu", "hasswell", "--arch", "x86_64", message="--cpu is 'hasswell' but x86_64 has no such processor; did you mean 'haswell'?")
        self.fails("--cpu", "cortex-a53", "--arch", "x86_64", message="--cpu cortex-a53 is a processor of aarch64, not of x86_64")
        self.fails("--features", "+avx521f", "--arch", "x86_64", message="--features has 'avx521f' but x86_64 has no such feature; did you mean 'avx512f'?")
        self.fails("--features", "avx2", message="--features is 'avx2' but must be +NAME,-NAME,...")
        self.fails("--arch", "mips", message="--arch: mips not in {x86_64,aarch64,riscv64}")
        other = "aarch64" if os.uname().machine == "x86_64" else "x86_64"
        self.fails("--arch", other, "--cpu", "native", message="--cpu native is the processor this process runs on")
        self.assertEqual(os.listdir(self.path), [])

    def test_options_of_the_other_target(self):
        self.fails("--hw", "tiny_8x8", message="--hw is for --target accel: --cpu and --arch name the processor of --target cpu")
        self.fails("--emit", "isa", message="--emit is 'isa' but --target cpu has import, graph, linalg, fusion, llvm, asm and obj")
        for option in [["--cpu", "native"], ["--features", "+sse2"], ["--arch", "x86_64"], ["--name", "d"], ["--weights", "file"], ["--emit", "asm"]]:
            error = self.execute(BINARY, "compile", DIGITS / "digits_fp32.onnx", "--hw", "tiny_8x8", *option, status=1).decode()
            self.assertIn(f"{' '.join(option) if option[0] == '--emit' else option[0]} is for --target cpu", error)

    def test_names(self):
        self.fails("--name", "3x", message="--name is '3x' but must be a C identifier that is no keyword, like net_3x")
        self.fails("--name", "a b", message="--name is 'a b' but must be a C identifier")
        self.fails("--name", "int", message="like net_int")
        shutil.copy(DIGITS / "digits_fp32.onnx", self.path / "my-net 2.onnx")
        result = subprocess.run([BINARY, "compile", "my-net 2.onnx", "--target", "cpu"], cwd=self.path, capture_output=True, text=True, timeout=100)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("note: 'my-net 2' is no C identifier: files and symbols are called my_net_2", result.stderr)
        self.assertTrue((self.path / "libmy_net_2.a").exists())
        self.assertIn("int my_net_2_run(", (self.path / "my_net_2.h").read_text())

    def test_folders(self):
        self.write("file", "")
        self.fails("-o", "file", message="cannot make folder 'file': File exists")
        self.fails("-o", "none/lib", message="cannot make folder 'none/lib': No such file or directory")
        (self.path / "closed").mkdir()
        (self.path / "closed").chmod(stat.S_IRUSR | stat.S_IXUSR)
        if os.geteuid() != 0: # who may write everywhere
            self.fails("-o", "closed", message="cannot write 'closed/libdigits_fp32.a': Permission denied")
        self.fails("-o", "new", "--cpu", "nothing", message="--cpu is 'nothing'")
        self.assertFalse((self.path / "new").exists(), "nothing half-written is left")
        (self.path / "digits_fp32.h").mkdir()
        self.fails(message="'./digits_fp32.h'")
        self.assertFalse((self.path / "libdigits_fp32.a").exists(), "nothing half-written is left")

    def test_models(self):
        self.fails(model="none.onnx", message="none.onnx")
        self.write("net.mlir", """func.func @main(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  return %x : tensor<?x8xf32>
}
""")
        self.fails(model="net.mlir", message="'input0' of @main is tensor<?x8xf32> but must be a tensor of fixed shape")
        self.write("net.mlir", """func.func @main(%x: tensor<4x8xf32>) -> tensor<8xf32> {
  %s = tensor.extract_slice %x[0, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<8xf32>
  %e = tensor.empty() : tensor<8xf32>
  %y = linalg.winograd_output_transform m(4) r(3) ins(%x : tensor<4x8xf32>) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
""")
        self.fails(model="net.mlir", message="net.mlir:")
        self.compile(DIGITS / "digits_fp32.onnx", "-o", ".")
        self.execute(BINARY, "compile", "gemm:8x8x8:fp32", "--hw", "gemmini_16x16_fp32", "-o", "net.twp")
        self.fails(model="net.twp", message="net.twp is a program for an accelerator and cannot run on the CPU")

    def test_dynamic_shapes(self):
        import onnx
        from onnx import TensorProto, helper
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), self.path / "net.onnx")
        self.fails(model="net.onnx", message="--shape")
        self.compile("net.onnx", "--shape", "x=3,4")
        self.assertIn("#define NET_X_COUNT 12 ", (self.path / "net.h").read_text())


class SelectionTest(BundleTest):
    """--cpu and --features of the commands that run code here."""

    def test_a_lesser_processor_is_measured(self):
        if os.uname().machine != "x86_64":
            self.skipTest("the processors are those of x86_64")
        out = self.execute(BINARY, "compare", DIGITS / "digits_fp32.onnx", "--hw", "gemmini_16x16_fp32", "--repeat", "1", "--cpu", "x86-64")
        self.assertIn(b"the results agree", out)

    def test_a_greater_one_is_refused(self):
        arch, cpu = ("aarch64", "cortex-a53") if os.uname().machine == "x86_64" else ("x86_64", "haswell")
        error = self.execute(BINARY, "compare", DIGITS / "digits_fp32.onnx", "--hw", "gemmini_16x16_fp32", "--cpu", cpu, status=1)
        self.assertIn(f"--cpu {cpu} is a processor of {arch}".encode(), error)


class DocumentTest(BundleTest):
    def test_the_commands(self):
        """Every command of docs/cpu.md runs, in its order, and prints what is shown."""
        need("clang-14", "ld.lld-14", "qemu-aarch64", "riscv64-linux-gnu-ld", "qemu-riscv64",
             files=["/usr/aarch64-linux-gnu/include/stdio.h", "/usr/riscv64-linux-gnu/include/stdio.h"])
        shutil.copy(DIGITS / "digits_fp32.onnx", self.path / "digits.onnx")
        (self.path / "bin").mkdir()
        (self.path / "bin/tilewright").symlink_to(BINARY)
        self.write("prog.c", re.search(r"```c\n(.*?)```", DOCUMENT, re.S).group(1))
        blocks = re.findall(r"```sh\n(.*?)```", DOCUMENT, re.S)
        self.assertGreaterEqual(len(blocks), 3)
        for block in blocks:
            for command, shown in re.findall(r"^\$ (.*?)\n((?:(?!\$ ).*\n)*)", block, re.M):
                out = self.execute("bash", "-c", command, PATH=f"{self.path}/bin:{os.environ['PATH']}").decode()
                if shown:
                    self.assertEqual(out, shown, command)
        for path in pathlib.Path("/tmp").glob("perf-*.map"):
            if "tw_classifier" in path.read_text() and not pathlib.Path(f"/proc/{path.name[5:-4]}").exists():
                path.unlink()


if __name__ == "__main__":
    unittest.main()
