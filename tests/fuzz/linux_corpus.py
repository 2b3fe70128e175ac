# SPDX-License-Identifier: BSD-2-Clause
"""Committed inputs for the parts of the Linux port: files of tensors, command lines."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

import numpy as np


def files() -> Iterator[tuple[str, bytes]]:
    """For the Linux port's .npy files: a slot, then a file."""
    for number, (dtype, shape) in enumerate(
        [("<f4", (2, 3)), ("<f2", (5,)), ("|u1", ()), ("<i4", (1, 2, 3, 4, 5, 1)), ("<u2", (4, 1))]
    ):
        kind = ("", "<f4", "<f2", "<i4", "<u4", "<i2", "<u2", "|i1", "|u1").index(dtype)
        stream = io.BytesIO()
        np.save(stream, np.zeros(shape, dtype))
        setup = bytes([kind, len(shape), *(size - 1 for size in shape)]).ljust(8, b"\0")
        series = io.BytesIO()
        np.save(series, np.zeros((3, *shape), dtype))
        yield f"series-{number}", setup[:7] + b"\3" + series.getvalue()
        yield f"short-series-{number}", setup[:7] + b"\2" + series.getvalue()
        yield f"slot-{number}", setup + stream.getvalue()
        yield f"short-{number}", setup + stream.getvalue()[:-1]
        yield f"long-{number}", setup + stream.getvalue() + bytes(1)
    yield "order", setup + stream.getvalue().replace(b"False", b"True ")
    yield "long-header", setup + b"\x93NUMPY\1\0\xff\xff" + b"{" * 600


def commands() -> Iterator[tuple[str, bytes]]:
    """For the Linux port's command: words, and a file of the sample trace's input."""
    stream = io.BytesIO()
    np.save(stream, np.arange(6, dtype=np.float32).reshape(2, 3))
    tensor = stream.getvalue()

    def made(
        *words: str, fails_at: int = 0, damage: int = 0, at: int = 0, less: int = 0, file: bytes = tensor
    ) -> bytes:
        setup = struct.pack("<BBHH", fails_at, damage, at, less)
        return setup + "".join(f"{word}\n" for word in words).encode() + b"\n" + file

    given, wanted = ("--input", "in=in.npy"), ("--output", "out=out.npy")
    yield "verify", made("verify", "trace")
    yield "verify-json", made("verify", "trace", "--json")
    yield "replay", made("replay", "trace", *given, *wanted, "--repeat", "3")
    yield "replay-json", made("replay", "--json", *wanted, "trace")
    series = io.BytesIO()
    np.save(series, np.arange(18, dtype=np.float32).reshape(3, 2, 3))
    all_of = ("--series", "in=in.npy", "--each", "out=out.npy", "--repeat", "3", "--follow")
    yield "series", made("replay", "trace", *all_of, file=series.getvalue())
    yield "series-json", made("replay", "trace", *all_of, "--json", file=series.getvalue())
    yield "series-of-others", made("replay", "trace", *all_of[:-2], "2", file=series.getvalue())
    yield "series-of-one", made("replay", "trace", *all_of, file=tensor)
    yield "series-fails", made("replay", "trace", *all_of, fails_at=3, file=series.getvalue())
    yield "no-each", made("replay", "trace", "--each")
    yield "follow-verify", made("verify", "trace", "--follow")
    yield "take", made("take")
    yield "give-back", made("give-back")
    yield "help", made("--help")
    yield "nothing", made()
    yield "no-trace", made("verify", "--json")
    yield "other-file", made("verify", "other")
    yield "two-traces", made("verify", "trace")
    yield "input-of-verify", made("verify", "trace", *given)
    yield "no-file", made("replay", "trace", "--input")
    yield "no-slot", made("replay", "trace", "--input", "=in.npy")
    yield "no-path", made("replay", "trace", "--input", "in=")
    yield "other-slot", made("replay", "trace", "--input", "inn=in.npy")
    yield "an-output-as-input", made("replay", "trace", "--input", "out=in.npy")
    yield "parameter", made("replay", "trace", "--param", "in=in.npy")
    yield "twice", made("replay", "trace", *given, *given, *wanted, *wanted)
    yield "many-files", made("replay", "trace", *["--param", "a=b"] * 257)
    for text in ("0", "", "-1", "+1", "4294967296", "99999999999999999999", "1x"):
        yield f"repeat-{text}", made("replay", "trace", "--repeat", text or "x")
    yield "repeat-nothing", made("replay", "trace", "--repeat")
    yield "short-file", made("replay", "trace", *given, file=tensor[:-1])
    yield "other-shape", made("replay", "trace", *given, file=tensor.replace(b"(2, 3)", b"(3, 2)"))
    yield "into-a-folder", made("replay", "trace", *given, "--output", "out=.")
    yield "no-array", made("replay", "trace", *given, file=b"")
    yield "damaged-magic", made("verify", "trace", damage=1)
    yield "damaged-head", made("replay", "trace", *wanted, "--json", damage=8, at=150)
    yield "damaged-body", made("replay", "trace", *wanted, damage=1, at=2000)
    yield "empty", made("verify", "trace", less=0xFFFF)
    yield "cut", made("verify", "trace", less=1)
    for call in range(1, 4):
        yield f"fails-{call}", made("replay", "trace", *given, *wanted, fails_at=call)
        yield f"give-back-fails-{call}", made("give-back", fails_at=call)
    yield "take-fails", made("take", fails_at=1)
