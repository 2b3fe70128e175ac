# SPDX-License-Identifier: BSD-2-Clause
"""Committed inputs for the parts of the Linux port: files of tensors."""

from __future__ import annotations

import io
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
        yield f"slot-{number}", setup + stream.getvalue()
        yield f"short-{number}", setup + stream.getvalue()[:-1]
        yield f"long-{number}", setup + stream.getvalue() + bytes(1)
    yield "order", setup + stream.getvalue().replace(b"False", b"True ")
    yield "long-header", setup + b"\x93NUMPY\1\0\xff\xff" + b"{" * 600
