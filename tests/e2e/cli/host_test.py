#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a host has and is told of the program: doctor, manual pages, completions."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from cli_test import BINARY, SOURCE, CliTest


class DoctorTest(CliTest):
    def doctor(self, **environment):
        result = subprocess.run([BINARY, "doctor"], cwd=self.path, capture_output=True, text=True, timeout=300, env={**os.environ, **environment})
        return result.returncode, result.stdout, result.stderr

    def rows(self, out):
        """{what: the rest of the line}"""
        return dict(re.split(r"  +", line, 1) for line in out.splitlines() if "  " in line)

    def test_a_table_whatever_is_missing(self):
        for environment in [{}, {"PATH": "/nonexistent", "CXX": "/nonexistent/c++"}]:
            status, out, err = self.doctor(**environment)
            self.assertEqual((status, err), (0, ""))
            rows = self.rows(out)
            for what in ["Verilator", "make", "C++ compiler", "Python", "Python package", "Python module yaml", "page of report", "GPU driver", "ONNX Runtime"]:
                self.assertIn(what, rows)
            self.assertRegex(rows["what"], "^found +needed for +how to get it$")
        for what in ["Verilator", "make", "C++ compiler"]:
            self.assertTrue(rows[what].startswith("no "), rows[what])
            self.assertIn("apt-get install", rows[what])
        missing = sum(row.startswith("no ") for row in rows.values())
        self.assertIn(f"{missing} of {len(rows) - 1} missing", out)

    def test_what_is_there_is_found(self):
        tool = self.write("verilator", "#!/bin/sh\necho Verilator 9.99\n")
        tool.chmod(0o755)
        _, out, _ = self.doctor(PATH=f"{self.path}:{os.environ['PATH']}", CXX=f"{shutil.which('sh')} {self.write('cc', 'echo compiler 1')}")
        rows = self.rows(out)
        self.assertTrue(rows["Verilator"].startswith("Verilator 9.99"))
        self.assertTrue(rows["C++ compiler"].startswith("compiler 1"))
        self.assertTrue(rows["Python module numpy"].startswith("/usr/"))

    def test_the_page_of_report(self):
        share = self.path / "tool/share/tilewright"
        for folder in [self.path / "tool/bin", share / "report"]:
            folder.mkdir(parents=True)
        shutil.copy(BINARY, self.path / "tool/bin/tilewright")
        for name in ["hw-configs", "rtl"]:
            (share / name).symlink_to(pathlib.Path(BINARY).resolve().parents[1] / "share/tilewright" / name)

        def row():
            result = subprocess.run([self.path / "tool/bin/tilewright", "doctor"], capture_output=True, text=True, check=True, timeout=300)
            return self.rows(result.stdout)["page of report"]
        self.assertRegex(row(), r"^no +report, view +scripts/setup.sh web \(node 18 or newer, npm\), then scripts/report-page.sh$")
        (share / "report/template.html").write_text("")
        self.assertRegex(row(), rf"^{share}/report/template.html +report, view *$")

    def test_a_program_without_its_files(self):
        (self.path / "tool/bin").mkdir(parents=True)
        shutil.copy(BINARY, self.path / "tool/bin/tilewright")
        result = subprocess.run([self.path / "tool/bin/tilewright", "doctor"], capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 1)
        for text in ["no machine can be read in", "there is no RTL in", "installation is not whole"]:
            self.assertIn(text, result.stderr)


class ManualTest(CliTest):
    def setUp(self):
        super().setUp()
        described, _ = self.tilewright("--describe")
        self.commands = json.loads(described)
        subprocess.run([sys.executable, SOURCE / "scripts/man-pages.py", self.path / "share"], input=described, text=True, check=True, timeout=60)

    def test_commands_in_python_have_help(self):
        if not (pathlib.Path(BINARY).resolve().parents[1] / "python/tilewright").exists():
            self.skipTest("the build has no Python package")
        commands = [command["name"] for command in self.commands["commands"] if command["takes_rest"]]
        self.assertEqual(commands, ["sweep", "sensitivity", "report", "view"])
        for command in commands:
            out, _ = self.tilewright(command, "--help")
            self.assertTrue(out.startswith(f"usage: tilewright {command} "), out)
            self.assertEqual(out, self.tilewright(command, "-h")[0])

    def helps(self, words=(), command=None):
        """(words, names of options and commands) of every command, as --help lists them."""
        command = command or self.commands
        if command["takes_rest"]: # the help of another program
            return
        out, _ = self.tilewright(*words, "--help")
        options = {name for line in out.splitlines() if re.match(r"  -", line) for name in line.split()[0].split(",")}
        commands = set()
        if "Subcommands:" in out:
            commands = {line.split()[0] for line in out.split("Subcommands:\n")[1].splitlines() if re.match(r"  \w", line)}
        yield words, options, commands
        self.assertEqual(commands, {sub["name"] for sub in command["commands"]})
        for sub in command["commands"]:
            yield from self.helps((*words, sub["name"]), sub)

    def read(self, name):
        return (self.path / "share" / name).read_text()

    def complete(self, *words):
        """What bash offers for the last word."""
        script = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tilewright; printf "%s\\n" "${COMPREPLY[@]}"'
        result = subprocess.run(["bash", "-c", script, self.path / "share/bash-completion/completions/tilewright", "tilewright", *words],
                                cwd=self.path, capture_output=True, text=True, check=True, timeout=60)
        self.assertEqual(result.stderr, "")
        return set(result.stdout.split())

    def test_every_option_appears(self):
        zsh, fish = self.read("zsh/site-functions/_tilewright"), self.read("fish/vendor_completions.d/tilewright.fish")
        seen = 0
        for words, options, commands in self.helps():
            page = self.read(f"man/man1/{'-'.join(['tilewright', *words])}.1").replace("\\-", "-")
            self.assertEqual(self.complete(*words, "-"), options)
            function = zsh.split(f"_{'_'.join(['tilewright', *words])}() {{\n")[1].split("\n}\n")[0]
            here = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in words) or "__fish_use_subcommand"
            lines = [line for line in fish.splitlines() if f"-n '{here}' " in line]
            for option in options:
                seen += 1
                self.assertIn(f"\\fB{option}\\fR", page)
                self.assertIn(f"'*{option}[", function)
                name = f" -l {option[2:]} " if option.startswith("--") else f" -s {option[1:]} "
                self.assertTrue(any(name in line for line in lines), (words, option))
            if commands:
                self.assertEqual(self.complete(*words, ""), commands)
            for command in commands:
                self.assertIn(f"\\fB{'-'.join(['tilewright', *words, command])}\\fR(1)", page)
                self.assertIn(f" -a {command} ", fish)
                self.assertIn(f"      {command}) _{'_'.join(['tilewright', *words, command])} ;;", function)
        self.assertGreater(seen, 100)

    def test_bash_offers_choices_and_files(self):
        self.write("net.onnx", "")
        self.assertEqual(self.complete("run", "--model", ""), {"systemc", "rtl", "functional"})
        self.assertEqual(self.complete("run", "--across", "pre"), {"prefetch"})
        self.assertEqual(self.complete("run", "net"), {"net.onnx"})
        self.assertEqual(self.complete("hw", "desc"), {"describe"})
        self.assertIn("--technology", self.complete("hw", "describe", "--te"))

    def test_pages_are_pages(self):
        for page in (self.path / "share/man/man1").iterdir():
            text = page.read_text()
            self.assertTrue(text.startswith(".TH "))
            for section in ["NAME", "SYNOPSIS", "EXIT STATUS"]:
                self.assertIn(f".SH {section}\n", text)
            if shutil.which("groff"):
                result = subprocess.run(["groff", "-man", "-ww", "-Tutf8", page], capture_output=True, text=True, check=True, timeout=60)
                self.assertEqual(result.stderr, "")


if __name__ == "__main__":
    unittest.main()
