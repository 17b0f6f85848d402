#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An installed tree works wherever it is moved, without sources and build. Environment: tree.py."""
import os
import shutil
import subprocess
import unittest

from tree import BUILD, CMAKE, SOURCE, TreeTest


class InstallTest(TreeTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", cls.path / "first"], check=True, capture_output=True)
        cls.prefix = cls.path / "moved/here"
        cls.prefix.parent.mkdir()
        (cls.path / "first").rename(cls.prefix)
        shutil.copy(SOURCE / "tests/plugin/PriorityPlugin.cpp", cls.path)

    def tilewright(self, *arguments, status=0, prefix=None):
        return self.output((prefix or self.prefix) / "bin/tilewright", *arguments, status=status)

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
        self.a_c_program_finds_the_library(self.prefix)

    @unittest.skipUnless((BUILD / "python/tilewright").exists(), "the build has no Python package")
    def test_a_page_is_made(self):
        self.tilewright("run", "digits_int8_qdq.onnx", "--hw", "gemmini_16x16_int8", "--json", "run.json")
        self.a_page_is_made(self.prefix / "bin/tilewright", self.prefix / "share/tilewright")

    @unittest.skipUnless((BUILD / "python/tilewright").exists(), "the build has no Python package")
    def test_a_wheel_installs_into_an_environment(self):
        tree, wheels = self.path / "tree", self.path / "wheels"
        subprocess.run([CMAKE, "--install", BUILD, "--component", "wheel", "--prefix", tree], check=True, capture_output=True)
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
        page = "tilewright/share/tilewright/report/template.html"
        self.assertEqual((tree / page).exists(), (BUILD / "share/tilewright/report/template.html").exists())
        shutil.rmtree(tree)
        result = self.execute(self.path / "venv/bin/python", "-c", "import tilewright as tw; "
                              "print(tw.compile('digits_int8_qdq.onnx', 'tiny_8x8').run().report.total_cycles > 0, "
                              "'total_cycles' in tw.compare('gemm:8x8x8:int8', 'tiny_8x8', repeat=1) or 'compared')")
        self.assertEqual((result.returncode, result.stdout), (0, "True compared\n"), result.stderr)
        # The program in it is whole: machines, RTL, page and the commands that are written in Python.
        package = next((self.path / "venv/lib").glob("python3*/site-packages/tilewright"))
        self.output(package / "bin/tilewright", "run", "digits_int8_qdq.onnx", "--hw", "gemmini_16x16_int8", "--json", "run.json")
        self.assertIn("machines, in ", self.output(package / "bin/tilewright", "doctor"))
        self.a_page_is_made(package / "bin/tilewright", package / "share/tilewright")

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
