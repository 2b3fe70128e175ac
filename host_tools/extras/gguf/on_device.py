# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone-tee chat`: a conversation with a language model in this device's secure world."""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from host_tools.device.evidence import LogFile
from host_tools.device.library import ENTRIES, Session, TeeError
from host_tools.device.slots import Slot, UsageError, explained, load, slots_of, with_log
from host_tools.extras.gguf.conversation import (
    CHOSEN,
    GIVEN,
    LEFT,
    LIKELIEST,
    SEED,
    TEMPERATURE,
    TOP_K,
    TOP_P,
    WHY,
    Conversation,
    Say,
    answered,
    questions,
    shown,
)
from host_tools.extras.gguf.signed_words import signed_words
from host_tools.support.messages import warn
from trace_format.errors import SlotError

FLOAT32 = 1  # DType of the trace format
Answer = tuple[dict[str, Any], str]


def add(command: Callable[..., argparse.ArgumentParser], session: Callable[[argparse.Namespace], Session]) -> None:
    """Add the command.

    Args:
        command: makes a parser of a name, what it runs, its help and an example.
        session: opens one as the options say.
    """
    made = command(
        "chat",
        lambda options: chat(options, session),
        "Put questions to a language model.",
        'model.sgtr --prompt "Why is the sky blue?"',
    )
    given = made.add_mutually_exclusive_group()
    given.add_argument("--prompt", metavar="TEXT", help="Question; default: one a line of standard input.")
    given.add_argument(
        "--given", type=_tokens, metavar="N,N", help="Tokens to give, as numbers; the answer is numbers then."
    )
    made.add_argument("--tokens", type=_whole(1, 2048), default=128, metavar="N", help="Most tokens of an answer.")
    made.add_argument("--temperature", type=_number(100), default=0.0, metavar="T", help="0: the likeliest token.")
    made.add_argument(
        "--top-k", type=_whole(1), metavar="N", help="Draw only from N likeliest tokens. Requires --temperature."
    )
    made.add_argument(
        "--top-p",
        type=_number(1),
        metavar="SHARE",
        help="Draw only from tokens with this share of the probability. Requires --temperature.",
    )
    made.add_argument("--seed", type=_whole(0), default=0, metavar="N", help="Seed of drawn tokens.")
    made.add_argument("--entries", type=Path, metavar="FILE", help="File to append the replay log's entries to.")


def _whole(least: int, most: int = (1 << 31) - 1) -> Callable[[str], int]:
    def whole(value: str) -> int:
        if not value.isdecimal() or not least <= int(value) <= most:
            raise argparse.ArgumentTypeError(f"expected {least} to {most}, found {value!r}")
        return int(value)

    return whole


def _number(most: float) -> Callable[[str], float]:
    def number(value: str) -> float:
        try:
            found = float(value)
        except ValueError:
            found = -1.0
        if not 0 <= found <= most:
            raise argparse.ArgumentTypeError(f"expected 0 to {most:g}, found {value!r}")
        return found

    return number


def _tokens(value: str) -> list[int]:
    if not all(part.isdecimal() and int(part) < 1 << 31 for part in value.split(",")):
        raise argparse.ArgumentTypeError(f"expected tokens as numbers, 504,3575, found {value!r}")
    return [int(part) for part in value.split(",")]


@dataclass
class OnTee:
    """The model that a session has loaded. One replay is one token; its state stays in the secure world."""

    session: Session
    slots: Mapping[str, Slot]
    entries: LogFile
    replays: int = field(default=0)

    def answer(self, given: Sequence[int], most: int, say: Say) -> None:
        """As Device."""
        answered(self._next, given, most, say)

    def choose(self, how: Mapping[str, float]) -> None:
        """Say how tokens are chosen."""
        for name, value in how.items():
            slot = self.slots[name]
            kind = "<f" if slot.dtype == FLOAT32 else "<i"
            self.session.set_input(slot.index, struct.pack(kind, value))

    def _next(self, token: int) -> int:
        self.session.set_input(self.slots[GIVEN].index, struct.pack("<i", token))
        try:
            self.session.run()
        except TeeError as error:
            raise explained(with_log(self.session, error), self.replays) from None
        if self.replays % (ENTRIES // 2) == 0:
            self.entries.take(self.session)
        self.replays += 1
        return int(struct.unpack("<i", self.session.output(self.slots[CHOSEN].index, 4))[0])


def chat(options: argparse.Namespace, opened: Callable[[argparse.Namespace], Session]) -> Answer:
    """Ask, and print the answers as they come."""
    how = dict(LIKELIEST) | {TEMPERATURE: options.temperature, SEED: options.seed}
    for name, value in ((TOP_K, options.top_k), (TOP_P, options.top_p)):
        if value is not None and not options.temperature:
            raise UsageError(f"--{name.replace('_', '-')}: expected --temperature above 0")
        how |= {} if value is None else {name: value}
    entries = LogFile(options.entries)
    with opened(options) as session:
        entries.take(session)
        data = load(session, options.signed)
        slots = {slot.name: slot for slot in slots_of(session)}
        if missing := sorted({GIVEN, *how, CHOSEN, LEFT} - slots.keys()):
            raise SlotError(f"{options.signed}: not a language model: no slot {missing[0]}")
        device = OnTee(session, slots, entries)
        device.choose(how)
        said = _numbers(options, device) if options.given else _texts(options, device, data)
        entries.take(session)
    return said


def _numbers(options: argparse.Namespace, device: OnTee) -> Answer:
    """Tokens in and out."""
    chosen: list[int] = []

    def say(token: int) -> bool:
        if token >= 0:
            chosen.append(token)
        return token < 0

    device.answer(options.given, options.tokens, say)
    ended = "tokens" if len(chosen) == options.tokens else "positions"
    return {"chosen": chosen, "tokens": len(chosen), "ended": ended}, ",".join(map(str, chosen))


def _texts(options: argparse.Namespace, device: OnTee, data: Any) -> Answer:
    def out(text: str) -> None:
        if not options.json:
            print(shown(text), end="", flush=True)

    talk = Conversation(signed_words(data, str(options.signed)), device, out, options.tokens)
    asked = [options.prompt] if options.prompt is not None else questions(sys.stdin)
    for number, question in enumerate(asked):
        out("\n" if number else "")
        talk.ask(question)
        if talk.ended == "positions":
            break
    if why := WHY[talk.ended or "end"]:
        warn(why)
    answer = {"answers": talk.answers, "tokens": talk.tokens, "ended": talk.ended or "end"}
    return answer, ""
