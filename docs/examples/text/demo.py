# SPDX-License-Identifier: BSD-2-Clause
"""`make demo-text`: a decoder writes text in the secure world, one replay a token, as ONNX Runtime would write it.

What it has read and written lies in secure memory, as state: the normal world gives a text to begin with, a
temperature and a seed, and gets a token a replay.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from rich.console import Console

from docs.examples.text import DECODER, book
from docs.examples.text.export import NEXT, TOKENS
from host_tools.demo.stages import make_firmware, run_demo, say, sizes
from host_tools.machine.boot import BOOT_TIMEOUT_S
from host_tools.passes.pipeline import build
from host_tools.record import onnx_model
from host_tools.record.choosing import TINYGRAD
from host_tools.record.frontends import record_onnx
from host_tools.record.onnx_model import OnnxModel
from host_tools.runners import OPTEE, run
from host_tools.runners.replay import ReplayResult
from host_tools.support.gpu_folders import DEFAULT_GPU
from host_tools.support.messages import listening
from host_tools.support.progress import phase
from signing.delivery import Delivery
from signing.keys import Algorithm, PublicKey, generate
from signing.sign import FileSigner, sign_trace
from trace_format import profile
from trace_format.errors import GramophoneError
from trace_format.operators import used
from trace_format.schema import SlotKind
from trace_format.trace import Trace

CHOSEN = NEXT + "token"
NONE_GIVEN = -1  # in place of a token of the caller's: the one that was chosen last
MACHINES = ("qemu", OPTEE)
Values = NDArray[Any]


@dataclass(frozen=True)
class Decoder:
    """The committed network.

    Attributes:
        model: the ONNX file.
        tokens: their texts.
        state: first values of what one run hands to the next, by name: zeros.
        positions: the longest text.
    """

    model: OnnxModel
    tokens: list[str]
    state: dict[str, Values]
    positions: int

    @classmethod
    def read(cls, path: Path = DECODER) -> Decoder:
        """Read it; OSError, NetworkError: it is missing or no network."""
        model = onnx_model.read(path)
        properties = {item.key: item.value for item in onnx.load_model_from_string(model.data).metadata_props}
        state = {
            name: np.zeros(shape, model.types[name])
            for name, shape in model.shapes({}).items()
            if NEXT + name in model.outputs
        }
        return cls(model, json.loads(properties[TOKENS]), state, state["keys"].shape[2])

    def begin(self, text: str, count: int) -> Values:
        """What the caller gives in each run: the tokens of a paragraph that begins so, then none, until there are
        `count` more; (runs, 1).

        Raises:
            GramophoneError: it has a character that the book has not, or is too long.
        """
        numbers = book.encode(f"\n{text}", self.tokens)
        runs = len(numbers) + count - 1
        if count < 1 or runs > self.positions:
            raise GramophoneError(
                f"expected a text and what follows of at most {self.positions + 1} tokens, "
                f"found {len(numbers)} and {count}"
            )
        return np.array(numbers + [NONE_GIVEN] * (count - 1), np.int32).reshape(-1, 1)

    def chosen(self, given: Values, settings: Mapping[str, Values]) -> Iterator[int]:
        """Tokens that ONNX Runtime chooses on this machine."""
        state, once = dict(self.state), onnx_model.session(self.model)
        for token in given:
            left = once({"given": token, **settings, **state})
            state = {name: left[NEXT + name] for name in state}
            yield int(left[CHOSEN][0])


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; exit status 0 when everything that it claims was seen to happen."""
    parser = argparse.ArgumentParser(prog="make demo-text", description=__doc__)
    parser.add_argument("--prompt", default="The Queen", help="how a paragraph begins")
    parser.add_argument("--tokens", type=int, default=256, help="how many to write (%(default)s)")
    parser.add_argument("--temperature", type=float, default=0.5, help="0: always the likeliest (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn (%(default)s)")
    parser.add_argument("--on", choices=MACHINES, default="qemu", help="bare metal, or OP-TEE (%(default)s)")
    parser.add_argument("--gpu", choices=profile.names(), default=DEFAULT_GPU)
    options = parser.parse_args(arguments)
    return run_demo(lambda console, folder: _demo(console, folder, options))


def _demo(console: Console, folder: Path, options: argparse.Namespace) -> bool:
    decoder = Decoder.read()
    given = decoder.begin(options.prompt, options.tokens)
    settings = {
        "temperature": np.array([options.temperature], np.float32),
        "seed": np.array([options.seed], np.int32),
    }
    held = sum(value.nbytes for value in decoder.state.values())
    say(
        console,
        "The network",
        f"a decoder with {decoder.positions} positions, {len(decoder.tokens)} tokens, weights of 8 bits, "
        f"{DECODER.stat().st_size:,} bytes",
    )
    signer = FileSigner(generate(Algorithm.ES256))
    raw = recorded(DECODER, options.gpu)
    say(console, "Recorded", f"{raw.jobs} GPU jobs of one token, {len(raw.actions)} actions")
    with phase("building and signing"):
        trace = with_state(raw, decoder)
        signed = sign_trace(trace.build(), signer)
    say(console, "Built and signed", f"{len(trace.actions)} actions, {len(signed):,} bytes")
    callers = [f"{slot.name}" for slot in trace.slots if slot.kind != SlotKind.INTERNAL]
    say(console, "The normal world has", f"{', '.join(callers)}; {held:,} bytes of state stay in secure memory")
    firmware = None
    if options.on == "qemu":
        firmware = make_firmware(console, options.gpu, signer.public, folder, used(trace.actions))
    console.print(f"\n[bold]{options.prompt}[/bold]", end="", markup=True)
    first = len(given) - options.tokens
    watch = _printing(console, decoder.tokens, first)
    result = replayed(options.on, signed, signer.public, given, settings, firmware=firmware, watch=watch)
    if not result.ok:
        console.print(f"\nrefused: {result.error}", markup=False)
        return False
    found = result.outputs[CHOSEN][first:, 0].tolist()
    console.file.write(decoder.tokens[found[-1]] + "\n")
    with phase("asking ONNX Runtime"):
        expected = list(decoder.chosen(given, settings))[first:]
    same = sum(one == other for one, other in zip(found, expected, strict=True))
    console.print(f"\n{same} of {len(found)} tokens are those that ONNX Runtime chooses on this machine")
    if firmware:
        sizes(console, signed, firmware, result)
    return bool(same == len(found))


def recorded(path: Path, gpu: str) -> Trace:
    """A decoder's file, recorded."""
    values = {"temperature": np.ones(1, np.float32)}
    return record_onnx(path, {}, compiler=TINYGRAD, values=values, name="decoder", gpu=gpu, timeout=BOOT_TIMEOUT_S)


def with_state(raw: Trace, decoder: Decoder) -> Trace:
    """What is built of a recording: state lies in the device, and callers see the token that was chosen."""
    states = {name: NEXT + name for name in decoder.state}
    return build(raw, states=states, open_slots=[CHOSEN], first=decoder.state)


def replayed(
    on: str, signed: bytes, key: PublicKey, given: Values, settings: Mapping[str, Values], **how: Any
) -> ReplayResult:
    """A replay for each token that is given, and the token that is chosen in each; `how`: further options."""
    return run(
        on,
        Delivery(signed),
        key,
        settings,
        repeat=len(given),
        series={"given": given},
        each=frozenset([CHOSEN]),
        **how,
    )


def _printing(console: Console, tokens: Sequence[str], first: int) -> Callable[[int, Mapping[str, bytes]], None]:
    """Print the token of each replay from the first that is not the caller's text."""

    def printing(number: int, outputs: Mapping[str, bytes]) -> None:
        if number >= first:
            at = int(np.frombuffer(outputs[CHOSEN], np.int32)[0])
            console.file.write(tokens[at])
            console.file.flush()

    return printing


if __name__ == "__main__":
    with listening():
        sys.exit(main())
