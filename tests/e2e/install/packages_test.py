#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Debian packages of the build tree: what they say, what they hold, and how they work where dpkg has extracted them; nothing is installed.
Environment: tree.py."""
import os
import re
import shutil
import subprocess
import unittest

from tree import BUILD, SOURCE, TreeTest

VERSION = re.search(r"^project\(Tilewright VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text(), re.M)[1]
NAMES = ["libtilewright-dev", "libtilewright0", "python3-tilewright", "tilewright"]
CPACK = os.path.join(os.path.dirname(os.environ["CMAKE"]), "cpack")

SCRIPT = """
import numpy
import tilewright as tw

assert tw.__file__.startswith({here!r}), tw.__file__
machine = tw.Machine.load("gemmini_16x16_int8").with_({{"clock_mhz": 500}})
program = tw.compile("digits_int8_qdq.onnx", machine)
result = program.run([numpy.load("images.npy")[:1]])
assert result.report.total_cycles > 0 and next(iter(result.outputs.values())).shape == (1, 10)
print(tw.__version__, tw.profile("gemm:8x8x8:int8", "tiny_8x8")["schema"])
"""


def output(*command):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


@unittest.skipUnless((BUILD / "python/tilewright").exists(), "the build has no Python package")
@unittest.skipUnless(shutil.which("dpkg-shlibdeps") and shutil.which("file"), "needs dpkg-dev and file: scripts/setup.sh packages")
class PackagesTest(TreeTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        made = cls.path / "made"
        # Nothing is compressed, and of the two files that LLVM is linked to, dpkg-shlibdeps reads the command: that takes 12 s for each.
        done = subprocess.run([CPACK, "--config", BUILD / "CPackConfig.cmake", "-B", made, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=none",
                               "-D", "CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS=OFF"], capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        cls.files = sorted(made.glob("*.deb"))
        cls.root = cls.path / "root"
        for file in cls.files:
            output("dpkg", "-x", file, cls.root)
        shutil.rmtree(made / "_CPack_Packages")
        cls.bin, cls.share = cls.root / "usr/bin/tilewright", cls.root / "usr/share"

    def fields(self, name):
        file = next(file for file in self.files if file.name.startswith(name + "_"))
        return dict(re.findall(r"^([\w-]+): (.*)$", output("dpkg-deb", "--field", file), re.M)), file

    def test_the_commands_of_the_page(self):
        (self.path / "build").mkdir()
        (self.path / "build/packages").symlink_to(self.path / "made")
        commands = (SOURCE / "docs/packages.md").read_text().split("```sh\n")[1].split("```")[0]
        printed = self.output("bash", "-ec", commands)
        for text in [" Package: tilewright\n", " ./usr/bin/tilewright\n", "\ntiny_8x8 ", f"\n{VERSION}\n"]:
            self.assertIn(text, printed)

    def test_what_they_say(self):
        architecture = output("dpkg", "--print-architecture").strip()
        self.assertEqual([file.name for file in self.files], [f"{name}_{VERSION}_{architecture}.deb" for name in NAMES])
        # Libraries of the computed dependencies, packages of the named ones.
        depends = {"tilewright": ["libc6", "libmlir-19", "libsystemc", "libyaml-cpp"],
                   "libtilewright0": [f"tilewright (= {VERSION})"],
                   "libtilewright-dev": [f"libtilewright0 (= {VERSION})"],
                   "python3-tilewright": ["libc6", "python3 (>= 3.", "python3 (<< 3.", "python3-numpy", f"libtilewright0 (= {VERSION})", f"tilewright (= {VERSION})"]}
        for name in NAMES:
            fields, _ = self.fields(name)
            self.assertEqual((fields["Package"], fields["Version"], fields["Architecture"]), (name, VERSION, architecture))
            self.assertRegex(fields["Maintainer"], r"^[^<>]+ <[^<>@ ]+@[^<>@ ]+>$")
            self.assertRegex(fields["Description"], "^compiler ")
            for one in depends[name]:
                self.assertIn(one, fields["Depends"])

    def test_what_they_hold(self):
        where = {"tilewright": r"usr/bin/tilewright(-gpu)?|usr/share/(tilewright|man/man1|bash-completion|fish|zsh/vendor-completions)/.*",
                 "libtilewright0": rf"usr/lib/libtilewright\.so\.0(\.{re.escape(VERSION[2:])})?",
                 "libtilewright-dev": r"usr/include/tilewright(\.h|/.*\.(h|inc))|usr/lib/(libtilewright\.so|cmake/Tilewright/.*\.cmake)",
                 "python3-tilewright": r"usr/lib/python3/dist-packages/tilewright/.*(\.pyi?|\.so|py\.typed)"}
        held = {}
        for name in NAMES:
            _, file = self.fields(name)
            rows = [line.split(None, 5) for line in output("dpkg-deb", "--contents", file).splitlines()]
            for mode, owner, *_, path in rows:
                path = path.split(" -> ")[0].removeprefix("./").rstrip("/")
                self.assertEqual(owner, "root/root", path)
                self.assertRegex(mode, "^(-rw-r--r--|lrwxrwxrwx|[d-]rwxr-xr-x)$", path)
                if not mode.startswith("d"):
                    self.assertRegex(path, rf"^({where[name]}|usr/share/doc/{name}/copyright)$")
                    self.assertIsNone(held.setdefault(path, None), path)
        for path in ["usr/share/tilewright/hw-configs/tiny_8x8.yaml", "usr/share/tilewright/schemas/run.schema.json", "usr/share/tilewright/rtl/tw_isa_pkg.sv",
                     "usr/share/man/man1/tilewright-run.1.gz", "usr/share/bash-completion/completions/tilewright", "usr/include/tilewright.h",
                     "usr/lib/cmake/Tilewright/TilewrightConfig.cmake", "usr/lib/python3/dist-packages/tilewright/report/page.py"]:
            self.assertIn(path, held)
        page = "share/tilewright/report/template.html"
        self.assertEqual(f"usr/{page}" in held, (BUILD / page).exists())

    def test_no_text_names_sources_or_build(self):
        for file in self.root.rglob("*"):
            if file.is_file() and not file.is_symlink():
                data = file.read_bytes()
                for root in [SOURCE, BUILD]:
                    # What a binary says of itself in failed assertions are names of files below.
                    self.assertNotIn(f"{root}".encode() + (b"\0" if data.startswith(b"\x7fELF") else b""), data, file)

    def test_the_command(self):
        self.output(self.bin, "run", "digits_int8_qdq.onnx", "--hw", "gemmini_16x16_int8", "--input", "images.npy", "--batch", "--expect", "logits_int8_qdq.npy",
                    "--json", "run.json")
        self.a_page_is_made(self.bin, self.share / "tilewright")
        self.assertIn("usage: tilewright sweep", self.output(self.bin, "sweep", "--help"))
        (self.path / "alone/bin").mkdir(parents=True)
        shutil.copytree(self.share / "tilewright", self.path / "alone/share/tilewright")
        shutil.copy(self.bin, self.path / "alone/bin")
        self.assertIn("install python3-tilewright", self.output(self.path / "alone/bin/tilewright", "report", status=1))
        self.assertRegex(self.output(self.path / "alone/bin/tilewright", "doctor"), "Python package +no +.*install python3-tilewright")

    def test_the_python_package(self):
        (self.path / "script.py").write_text(SCRIPT.format(here=str(self.root)))
        printed = self.output("/usr/bin/python3", "script.py", PYTHONPATH=str(self.root / "usr/lib/python3/dist-packages"))
        self.assertEqual(printed, f"{VERSION} tilewright.profile/1\n")

    def test_a_c_program_finds_the_library(self):
        self.a_c_program_finds_the_library(self.root / "usr")

    def test_manual_pages(self):
        pages = sorted((self.share / "man/man1").iterdir())
        self.assertGreater(len(pages), 15)
        if not shutil.which("man"):
            self.skipTest("there is no man")
        for page in pages:
            name = page.name.removesuffix(".1.gz")
            text = self.output("man", "-l", page, MANPAGER="cat", MANWIDTH="100")
            self.assertIn(name.upper(), text)

    def test_completions(self):
        for shell, file in [("bash", "bash-completion/completions/tilewright"), ("zsh", "zsh/vendor-completions/_tilewright"),
                            ("fish", "fish/vendor_completions.d/tilewright.fish")]:
            self.assertTrue((self.share / file).is_file(), file)
            if shutil.which(shell):
                self.output(shell, "-n", self.share / file)


if __name__ == "__main__":
    unittest.main()
