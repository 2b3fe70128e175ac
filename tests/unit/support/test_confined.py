# SPDX-License-Identifier: BSD-2-Clause
"""A program that confines itself first: what it can do then, as a module and as any other program."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from host_tools.support import programs
from host_tools.support.confined import PYTHON, command
from host_tools.support.counted import ExcessError
from host_tools.support.sandbox import VARIABLE, Sandbox
from tests.support import attacks
from tests.support.sandbox import needs
from trace_format import limits

SHELL = "/bin/sh"


@pytest.fixture(autouse=True)
def _on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "on")


def shell(text: str, own: Path, reads: tuple[Path, ...] = ()) -> tuple[int, str]:
    done = programs.run([SHELL, "-c", text], cwd=own, merged=True, sandbox=Sandbox(reads, (own,)))
    return done.returncode, done.stdout


# What a shell does by itself: exec of another program replaces it.
ATTACKS = {
    "reads": "read line < {secret} && echo done; read line < {secret}",
    "writes": "echo x > {folder}/written",
    "appends": "echo x >> {secret}",
    "starts another program": "exec /bin/echo done",
    "forks": "(echo done); exit $?",
    "signals": "kill -0 $PPID",
}


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("mode", ["on", "off"])
def test_an_attack_of_a_program(name: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if mode == "on":
        needs(files=name not in ("forks", "signals"))
    monkeypatch.setenv(VARIABLE, mode)
    folder = attacks.prepare(tmp_path / "outside")
    own = tmp_path / "own"
    own.mkdir()
    secret = folder / "secret"
    secret.write_bytes(attacks.SECRET + b"\n")
    status, said = shell(ATTACKS[name].format(folder=folder, secret=secret), own)
    assert (status == 0) == (mode == "off"), said
    if mode == "on":
        assert secret.read_bytes() == attacks.SECRET + b"\n"
        assert [path.name for path in folder.iterdir()] == ["secret"]


def test_its_own_folder(tmp_path: Path) -> None:
    assert shell("echo text > file && read line < file && echo $line", tmp_path) == (0, "text\n")


def test_a_module(tmp_path: Path) -> None:
    (tmp_path / "file.json").write_text("[1]")
    words = [*PYTHON, "json.tool", "--compact", "file.json", "out.json"]
    done = programs.run(words, cwd=tmp_path, sandbox=Sandbox(writes=(tmp_path,)))
    assert (done.returncode, (tmp_path / "out.json").read_text()) == (0, "[1]\n")
    needs(files=True)
    outside = attacks.prepare(tmp_path / "outside")
    own = tmp_path / "own"
    own.mkdir()
    words = [*PYTHON, "json.tool", str(outside / "secret")]
    done = programs.run(words, cwd=own, sandbox=Sandbox(writes=(own,)))
    assert done.returncode != 0
    assert "Permission denied" in done.stderr or "can't open" in done.stderr


def test_a_module_needs_no_second_interpreter() -> None:
    words = command(Sandbox(), [*PYTHON, "json.tool"])
    assert words[:4] == [*PYTHON, "host_tools.support.confined"]
    assert '"program": null' in words[4]
    assert f'"program": "{SHELL}"' in command(Sandbox(), [SHELL])[4]
    assert words[0] == sys.executable


SMALL = 1 << 20


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("i=0; while :; do echo x > file$i; i=$((i+1)); done", "wrote"),
        ("while :; do echo 'some words of a program'; done", "printed"),
    ],
)
def test_what_it_writes_is_counted(text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PRINTED_BYTES", SMALL)
    sandbox = Sandbox(writes=(tmp_path,), written_bytes=SMALL)
    with pytest.raises(ExcessError, match=f"^sh was ended: it {said} more than {SMALL} bytes$"):
        programs.run([SHELL, "-c", text], cwd=tmp_path, merged=True, sandbox=sandbox)


def test_a_file_has_an_end(tmp_path: Path) -> None:
    text = "exec 3> file; while echo 'some words of a program' >&3; do :; done"
    programs.run([SHELL, "-c", text], cwd=tmp_path, sandbox=Sandbox(writes=(tmp_path,), written_bytes=SMALL))
    assert (tmp_path / "file").stat().st_size == SMALL
