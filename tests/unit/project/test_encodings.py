# SPDX-License-Identifier: BSD-2-Clause
"""Text is UTF-8 whatever the locale: no command fails where Python's UTF-8 mode is off, and names are odd."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from signing import key_files
from tests.support import crypto_trees
from tests.support.commands import commands
from tests.support.places import CHECKOUT
from tests.support.signing_samples import ES256, small_trace
from trace_format.trace import Trace

PACKAGES = ("host_tools", "signing", "trace_format", "tee_replayer")
# What runs in the guest, whose locale is known, and a reader of ASCII whose own hash names the recording roots.
EXEMPT = ("host_tools/record/ncnn/guest/", "host_tools/machine/kernel_modules.py")
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
NO_TEXT = ("os.open", "tarfile.open", "token.open", "webbrowser.open")  # calls called open of what is no text
# The odd name is that of a file, a trace and a folder.
COMMAND_LINES = (
    "key new -o größe.pem",
    "key show größe.pem",
    "key public größe.pem -o größe.pub.pem",
    "sign größe.gtr --signing-key größe.pem -o größe.sgtr",
    "verify trace größe.sgtr --key größe.pub.pem",
    "verify trace größe.sgtr --key größe.pub.pem --json",
    "dump größe.sgtr",
    "dump größe.gtr --json",
    "diff größe.gtr größe.sgtr",
    "strip größe.sgtr -o größe.again.gtr",
    "generate --gpu v3d42 --platform qemu-virt --key größe.pub.pem --bearssl bearssl --aws-lc aws-lc -o größe",
    "generate --gpu v3d42 --platform optee --key größe.pub.pem --bearssl bearssl --aws-lc aws-lc -o größe.o",
)
BAD_LINES = (
    "dump none.größe",
    "verify trace größe.gtr --key größe.pub.pem",
    "key new --größe",
    "größe",
    "build größe.gtr",
)


def text_calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls that read or write text in an encoding that they do not name."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = ast.unparse(node.func)
        named = {word.arg for word in node.keywords}
        is_binary = any("b" in value for value in strings(node.args)) or function in NO_TEXT
        is_text = function.split(".")[-1] in ("read_text", "write_text", "open", "fdopen") and not is_binary
        if (is_text or "text" in named) and "encoding" not in named:
            yield node


def strings(nodes: list[ast.expr]) -> list[str]:
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_text_file_has_an_encoding(package: str) -> None:
    found = [
        f"{path.relative_to(CHECKOUT)}:{call.lineno}: {ast.unparse(call)}"
        for path in sorted((CHECKOUT / package).rglob("*.py"))
        if not str(path.relative_to(CHECKOUT)).startswith(EXEMPT)
        for call in text_calls(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_the_check_finds_them() -> None:
    code = 'p.read_text()\nopen(p)\np.open("w")\nrun(x, text=True)\nos.fdopen(d, "w")\np.write_text(t)\n'
    fine = 'p.read_text(encoding="utf-8")\nopen(p, "rb")\np.open("wb")\nrun(x, text=True, encoding="utf-8")\n'
    assert [call.lineno for call in text_calls(ast.parse(code + fine))] == [1, 2, 3, 4, 5, 6]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    trace = Trace.parse(small_trace())
    trace.meta["name"] = "größe"
    (tmp_path / "größe.gtr").write_bytes(trace.build())
    crypto_trees.empty(tmp_path, "/* größe */\n")
    return tmp_path


def run(line: str, folder: Path, **settings: str) -> subprocess.CompletedProcess[bytes]:
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT), "XDG_CACHE_HOME": str(folder / "cache")} | settings
    command = [sys.executable, "-m", "host_tools.cli", *line.split()]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)


# Each command line in a copy of a process that has imported what it needs: each start takes a second.
COPIES = """
import os, sys
from host_tools.cli import main

for words, command in main.tree.commands.items():
    if any(line.startswith(words) for line in sys.argv[1:]):
        command.load()
for number, line in enumerate(sys.argv[1:]):
    if not os.fork():
        for stream, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(f"{number}.{name}", os.O_CREAT | os.O_WRONLY), stream)
        sys.argv[1:] = line.split()
        sys.exit(main())
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


def run_all(lines: Sequence[str], folder: Path) -> Iterator[subprocess.CompletedProcess[bytes]]:
    """What becomes of command lines, one after the other, in ASCII."""
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT), "XDG_CACHE_HOME": str(folder / "cache")} | ASCII
    command = [sys.executable, "-c", COPIES, *lines]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    for number, (line, status) in enumerate(zip(lines, done.stdout.split(), strict=True)):
        stdout, stderr = ((folder / f"{number}.{name}").read_bytes() for name in ("stdout", "stderr"))
        yield subprocess.CompletedProcess(line, int(status), stdout, stderr)


def test_no_command_needs_utf_8(folder: Path) -> None:
    for number, done in enumerate(run_all([*COMMAND_LINES, *BAD_LINES], folder)):
        if number < len(COMMAND_LINES):
            assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done
        else:
            assert (done.returncode, done.stdout) == (2, b""), done
            assert done.stderr.startswith(b"error: "), done
            assert done.stderr.count(b"\n") == 1
    public = key_files.load_public_key((folder / "größe.pub.pem").read_bytes())
    assert public.kid != ES256.kid
    assert "größe" in run("dump größe.gtr", folder, PYTHONUTF8="1").stdout.decode()


def test_the_device_s_command_without_utf_8(folder: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)} | ASCII
    command = [sys.executable, "-m", "host_tools.device.cli", "replay", "größe.sgtr", "--größe"]
    for more in ([], ["--json"]):
        done = subprocess.run([*command, *more], cwd=folder, env=environment, capture_output=True, check=False)
        assert (done.returncode, b"Traceback" in done.stderr) == (2, False), done
        assert b"gr\\" in done.stderr


def test_help_without_utf_8(folder: Path) -> None:
    """Of all commands, in one process: each start takes a second."""
    code = (
        "import sys; from host_tools.cli import main\nfor name in sys.argv[1:]:\n    "
        "main([*name.split(), '--help'], "
        "standalone_mode=False)\nassert sys.stdout.encoding == 'ascii'"
    )
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)} | ASCII
    words = dict(commands())
    done = subprocess.run([sys.executable, "-c", code, *words], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"Usage: ") == len(words)


def test_names_that_are_no_text(folder: Path) -> None:
    """A file's name is bytes; here they are not UTF-8, in UTF-8 mode."""
    odd = os.fsencode(str(folder)) + b"/\xff.gtr"
    os.rename(folder / "größe.gtr", odd)
    command = [sys.executable.encode(), b"-m", b"host_tools.cli", b"dump"]
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT), "PYTHONUTF8": "1"}
    for name, status in ((b"\xff.gtr", 0), (b"\xfe.gtr", 2)):
        for json in ([], [b"--json"]):
            done = subprocess.run(
                [*command, name, *json], cwd=folder, env=environment, capture_output=True, check=False
            )
            assert (done.returncode, b"Traceback" in done.stderr) == (status, False), done
