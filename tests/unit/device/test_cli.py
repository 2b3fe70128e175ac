# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone-tee` where there is no TEE: its arguments, what it imports, the file that devices get."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from host_tools.device import cli, declarations, library
from host_tools.runners.optee import bundle
from host_tools.support.version import VERSION
from tests.support import installed
from tests.support.figures import documented, is_near


def test_the_binding_is_that_of_the_headers() -> None:
    """`python -m host_tools.device.declarations` writes it."""
    assert declarations.TARGET.read_text() == declarations.binding()


def test_it_imports_nothing_heavy() -> None:
    """Modules of ours: those of the bundle. Others: the standard library, and cffi's backend."""
    # Without a TEE's library: the binding is imported before it is looked for.
    said = installed.run(installed.program("gramophone-tee"), "info", "--library", "none.so")[2]
    said -= installed.run("-c", "pass")[2]  # what site packages add to every program
    ours = {name for name in said if name.partition(".")[0] in ("host_tools", "trace_format")}
    bundled = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in bundle.FILES}
    assert ours == bundled
    others = {name.partition(".")[0] for name in said} - {"host_tools", "trace_format"}
    assert others - sys.stdlib_module_names - {"org"} == {"_cffi_backend"}  # org: Jython's, which copy looks for


def test_the_bundle_runs_by_itself(tmp_path: Path) -> None:
    program = tmp_path / "gramophone-tee"
    program.write_bytes(bundle.bundle())
    assert bundle.bundle() == program.read_bytes()
    assert is_near(1000 * documented("docs/DESIGN.md", r"one file of (\d+) KB for devices"), len(bundle.bundle()))
    # -S: no site-packages, in which this project is installed
    command = [sys.executable, "-S", str(program), "info", "--library", "none.so", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    found = json.loads(done.stdout)
    assert found["error"].startswith("Python's cffi is missing: No module named '_cffi_backend'")
    assert done.stderr == f"error: {found['error']}\n"
    help_text = subprocess.run(
        [*command[:3], "replay", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert "gramophone-tee replay net.sgtr --input data=digit.npy -o prob=prob.npy\n" in help_text


def test_the_file_for_devices_is_executable(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "host_tools.runners.optee.bundle", "-o", str(tmp_path / "gramophone-tee")]
    subprocess.run(program, check=True, cwd=bundle.ROOT)
    assert (tmp_path / "gramophone-tee").stat().st_mode & 0o111


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "the following arguments are required: COMMAND"),
        ("run net.sgtr", "invalid choice: 'run'"),
        ("replay", "the following arguments are required: SIGNED"),
        ("replay net.sgtr --input data", "expected SLOT=FILE.npy, found 'data'"),
        ("replay net.sgtr --input =x", "expected SLOT=FILE.npy, found '=x'"),
        ("replay net.sgtr --output data=", "expected SLOT=FILE.npy, found 'data='"),
        ("replay net.sgtr --repeat 0", "expected 1 to 1000000, found '0'"),
        ("replay net.sgtr --repeat -1", "expected 1 to 1000000, found '-1'"),
        ("replay net.sgtr --repeat many", "expected 1 to 1000000, found 'many'"),
        ("replay net.sgtr --rep 2", "unrecognized arguments: --rep 2"),
        ("info --via tz", "invalid choice: 'tz'"),
        ("info --login root", "expected public, user or group=GID, found 'root'"),
        ("info --login user=1", "expected public, user or group=GID, found 'user=1'"),
        ("info --login group", "expected public, user or group=GID, found 'group'"),
        ("info --login group=wheel", "expected public, user or group=GID, found 'group=wheel'"),
        ("info --login group=4294967296", "expected a group's id below 2^32"),
        ("replay net.sgtr --input a=b --input a=c", "input 'a' is given twice"),
        ("replay net.sgtr --output a=nowhere/out.npy", "nowhere/out.npy: No such file or directory"),
        ("info -q --verbose", "--verbose cannot be combined with --quiet"),
        ("info --log no/where", "no/where: No such file or directory"),
        ("info --library nowhere.so", "nowhere.so cannot be loaded"),
    ],
)
def test_errors_are_one_sentence_and_exit_status_2(
    line: str, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main([*line.split(), "--json"]) == 2
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert not found["ok"]
    assert message in found["error"]
    assert shown.err == f"error: {found['error']}\n"


def test_an_interrupt_is_exit_status_130(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_open", interrupted)
    assert cli.main(["info"]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


def test_messages_and_a_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As of `gramophone`: an error is said even with -q, and is in the log with its time."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["info", "-q", "--library", "none.so", "--log", "all.log"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert Path("all.log").read_text().endswith(f"ERROR {said}")
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"gramophone-tee, version {VERSION}\n"


def test_what_the_kernel_says_of_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "DEVICE", tmp_path / "tee0")
    assert "there is no TEE: is OP-TEE in the firmware" in library._hint("ta")
    (tmp_path / "tee0").touch()
    assert "tee-supplicant" in library._hint("ta")
    assert "CFG_GRAMOPHONE_PTA=y" in library._hint("pta")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert "no permission to use it" in library._hint("ta")
