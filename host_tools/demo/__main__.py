# SPDX-License-Identifier: BSD-2-Clause
"""`make demo`: from the committed recording to digits classified in the secure world; a tampered trace refused."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from rich.text import Text

from host_tools.demo import PARAM, RAW, WEIGHTS, picture
from host_tools.demo.digits import Digits
from host_tools.demo.digits import load as load_digits
from host_tools.demo.ncnn_model import classify
from host_tools.passes.pipeline import build
from host_tools.record.network import TOLERANCE, relative_difference
from host_tools.runners import libraries, run
from host_tools.runners.firmware import compile_firmware
from host_tools.runners.replay import ReplayRequest, ReplayResult
from host_tools.support.messages import escape_unprintable, listening
from host_tools.support.programs import Ended, ended_by_signals
from host_tools.support.progress import phase
from signing.keys import Algorithm, PublicKey, generate
from signing.sign import FileSigner, sign_trace
from tee_replayer.generate import generate as generate_sources
from trace_format.errors import GramophoneError
from trace_format.trace import Trace

DIGITS = 20
Pixels = npt.NDArray[np.float32]


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; exit status 0 when everything that it claims was seen to happen."""
    escape_unprintable()
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--digits", type=int, default=DIGITS, help="how many test digits to classify")
    count = parser.parse_args(arguments).digits
    console = Console(highlight=False)
    start = time.monotonic()
    try:
        with ended_by_signals(), tempfile.TemporaryDirectory(prefix="gramophone-demo-") as folder:
            good = _demo(console, Path(folder), load_digits()[:count])
    except GramophoneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except Ended as ended:
        return ended.exit_status
    console.print(f"\n{time.monotonic() - start:.0f} s in all.")
    return 0 if good else 1


def _demo(console: Console, folder: Path, digits: Digits) -> bool:
    raw = RAW.read_bytes()
    recording = Trace.parse(raw, str(RAW))
    _say(
        console,
        "The recording",
        f"{recording.jobs} GPU jobs of one LeNet inference, {len(recording.actions)} actions",
    )
    for part in ("framework", "driver", "kernel"):
        console.print(f"  {part}: {recording.meta[part]}")

    with phase("building and signing"):
        trace = build(recording, source=raw)
        key = generate(Algorithm.ES256)
        signer = FileSigner(key)
        signed = sign_trace(trace.build(), signer)
    _say(console, "Built and signed", f"{len(trace.actions)} actions, {len(signed)} bytes (recording: {len(raw)})")

    with phase("generating the replayer and compiling it for AArch64"):
        firmware = generate_sources(
            recording.gpu, "qemu-virt", signer.public, folder / "out", libraries=libraries.source()
        )
        compile_firmware(firmware)
    _say(
        console,
        "Firmware",
        f"{(firmware / 'firmware.bin').stat().st_size} bytes, EL3, secure world of QEMU's virt",
    )

    results = [_classify(signed, signer.public, firmware, digits.inputs()[i], i) for i in range(len(digits))]
    found = np.stack([result.outputs["prob"] for result in results if result.ok])
    if len(found) < len(results):
        console.print(f"refused: {next(result.error for result in results if not result.ok)}")
        return False
    with phase("asking ncnn's CPU path"):
        reference = classify(PARAM, WEIGHTS, digits.inputs())
    difference = relative_difference(found, reference)
    _show(console, digits, found, reference)
    right = int((found.argmax(1) == digits.labels).sum())
    agree = int((found.argmax(1) == reference.argmax(1)).sum())
    console.print(
        f"{right} of {len(digits)} right; ncnn's CPU path agrees on {agree}, "
        f"largest difference {difference:.1e} (tolerance {TOLERANCE:.0e})"
    )

    refused = _tamper(console, signed, signer.public, firmware)
    _sizes(console, signed, firmware, results[0])
    return refused and difference <= TOLERANCE and agree == len(digits)


def _classify(signed: bytes, key: PublicKey, firmware: Path, pixels: Pixels, index: int) -> ReplayResult:
    with phase(f"booting the secure world, digit {index + 1}"):
        return run("qemu", ReplayRequest(signed, key, {"data": pixels}, firmware=firmware))


def _show(console: Console, digits: Digits, found: Pixels, reference: Pixels) -> None:
    console.print()
    captions = []
    for label, ours, theirs in zip(digits.labels, found, reference, strict=True):
        guess = int(ours.argmax())
        differs = "" if guess == theirs.argmax() else f", ncnn {theirs.argmax()}"
        text = f"{guess} {ours[guess]:.1%} is {label}{differs}"
        captions.append(Text(text, style="green" if guess == label else "red"))
    picture.show(console, digits.images, captions, shrink=2)


def _tamper(console: Console, signed: bytes, key: PublicKey, firmware: Path) -> bool:
    at = len(signed) * 3 // 4
    tampered = bytearray(signed)
    tampered[at] ^= 1
    stats = firmware / "stats.json"
    with phase("replaying a tampered trace"):
        request = ReplayRequest(bytes(tampered), key, firmware=firmware, plugin_args={"stats": str(stats)})
        result = run("qemu", request)
    writes = json.loads(stats.read_text(encoding="utf-8"))["writes"]
    _say(console, "Tampered", f"one bit flipped at byte {at}: " + ("NOT REFUSED" if result.ok else result.error))
    console.print(f"  GPU register writes before the refusal: {writes}")
    return not result.ok and writes == 0


def _sizes(console: Console, signed: bytes, firmware: Path, result: ReplayResult) -> None:
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


def _say(console: Console, what: str, text: str) -> None:
    console.print(f"[bold]{what}[/bold]: {text}")


if __name__ == "__main__":
    with listening():
        sys.exit(main())
