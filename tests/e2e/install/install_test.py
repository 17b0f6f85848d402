#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An installed tree works wherever it is moved, without sources and build.

Environment: TILEWRIGHT_SOURCE_DIR is the source tree, TILEWRIGHT_BINARY_DIR the build, CMAKE and CXX are programs.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TILEWRIGHT_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["TILEWRIGHT_BINARY_DIR"])

# Hides the sources, with the build in them, behind empty folders; the cache of RTL models keeps a place of its own.
HIDE = 'mount --bind "$BUILD/rtl-models" "$CACHE" && mount -t tmpfs none "$BUILD" && mount -t tmpfs none "$SOURCE" && exec "$@"'


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = pathlib.Path(cls.folder.name)
        subprocess.run([os.environ["CMAKE"], "--install", BUILD, "--prefix", cls.path / "first"], check=True, capture_output=True)
        cls.prefix = cls.path / "moved/here"
        cls.prefix.parent.mkdir()
        (cls.path / "first").rename(cls.prefix)
        for name in ["digits_int8_qdq.onnx", "images.npy", "logits_int8_qdq.npy"]:
            shutil.copy(SOURCE / "tests/data/digits" / name, cls.path)
        shutil.copy(SOURCE / "tests/plugin/PriorityPlugin.cpp", cls.path)
        cls.cache = cls.path / "cache"
        cls.cache.mkdir(mode=0o700)
        (BUILD / "rtl-models").mkdir(mode=0o700, exist_ok=True)
        cls.environment = {"PATH": os.environ["PATH"], "SOURCE": str(SOURCE), "BUILD": str(BUILD), "CACHE": str(cls.cache)}
        # Containers may not let us; then the tree is only moved.
        cls.hidden = cls.execute("true", hide=True).returncode == 0
        cls.environment["TILEWRIGHT_RTL_CACHE"] = str(cls.cache if cls.hidden else BUILD / "rtl-models")

    @classmethod
    def execute(cls, *command, hide=None):
        hide = cls.hidden if hide is None else hide
        wrapped = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", HIDE, "sh", *map(str, command)] if hide else list(map(str, command))
        return subprocess.run(wrapped, cwd=cls.path, env=cls.environment, capture_output=True, text=True, timeout=500)

    def tilewright(self, *arguments, status=0, prefix=None):
        result = self.execute((prefix or self.prefix) / "bin/tilewright", *arguments)
        self.assertEqual(result.returncode, status, f"{arguments}\n{result.stdout}\n{result.stderr}")
        return result.stdout if status == 0 else result.stderr

    def test_machines_are_found(self):
        shipped = {path.stem for path in (self.prefix / "share/tilewright/hw-configs").glob("*.yaml")}
        self.assertIn("tiny_8x8", shipped)
        listed = {line.split()[0] for line in self.tilewright("hw", "list").splitlines()[2:] if line.strip()}
        self.assertTrue(shipped <= listed | {"machine"}, f"{shipped} {listed}")
        self.tilewright("hw", "validate", *sorted(shipped))

    def test_a_network_runs(self):
        self.tilewright("run", "digits_int8_qdq.onnx", "--hw", "gemmini_16x16_int8", "--input", "images.npy", "--batch", "--expect",
                        "logits_int8_qdq.npy")

    def test_the_rtl_is_built_and_agrees(self):
        self.assertIn("SystemC and RTL agree", self.tilewright("verify", "gemm:8x8x8:int8", "--hw", "tiny_8x8"))

    def test_a_plugin_compiles_and_loads(self):
        compiled = self.execute(os.environ["CXX"], "-std=c++17", "-shared", "-fPIC", "-I", self.prefix / "include/tilewright", "PriorityPlugin.cpp", "-o",
                                "longest_path.so")
        self.assertEqual(compiled.returncode, 0, compiled.stderr)
        result = self.execute(self.prefix / "bin/tilewright", "run", "gemm:16x16x16:int8", "--hw", "tiny_8x8", "--load-plugin", "longest_path.so")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("adds priority longest_path", result.stderr)

    def test_a_c_program_finds_the_library(self):
        project = self.path / "project"
        project.mkdir()
        (project / "CMakeLists.txt").write_text("""
            cmake_minimum_required(VERSION 3.25)
            project(Example C)
            find_package(Tilewright 0.1 REQUIRED)
            add_executable(example example.c)
            target_link_libraries(example PRIVATE Tilewright::tilewright)""")
        (project / "example.c").write_text(r"""
            #include <stdio.h>
            #include <tilewright.h>
            int main(void) {
              tw_machine *machine; tw_model *model; tw_program *program; tw_result *result;
              if (tw_machine_load("tiny_8x8", NULL, 0, &machine) || tw_model_load("gemm:16x16x16:int8", &model) ||
                  tw_compile(model, machine, NULL, 0, &program) || tw_run(program, NULL, 0, NULL, 0, &result)) {
                fprintf(stderr, "%s\n", tw_error_message());
                return 1;
              }
              printf("%zu outputs\n", tw_result_output_count(result));
              tw_result_free(result); tw_program_free(program); tw_model_free(model); tw_machine_free(machine);
              return 0;
            }""")
        for step in ([os.environ["CMAKE"], "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}"],
                     [os.environ["CMAKE"], "--build", project / "build"]):
            made = self.execute(*step)
            self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        result = self.execute(project / "build/example")
        self.assertEqual((result.returncode, result.stdout), (0, "1 outputs\n"), result.stderr)

    @unittest.skipUnless((BUILD / "python/tilewright").exists(), "the build has no Python package")
    def test_a_wheel_installs_into_an_environment(self):
        tree, wheels = self.path / "tree", self.path / "wheels"
        subprocess.run([os.environ["CMAKE"], "--install", BUILD, "--component", "python", "--prefix", tree], check=True, capture_output=True)
        wheels.mkdir()
        info = tree / "tilewright-0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tilewright\nVersion: 0\nRequires-Dist: numpy\n")
        (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: py3-none-any\n")
        for step in (["/usr/bin/python3", "-m", "wheel", "pack", tree, "--dest-dir", wheels],
                     ["/usr/bin/python3", "-m", "venv", "--system-site-packages", self.path / "venv"],
                     [self.path / "venv/bin/pip", "install", "--no-index", wheels / "tilewright-0-py3-none-any.whl"]):
            done = subprocess.run(step, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        shutil.rmtree(tree)
        result = self.execute(self.path / "venv/bin/python", "-c", "import tilewright as tw; "
                              "print(tw.compile('digits_int8_qdq.onnx', 'tiny_8x8').run().report.total_cycles > 0, "
                              "'total_cycles' in tw.compare('gemm:8x8x8:int8', 'tiny_8x8', repeat=1) or 'compared')")
        self.assertEqual((result.returncode, result.stdout), (0, "True compared\n"), result.stderr)

    def test_a_link_to_the_binary_finds_its_tree(self):
        (self.path / "bin").mkdir()
        (self.path / "bin/tilewright").symlink_to(self.prefix / "bin/tilewright")
        self.assertIn("tiny_8x8", self.tilewright("hw", "list", prefix=self.path))

    def test_a_binary_without_its_tree_says_where_it_looked(self):
        (self.path / "alone/bin").mkdir(parents=True)
        shutil.copy(self.prefix / "bin/tilewright", self.path / "alone/bin")
        error = self.tilewright("hw", "validate", "tiny_8x8", status=1, prefix=self.path / "alone")
        self.assertIn(f"no machine in '{self.path}/alone/share/tilewright/hw-configs', which holds none", error)
        self.assertIn(f"{self.path}/alone/share/tilewright/hw-configs", self.tilewright("hw", "list", status=1, prefix=self.path / "alone"))

    def test_the_binary_names_no_folder_of_sources_or_build(self):
        binary = (self.prefix / "bin/tilewright").read_bytes()
        for root in [SOURCE, BUILD]:
            for folder in ["", "/", "/hw-configs", "/simulator", "/simulator/rtl", "/isa/tw_isa_pkg.sv", "/simulator/rtl/tw_tables_pkg.sv"]:
                self.assertNotIn(f"\0{root}{folder}\0".encode(), binary)


if __name__ == "__main__":
    unittest.main()
