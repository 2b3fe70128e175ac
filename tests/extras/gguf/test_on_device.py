# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone-tee chat` over a session that plays the replayer; OP-TEE's is in tests/optee/test_gguf.py."""

from __future__ import annotations

import io
import json
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from host_tools.device import cli
from host_tools.device.library import TeeError
from host_tools.extras.gguf.conversation import LIKELIEST
from host_tools.support import device_extras
from tests.extras.gguf.test_signed_words import WORDS, signed, swapped

END = WORDS.ends[0]
INPUT, OUTPUT, FLOAT32, INT32 = 1, 2, 1, 3
SLOTS = [("given", INPUT, INT32)]
SLOTS += [(name, INPUT, FLOAT32 if isinstance(value, float) else INT32) for name, value in LIKELIEST.items()]
SLOTS += [("chosen", OUTPUT, INT32), ("left", OUTPUT, INT32)]
THE = WORDS.encode("the")


@dataclass
class Played:
    """A session whose model says what it has been told to."""

    chosen: list[int]
    slots_of: list[tuple[str, int, int]] = field(default_factory=lambda: list(SLOTS))
    given: list[int] = field(default_factory=list)
    values: dict[str, bytes] = field(default_factory=dict)
    fails_at: int = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def load(self, data: Any) -> None:
        assert bytes(data[:4]) == b"\x89GSG"

    def slots(self) -> list[Any]:
        return [
            SimpleNamespace(name=name, kind=kind, dtype=dtype, rank=1, dims=[1], bytes=4, bound=False)
            for name, kind, dtype in self.slots_of
        ]

    def text(self, value: str) -> str:
        return value

    def set_input(self, slot: int, data: bytes) -> None:
        self.values[self.slots_of[slot][0]] = data

    def run(self) -> None:
        if len(self.given) == self.fails_at:
            raise TeeError("replaying: refused", 0x80000001, 3)
        self.given.append(struct.unpack("<i", self.values["given"])[0])

    def output(self, slot: int, size: int) -> bytes:
        assert (self.slots_of[slot][0], size) == ("chosen", 4)
        return struct.pack("<i", self.chosen[len(self.given) - 1])

    def log(self) -> dict[str, int]:
        return {"action": 1, "op": 2, "offset": 3, "expected": 4, "seen": 5}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.sgtr"
    path.write_bytes(signed(WORDS))
    return path


def asked(monkeypatch: pytest.MonkeyPatch, session: Played, *words: object) -> int:
    monkeypatch.setattr(cli, "_open", lambda _: session)
    return cli.main(["chat", *map(str, words)])


def test_questions_and_answers(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two questions of standard input; the answers come as text, and the state stays between them."""
    first, second = WORDS.question("one", is_first=True), [END, *WORDS.question("two", is_first=False)]
    chosen = [0] * (len(first) - 1) + [*THE, END] + [0] * (len(second) - 1) + [*WORDS.encode("an"), END]
    session = Played(chosen)
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\n\n two \n"))
    assert asked(monkeypatch, session, file) == 0
    assert capsys.readouterr().out == "the\nan\n"
    left = [-1] * len(THE)
    assert session.given[: len(first) + len(left)] == [*first, *left]
    assert session.given[len(first) + len(left) :][: len(second)] == second
    assert struct.unpack("<f", session.values["top_p"]) == (1.0,)


def test_how_tokens_are_chosen(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Played([0] * 63 + THE * 9)
    options = ("--prompt", "x", "--tokens", 1, "--temperature", 0.5, "--top-k", 3, "--seed", 7, "--json")
    assert asked(monkeypatch, session, file, *options) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["tokens"], found["ended"]) == (1, "tokens")
    assert struct.unpack("<f", session.values["temperature"]) == (0.5,)
    assert [struct.unpack("<i", session.values[name])[0] for name in ("top_k", "seed")] == [3, 7]


def test_tokens_as_numbers(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words are not looked at: the trace may be encrypted, or the tokenizer another program's."""
    file.write_bytes(signed(None))
    session = Played([8, 9, 10, -1])
    assert asked(monkeypatch, session, file, "--given", "5,6", "--tokens", 9) == 0
    assert session.given == [5, 6, -1, -1]
    assert capsys.readouterr().out == "9,10\n"


def test_other_words_are_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The device takes the file, since it passes over the notes; nobody asks with words that were not signed."""
    file.write_bytes(swapped())
    session = Played([])
    assert asked(monkeypatch, session, file, "--prompt", "one") == 2
    assert "with the model's words, is damaged" in capsys.readouterr().err
    assert session.given == []


def test_what_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {
        ("--given", "1,x"): "expected tokens as numbers, 504,3575, found '1,x'",
        ("--given", "1", "--prompt", "x"): "argument --prompt: not allowed with argument --given",
        ("--tokens", "0"): "expected 1 to 2048, found '0'",
        ("--temperature", "hot"): "expected 0 to 100, found 'hot'",
        ("--top-p", "1.5", "--temperature", "1"): "expected 0 to 1, found '1.5'",
        ("--top-k", "3"): "--top-k: expected --temperature above 0",
    }
    for options, said in wrong.items():
        assert asked(monkeypatch, Played([]), file, *options) == 2
        assert said in capsys.readouterr().err
    assert asked(monkeypatch, Played([], SLOTS[1:]), file, "--prompt", "x") == 2
    assert f"{file}: not a language model: no slot given" in capsys.readouterr().err
    assert asked(monkeypatch, Played([0] * 9, fails_at=2), file, "--given", "1,2,3") == 1
    assert "replay 3, action 1" in capsys.readouterr().err


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A program without the extra's folder has its other commands."""
    monkeypatch.setattr(device_extras, "ADDED", {"host_tools.extras.no_such.on_device": ()})
    assert cli.main(["chat"]) == 2
    assert "invalid choice: 'chat'" in capsys.readouterr().err
