# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs of an installed tree, run where neither sources nor build can be seen.

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
CMAKE = os.environ["CMAKE"]

# Hides the sources, with the build in them, behind empty folders; the cache of RTL models keeps a place of its own.
HIDE = 'mount --bind "$BUILD/rtl-models" "$CACHE" && mount -t tmpfs none "$BUILD" && mount -t tmpfs none "$SOURCE" && exec "$@"'

# As much of the page's template as `tilewright report` looks at.
TEMPLATE = '<title>Tilewright report</title><script type="application/json" id="data">null</script>\n'

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(Example C)
find_package(Tilewright 0.1 REQUIRED)
add_executable(example example.c)
target_link_libraries(example PRIVATE Tilewright::tilewright)"""
EXAMPLE = r"""
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
}"""


class TreeTest(unittest.TestCase):
    """path: a folder of the test's own, the working folder of everything that it runs."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.path = pathlib.Path(folder.name)
        for name in ["digits_int8_qdq.onnx", "images.npy", "logits_int8_qdq.npy"]:
            shutil.copy(SOURCE / "tests/data/digits" / name, cls.path)
        cls.cache = cls.path / "cache"
        cls.cache.mkdir(mode=0o700)
        (BUILD / "rtl-models").mkdir(mode=0o700, exist_ok=True)
        cls.environment = {"PATH": os.environ["PATH"], "SOURCE": str(SOURCE), "BUILD": str(BUILD), "CACHE": str(cls.cache), "HOME": str(cls.path)}
        # Containers may not let us; then the tree is only moved.
        cls.hidden = cls.execute("true", hide=True).returncode == 0
        cls.environment["TILEWRIGHT_RTL_CACHE"] = str(cls.cache if cls.hidden else BUILD / "rtl-models")

    @classmethod
    def execute(cls, *command, hide=None, **environment):
        hide = cls.hidden if hide is None else hide
        wrapped = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", HIDE, "sh", *map(str, command)] if hide else list(map(str, command))
        return subprocess.run(wrapped, cwd=cls.path, env={**cls.environment, **environment}, capture_output=True, text=True, timeout=500)

    def output(self, *command, status=0, **environment):
        """What a command prints: on standard output if it succeeds, on standard error if it is to fail."""
        result = self.execute(*command, **environment)
        self.assertEqual(result.returncode, status, f"{command}\n{result.stdout}\n{result.stderr}")
        return result.stdout if status == 0 else result.stderr

    def a_c_program_finds_the_library(self, prefix):
        project = self.path / "project"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(PROJECT)
        (project / "example.c").write_text(EXAMPLE)
        self.output(CMAKE, "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
        self.output(CMAKE, "--build", project / "build")
        self.assertEqual(self.output(project / "build/example"), "1 outputs\n")

    def a_page_is_made(self, tilewright, share):
        """`report` and `view` through the program, with and without the page's template; a network's document is in run.json."""
        for command, text in [("report", "usage: tilewright report [-h] -o PAGE"), ("view", "usage: tilewright view [-h] [--port PORT] FILE")]:
            self.assertIn(text, " ".join(self.output(tilewright, command, "--help").split()))
        template = share / "report/template.html"
        if not template.exists():
            error = self.output(tilewright, "report", "run.json", "-o", "page.html", status=1)
            self.assertIn("the page's template is not built: install node and npm (scripts/setup.sh web), then scripts/report-page.sh", error)
            self.assertRegex(self.output(tilewright, "doctor"), r"page of report +no +report, view +scripts/setup.sh web .*scripts/report-page.sh")
            template.parent.mkdir(exist_ok=True)
            template.write_text(TEMPLATE)
        self.output(tilewright, "report", "run.json", "-o", "page.html")
        self.assertIn("<title>digits_int8_qdq.onnx on gemmini_16x16_int8</title>", (self.path / "page.html").read_text())
        self.assertIn(str(template), self.output(tilewright, "doctor"))
