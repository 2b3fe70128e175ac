# SPDX-License-Identifier: BSD-2-Clause
"""Puts the core, one nano driver and one GPU's tables into two files that drop into any tree."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from tee_replayer.generator import target
from tee_replayer.generator.status import CORE
from trace_format.emit import GENERATED
from trace_format.licence import SPDX
from trace_format.profile import Profile
from trace_format.schema import Codec

_OWN_INCLUDE = re.compile(r'^#include "[\w.]+"\n', re.MULTILINE)
_GUARD = re.compile(r"^#(ifndef|define) GRAMOPHONE_\w+_H\n|^#endif\n*\Z", re.MULTILINE)
_REPORT = "gramophone_report.h"
# core files in reading order; memory.c, which the first ones use too, is with those that take memory
_CORE_SOURCES = (
    *("lz4.c", "planes.c", "stream.c", "check.c", "slots.c", "operate.c", "memory.c", "envelope.c", "load.c"),
    "run.c",
)
OPERATORS = "operators.h"
_OPERATE = "operate.c"  # of replayers with operators
_DECODERS = {"planes.c": Codec.PLANES}  # of replayers with the codec


def header(notice: str, device: str, defines: str = "", more: str = "") -> str:
    """Text of replayer.h: the public interface, the crypto seam, and the declaration of the device's constant.

    Args:
        notice: the file's first comment.
        device: the declaration.
        defines: what comes before all else.
        more: further declarations.
    """
    public = _without_spdx((CORE / "replayer.h").read_text(encoding="utf-8"))
    public = public.replace(f'#include "{_REPORT}"\n', part(GENERATED / _REPORT))
    parts = [part(CORE / "crypto.h"), device]
    body = "\n".join([public.removesuffix("#endif\n"), *parts, *([more] if more else [])])
    return f"{notice}\n{defines}{body}\n#endif\n"


def macro(codec: Codec) -> str:
    """What is defined in a replayer that has a codec which others lack."""
    return f"GRAMOPHONE_{codec.name}"


def source(
    profile: Profile,
    notice: str,
    device: str,
    more: str = "",
    *,
    operates: bool = False,
    codecs: Collection[Codec] = (),
) -> str:
    """Text of replayer.c.

    Args:
        profile: the GPU.
        notice: the file's first comment.
        device: the definition of the device's constant.
        more: further functions.
        operates: it has operators.
        codecs: those that it has besides those of every replayer.
    """
    names = {path.name for path in CORE.glob("*.c")}
    assert names == set(_CORE_SOURCES), names
    left_out = {name for name, codec in _DECODERS.items() if codec not in codecs} | (
        set() if operates else {_OPERATE}
    )
    parts = [
        part(GENERATED / "gramophone_trace.h"),
        f"/* {'-' * 40} target */\n{_bare(target.header(profile))}",
        part(CORE / "internal.h"),
        part(CORE / "driver.h"),
        part(CORE / "load.h"),
        part(target.driver_source(profile)),
        *([part(CORE / OPERATORS)] if operates else []),
        *(part(CORE / name) for name in _CORE_SOURCES if name not in left_out),
        *([more] if more else []),
        device,
    ]
    return "\n".join([notice, '#include "replayer.h"\n\n#define GR_INTERNAL static\n', *parts])


def part(path: Path) -> str:
    """A file as a part of a larger one: under its name, without its include guard and without includes of ours."""
    return f"/* {'-' * 40} {path.name} */\n{_bare(path.read_text(encoding='utf-8'))}"


def _bare(text: str) -> str:
    """A file without licence line, include guard and includes of ours."""
    text = _OWN_INCLUDE.sub("", _GUARD.sub("", _without_spdx(text)))
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _without_spdx(text: str) -> str:
    """A file without its licence line: the whole has one, in its notice."""
    return text.removeprefix(f"/* {SPDX} */\n")
