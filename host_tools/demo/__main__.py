# SPDX-License-Identifier: BSD-2-Clause
"""`make demo`: from the committed recording to digits classified in the secure world; a tampered trace refused."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from rich.console import Console

from host_tools.demo import PARAM, RAW, WEIGHTS, ncnn_model
from host_tools.demo.digits import Digits
from host_tools.demo.digits import load as load_digits
from host_tools.demo.stages import DIGITS, classify, compare, make_firmware, run_demo, say, sizes
from host_tools.passes.pipeline import build
from host_tools.runners import run
from host_tools.support.messages import listening
from host_tools.support.progress import phase
from signing.delivery import Delivery
from signing.keys import Algorithm, PublicKey, generate
from signing.sign import FileSigner, sign_trace
from trace_format.files import read_file_text
from trace_format.trace import Trace


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; exit status 0 when everything that it claims was seen to happen."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--digits", type=int, default=DIGITS, help="how many test digits to classify")
    count = parser.parse_args(arguments).digits
    return run_demo(lambda console, folder: _demo(console, folder, load_digits()[:count]))


def _demo(console: Console, folder: Path, digits: Digits) -> bool:
    raw = RAW.read_bytes()
    recording = Trace.parse(raw, str(RAW))
    say(
        console,
        "The recording",
        f"{recording.jobs} GPU jobs of one LeNet inference, {len(recording.actions)} actions",
    )
    for part in ("framework", "driver", "kernel"):
        console.print(f"  {part}: {recording.meta[part]}")

    with phase("building and signing"):
        trace = build(recording, source=raw)
        signer = FileSigner(generate(Algorithm.ES256))
        signed = sign_trace(trace.build(), signer)
    say(console, "Built and signed", f"{len(trace.actions)} actions, {len(signed)} bytes (recording: {len(raw)})")
    firmware = make_firmware(console, recording.gpu, signer.public, folder)

    results = classify(console, signed, signer.public, firmware, "data", digits.inputs())
    if not results:
        return False
    with phase("asking ncnn's CPU path"):
        expected = ncnn_model.classify(PARAM, WEIGHTS, digits.inputs())
    found = np.stack([result.outputs["prob"] for result in results])
    same = compare(console, digits, found, expected, "ncnn's CPU path")
    refused = _tamper(console, signed, signer.public, firmware)
    sizes(console, signed, firmware, results[0])
    return refused and same


def _tamper(console: Console, signed: bytes, key: PublicKey, firmware: Path) -> bool:
    at = len(signed) * 3 // 4
    tampered = bytearray(signed)
    tampered[at] ^= 1
    stats = firmware / "stats.json"
    with phase("replaying a tampered trace"):
        arguments = {"stats": str(stats)}
        result = run("qemu", Delivery(bytes(tampered)), key, firmware=firmware, plugin_args=arguments)
    writes = json.loads(read_file_text(stats))["writes"]
    say(console, "Tampered", f"one bit flipped at byte {at}: " + ("NOT REFUSED" if result.ok else result.error))
    console.print(f"  GPU register writes before the refusal: {writes}")
    return not result.ok and writes == 0


if __name__ == "__main__":
    with listening():
        sys.exit(main())
