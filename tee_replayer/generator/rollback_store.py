# SPDX-License-Identifier: BSD-2-Clause
"""What a generated replayer keeps of versions: nothing, or the rollback store in the board's flash."""

from __future__ import annotations

from tee_replayer import features
from tee_replayer.generator import amalgamate
from trace_format.emit import GENERATED

HERE = features.HERE / "store"
HOOK = b"gr_port_flash_read("  # that a board's port must have
DEVICE = "store"  # range of a board that has nothing but the store's flash in it


def defines(wanted: bool) -> str:
    """What all files must see first."""
    return f"#define {amalgamate.HAS_STORE}\n" if wanted else ""


def header(wanted: bool) -> str:
    """Declarations for replayer.h."""
    return amalgamate.part(GENERATED / "gramophone_store.h") if wanted else ""


def source(wanted: bool) -> str:
    """Functions for replayer.c."""
    return amalgamate.part(HERE / "store.c") if wanted else ""
