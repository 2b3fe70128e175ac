# SPDX-License-Identifier: BSD-2-Clause
"""Extras: what our own folders and other people's packages add to the command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from host_tools import extras
from host_tools.commands import additions
from host_tools.commands.tree import MORE, Tree, Word, add_extra
from host_tools.extras import Extra, LazyCommand
from host_tools.support import extra
from host_tools.support.extra import GROUP, own
from signing.sign import sign_trace
from tests.support import replayer_samples
from tests.support.places import CHECKOUT
from tests.support.signing_samples import ES256

MODULE = '''
import click
from host_tools.commands.additions import Judged, adds
from host_tools.commands.framework import GramophoneCommand, Outcome, UsageError
from host_tools.commands.option_rules import requires
from host_tools.extras import Extra, LazyCommand
from host_tools.support.results import Result

@click.option("--cheer", is_flag=True, help="Cheer.")
@click.option("--louder", is_flag=True, help="Cheer louder. Requires --cheer.")
@requires("--louder", "--cheer")
def cheering(cheer, louder):
    if cheer:
        raise UsageError("hooray")

class Weather(Result):
    """What the judge adds.

    Attributes:
        weather: Outside.
    """

    weather: str | None = None

def postcard(data, file):
    return ("postcard", {"lines": data.count(b"\\n")}) if data.startswith(b"Dear ") else None

@adds(fields=Weather, verdicts=["wet"], example="gramophone verify trace net.sgtr --weather sun")
@click.option("--weather", help="Refuse the trace in the rain.")
def weathered(weather):
    if weather is None:
        return None
    bad = "it rains" if weather == "rain" else ""
    return lambda data: Judged({"weather": weather}, f"judged {len(data)} bytes", bad, "wet")

@click.command("wave", cls=GramophoneCommand, example="gramophone greet wave")
def wave():
    """Wave once."""
    return Outcome({"waved": True}, "waved")

EXTRA = Extra(
    "greet",
    "Greet people.",
    {
        "greet wave": LazyCommand("greeting:wave", "Wave once."),
        "verify wave": LazyCommand("gone:wave", "Check it."),
    },
    readers=["greeting:postcard"],
    additions={"kernels": "greeting:cheering", "judges": "greeting:weathered"},
    renamed={"wave": "greet wave"},
)
'''


def package(folder: Path, name: str, value: str, module: str = "") -> None:
    """A package as pip installs it: its module, and the folder that has its entry point."""
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {value}\n")
    if module:
        (folder / f"{value.partition(':')[0]}.py").write_text(module)


def gramophone(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """The command where a folder has more packages."""
    environment = os.environ | {"PYTHONPATH": f"{CHECKOUT}{os.pathsep}{folder}"}
    command = [sys.executable, "-m", "host_tools", *line.split()]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_package_adds_commands(tmp_path: Path) -> None:
    package(tmp_path, "hello", "greeting:EXTRA", MODULE)
    shown = gramophone(tmp_path, "--help")
    assert shown.stderr == ""
    assert "  greet           Greet people.\n" in shown.stdout.partition("\nMore:\n")[2]
    assert gramophone(tmp_path, "greet wave").stdout == "waved\n"
    assert gramophone(tmp_path, "wave --json").stdout == '{"ok": true, "warnings": [], "waved": true}\n'
    assert "  wave         Check it.\n" in gramophone(tmp_path, "verify --help").stdout
    broken = gramophone(tmp_path, "verify wave")
    assert broken.returncode == 2
    assert broken.stderr.startswith("error: package hello: cannot use gone:wave: ModuleNotFoundError(")


def test_a_package_adds_options_to_record(tmp_path: Path) -> None:
    package(tmp_path / "more", "hello", "greeting:EXTRA", MODULE)
    shown = gramophone(tmp_path / "more", "record onnx --help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert re.findall(r"^  (--(?:compiler|search|cheer|louder|input)(?![\w-]))", shown.stdout, re.M) == [
        "--compiler",
        "--search",
        "--cheer",
        "--louder",
        "--input",
    ]
    record = f"record onnx {tmp_path / 'net.onnx'} -o {tmp_path / 'net.gtr'}"
    assert "error: hooray\n" in gramophone(tmp_path / "more", f"{record} --cheer").stderr
    assert "error: --louder requires --cheer (see " in gramophone(tmp_path / "more", f"{record} --louder").stderr


def test_a_package_adds_a_judge_to_verify_trace(tmp_path: Path) -> None:
    package(tmp_path / "more", "hello", "greeting:EXTRA", MODULE)
    signed = sign_trace(replayer_samples.trace().build(), ES256)
    (tmp_path / "net.sgtr").write_bytes(signed)
    (tmp_path / "pub.pem").write_bytes(ES256.public.pem())
    verify = f"verify trace {tmp_path / 'net.sgtr'} --key {tmp_path / 'pub.pem'}"

    def verdict(options: str) -> tuple[int, str, str | None, str | None]:
        done = gramophone(tmp_path / "more", f"{verify} --json {options}")
        found = json.loads(done.stdout)
        return done.returncode, found["verdict"], found["weather"], found["transparency"]

    assert verdict("") == (0, "verified", None, None)
    shown = gramophone(tmp_path / "more", "verify trace --help").stdout
    assert "--weather sun\n" in shown.partition("\nExample:")[2]
    assert verdict("--weather sun") == (0, "verified", "sun", None)
    assert verdict("--weather rain") == (1, "wet", "rain", None)
    assert f"judged {len(signed)} bytes\n" in gramophone(tmp_path / "more", f"{verify} --weather sun").stdout
    made = gramophone(tmp_path / "more", f"manual -o {tmp_path / 'usr'}")
    assert made.returncode == 0, made.stderr
    schema = json.loads((tmp_path / "usr/share/gramophone/schemas/verify-trace.json").read_text())
    fields = schema["oneOf"][0]["properties"]
    assert fields["weather"]["description"] == "Outside."
    assert {"wet", "not-logged"} <= set(fields["verdict"]["enum"])


def test_a_package_adds_a_reader_to_inspect(tmp_path: Path) -> None:
    package(tmp_path / "more", "hello", "greeting:EXTRA", MODULE)
    card, other = tmp_path / "card", tmp_path / "other"
    card.write_text("Dear all,\nhello\n")
    other.write_text("dear all,\n")
    assert gramophone(tmp_path / "more", f"inspect {card}").stdout == f"{card}: postcard\nlines            2\n"
    assert gramophone(tmp_path / "more", f"inspect {other}").returncode == 2
    assert gramophone(tmp_path, f"inspect {card}").returncode == 2  # it is not installed


def test_a_package_whose_options_are_gone(tmp_path: Path) -> None:
    gone = MODULE.replace("greeting:cheering", "greeting:gone")
    package(tmp_path, "hello", "greeting:EXTRA", gone)
    shown = gramophone(tmp_path, "record onnx --help")
    assert shown.returncode == 0
    assert shown.stderr.startswith("warning: package hello: its extra cannot be used: AttributeError(")
    assert "--search" in shown.stdout
    assert "--cheer" not in shown.stdout


def test_the_core_records_without_extras(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its options are there, and the compiler's own kernels are taken."""
    monkeypatch.setattr(extra, "FOLDER", tmp_path)
    monkeypatch.setattr(additions, "_added", additions._added.__wrapped__)  # nothing is remembered
    seen: dict[str, Any] = {}

    @additions.takes(additions.KERNELS)
    @click.option("--name")
    def command(**params: Any) -> None:
        seen.update(params)

    monkeypatch.setattr(sys, "path", [])  # nor anybody else's
    assert click.command(command).main(["--name", "net"], standalone_mode=False) is None
    assert seen == {"name": "net", "kernels": []}


def test_the_manual_has_what_can_be_used_of_a_package(tmp_path: Path) -> None:
    package(tmp_path / "more", "hello", "greeting:EXTRA", MODULE)
    made = gramophone(tmp_path / "more", f"manual -o {tmp_path / 'usr'}")
    assert made.returncode == 0, made.stderr
    assert "warning: package hello: cannot use gone:wave: ModuleNotFoundError(" in made.stderr
    pages = {path.name for path in (tmp_path / "usr/share/man/man1").iterdir()}
    assert {"gramophone-greet-wave.1", "gramophone-verify-trace.1"} <= pages
    assert "gramophone-verify-wave.1" not in pages
    schemas = {path.name for path in (tmp_path / "usr/share/gramophone/schemas").iterdir()}
    assert "verify-trace.json" in schemas
    assert "greet-wave.json" not in schemas


@pytest.mark.parametrize(
    ("value", "module", "said"),
    [
        ("gone:EXTRA", "", "ModuleNotFoundError"),
        ("other:EXTRA", "EXTRA = 1 / 0", "ZeroDivisionError"),
        ("other:EXTRA", "EXTRA = 5", "TypeError"),
        ("other:EXTRA", MODULE.replace("greet wave", "sign"), "there is a command 'sign' already"),
        ("other:EXTRA", MODULE.replace('"wave": "g', '"lint": "g'), "there is a command 'lint' already"),
    ],
)
def test_a_broken_package_is_a_warning(tmp_path: Path, value: str, module: str, said: str) -> None:
    package(tmp_path, "broken", value, module)
    shown = gramophone(tmp_path, "--help")
    assert shown.returncode == 0
    assert shown.stderr.startswith("warning: package broken: its extra cannot be used: ")
    assert said in shown.stderr
    assert shown.stderr.count("\n") == 1
    assert "Greet people" not in shown.stdout
    assert gramophone(tmp_path, "key new --help").stderr == ""  # not looked for


def test_words_are_nobody_else_s() -> None:
    lazy = LazyCommand("no:where", "Do it.")
    tree = Tree({"Start": {"a b": lazy, "c": lazy}, MORE: {}}, {"a": Word("A.", "")}, {})
    for taken in ("a", "a b", "a b c", "c", "c d"):
        with pytest.raises(ValueError, match=f"there is a command '{taken}' already"):
            add_extra(tree, Extra("x", "X.", {"new": lazy, taken: lazy}))
        assert tree.commands.keys() == {"a b", "c"}
    add_extra(tree, Extra("x", "X.", {"a d": lazy, "e f": lazy}))
    assert tree.below("", whole=False) == {"a": "A.", "c": "Do it.", "e": "X."}
    assert tree.below("a", whole=False) == {"b": "Do it.", "d": "Do it."}


def test_our_own_are_found() -> None:
    names = {path.parent.name for path in Path(extras.__file__).parent.glob("*/__init__.py")}
    assert {extra.name for extra in own()} == names
