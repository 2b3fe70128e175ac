# SPDX-License-Identifier: BSD-2-Clause
"""What the demos have in common: from a trace to digits that are classified in the secure world of QEMU."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from rich.text import Text

from host_tools.demo import picture
from host_tools.demo.digits import Digits
from host_tools.record.differences import relative_difference
from host_tools.record.tolerances import TOLERANCE
from host_tools.runners import libraries, run
from host_tools.runners.firmware import compile_firmware
from host_tools.runners.replay import ReplayResult
from host_tools.support.messages import escape_unprintable
from host_tools.support.programs import Ended, ended_by_signals
from host_tools.support.progress import phase
from signing.delivery import Delivery
from signing.keys import PublicKey
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from trace_format.errors import GramophoneError
from trace_format.operators import Operator

DIGITS = 20
Pixels = npt.NDArray[np.float32]
Probabilities = npt.NDArray[np.floating]


def run_demo(demo: Callable[[Console, Path], bool]) -> int:
    """Run a demo in a temporary folder; exit status 0 when everything that it claims was seen to happen."""
    escape_unprintable()
    console = Console(highlight=False)
    start = time.monotonic()
    try:
        with ended_by_signals(), tempfile.TemporaryDirectory(prefix="gramophone-demo-") as folder:
            good = demo(console, Path(folder))
    except GramophoneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except Ended as ended:
        return ended.exit_status
    console.print(f"\n{time.monotonic() - start:.0f} s in all.")
    return 0 if good else 1


def make_firmware(
    console: Console, gpu: str, key: PublicKey, folder: Path, operators: Collection[Operator] = ()
) -> Path:
    """Generate and compile the firmware that trusts a key, in `folder`, with these operators of the CPU."""
    with phase("generating the replayer and compiling it for AArch64"):
        options = Options(gpu, platform_of("qemu-virt"), key, libraries.source(), operators=operators)
        firmware = generate(options, folder / "out")
        compile_firmware(firmware)
    size = (firmware / "firmware.bin").stat().st_size
    say(console, "Firmware", f"{size} bytes, EL3, secure world of QEMU's virt")
    return firmware


def classify(
    console: Console, signed: bytes, key: PublicKey, firmware: Path, slot: str, pictures: Pixels
) -> list[ReplayResult]:
    """Boot the secure world for each picture, which goes into a slot; nothing when one is refused."""
    results = []
    for number, pixels in enumerate(pictures, start=1):
        with phase(f"booting the secure world, digit {number}"):
            result = run("qemu", Delivery(signed), key, {slot: pixels}, firmware=firmware)
        if not result.ok:
            console.print(f"refused: {result.error}")
            return []
        results.append(result)
    return results


def compare(console: Console, digits: Digits, found: Probabilities, expected: Probabilities, whose: str) -> bool:
    """Show digits with what was found; whether that is what somebody else (`whose`) found.

    Args:
        found, expected: (digits, classes).
    """
    console.print()
    captions = []
    for label, ours, theirs in zip(digits.labels, found, expected, strict=True):
        guess = int(ours.argmax())
        differs = "" if guess == theirs.argmax() else f", {whose}: {theirs.argmax()}"
        text = f"{guess} {ours[guess]:.1%} is {label}{differs}"
        captions.append(Text(text, style="green" if guess == label else "red"))
    picture.show(console, digits.images, captions, shrink=2)
    right = int((found.argmax(1) == digits.labels).sum())
    agree = int((found.argmax(1) == expected.argmax(1)).sum())
    difference = relative_difference(found, expected)
    console.print(
        f"{right} of {len(digits)} right; {whose} agrees on {agree}, "
        f"largest difference {difference:.1e} (tolerance {TOLERANCE:.0e})"
    )
    return difference <= TOLERANCE and agree == len(digits)


def sizes(console: Console, signed: bytes, firmware: Path, result: ReplayResult) -> None:
    """Print what it takes."""
    table = Table("figure", "value", title="\nWhat it takes", title_justify="left", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    rows = [
        ("signed trace, weights included", f"{len(signed):,} bytes"),
        ("firmware image (code, data, cryptography)", f"{(firmware / 'firmware.bin').stat().st_size:,} bytes"),
        ("secure memory in use", f"{result.secure_bytes:,} bytes"),
    ]
    if result.instructions:
        rows += [
            ("start-up: check the signature", f"{result.instructions.verify:,} instructions"),
            ("start-up: hash and unpack the trace", f"{result.instructions.load:,} instructions"),
            ("one replay, CPU side", f"{result.instructions.replay:,} instructions"),
        ]
    for row in rows:
        table.add_row(*row)
    console.print(table)


def say(console: Console, what: str, text: str) -> None:
    """A line that begins with what it is about."""
    console.print(f"[bold]{what}[/bold]: {text}")
