# SPDX-License-Identifier: BSD-2-Clause
"""`make record-demo`: record the demo network again and compare with the committed recording."""

from __future__ import annotations

import sys

from rich.console import Console

from host_tools.demo import PARAM, RAW, WEIGHTS
from host_tools.model.description import describe_actions
from host_tools.record.ncnn.network import record_network
from host_tools.support.files import write_atomically
from host_tools.support.messages import listening
from trace_format.errors import GramophoneError
from trace_format.files import read_file
from trace_format.trace import Trace

SHAPES = {"data": (1, 28, 28)}


def record() -> Trace:
    """The demo network's recording, made now."""
    return record_network(read_file(PARAM), read_file(WEIGHTS), SHAPES, name="lenet")


def same_versions(one: Trace, other: Trace) -> bool:
    """Whether two recordings were made with the same packages and the same QEMU, and so must be identical."""
    return all(one.notes.get(key) == other.notes.get(key) for key in ("packages", "qemu"))


def main() -> int:
    """Exit status 0: identical, or other versions and replaced; 1: differs with the same versions."""
    console = Console(stderr=True, highlight=False)
    try:
        fresh = record()
        data = fresh.build(compress=False)
        old = Trace.read(RAW) if RAW.exists() else None
        if old is not None and RAW.read_bytes() == data:
            console.print(f"{RAW.name}: identical to the committed recording, {len(data)} bytes")
            return 0
        if old is not None and same_versions(old, fresh):
            where = next(
                (
                    i
                    for i, (a, b) in enumerate(zip(describe_actions(old), describe_actions(fresh), strict=False))
                    if a != b
                ),
                "none",
            )
            console.print(f"error: {RAW.name} differs with the same versions; first differing action: {where}")
            return 1
        write_atomically(RAW, data)
    except GramophoneError as error:
        console.print(f"error: {error}", markup=False)
        return 2
    console.print(
        f"{RAW.name}: recorded with other versions and replaced, {len(data)} bytes; look at it and commit it"
    )
    return 0


if __name__ == "__main__":
    with listening():
        sys.exit(main())
