# SPDX-License-Identifier: BSD-2-Clause
"""Names that a terminal would act on: no command prints them as they are, whatever file they are in."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from host_tools.cli import main
from signing.sign import sign_trace
from tests.support import replayer_samples as s
from trace_format.errors import TraceError, listed, printable
from trace_format.trace import Trace

EVIL = "\x1b]0;x\x07\r\nverified: y\x9b2J\u202etxt.\x00"[:-1]  # title, new line, clear the screen, right to left
EXPECTED = r"\x1b]0;x\x07\r\nverified: y\x9b2J\u202etxt."


def hostile() -> Trace:
    """A trace whose every text is hostile, an honest one but for that."""
    sample = s.trace()
    texts = dict.fromkeys(("name", "recorder", "kernel", "driver", "framework"), EVIL)
    slots = [replace(slot, name=f"{index}{EVIL}") for index, slot in enumerate(sample.slots)]
    return sample.with_(meta=texts, slots=slots)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    data = hostile().build()
    (folder / "evil.gtr").write_bytes(data)
    (folder / "good.gtr").write_bytes(s.trace().build())
    (folder / "evil.sgtr").write_bytes(sign_trace(data, s.ES256))
    (folder / "key.pem").write_bytes(s.KEY.pem())
    (folder / f"a{EVIL.replace('/', '')}").write_bytes(b"no trace")
    return folder


def run(folder: Path, line: str) -> Result:
    words = [word.replace("@", f"{folder}/") for word in shlex.split(line)]
    return CliRunner().invoke(main, words)


def is_clean(text: str) -> bool:
    return all(char.isprintable() for char in text.replace("\n", "")) and "\nverified: y" not in text


COMMANDS = {
    "dump @evil.gtr": EXPECTED,
    "dump @evil.sgtr": EXPECTED,
    "diff @good.gtr @evil.gtr": EXPECTED,
    "diff @evil.gtr @good.gtr": EXPECTED,
    "verify trace @evil.sgtr --key @key.pem": "verified: ",
    "replay @evil.sgtr --key @key.pem --on vgpu --input x=y.npy": EXPECTED,
}


@pytest.mark.parametrize("line", COMMANDS)
def test_what_is_printed(folder: Path, line: str) -> None:
    found = run(folder, line)
    assert found.exit_code in (0, 1, 2), found.output
    assert COMMANDS[line] in found.output
    assert is_clean(found.stdout), ascii(found.stdout)
    assert is_clean(found.stderr), ascii(found.stderr)


def test_json_has_the_text_itself(folder: Path) -> None:
    found = run(folder, "dump @evil.gtr --json")
    assert is_clean(found.stdout)
    assert json.loads(found.stdout)["name"] == EVIL


def test_names_of_files(folder: Path) -> None:
    name = next(path.name for path in folder.iterdir() if path.name.startswith("a\x1b"))
    for command in (
        ["dump", f"{folder}/{name}"],
        ["verify", "trace", f"{folder}/{name}x", "--key", f"{folder}/key.pem"],
    ):
        found = CliRunner().invoke(main, command)
        assert found.exit_code == 2
        assert r"a\x1b]0;x\x07" in found.stderr
        assert is_clean(found.stderr), ascii(found.stderr)


def test_errors_and_lists() -> None:
    assert is_clean(str(TraceError(EVIL, expected=EVIL, found=EVIL, file=EVIL)))
    assert is_clean(listed([EVIL, "b"]))
    assert printable("Größe 日本 ~") == "Größe 日本 ~"
    assert printable(EVIL) == EXPECTED
