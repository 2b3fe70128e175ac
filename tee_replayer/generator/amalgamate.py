# SPDX-License-Identifier: BSD-2-Clause
"""Puts the core, one nano driver and one GPU's tables into two files that drop into any tree.

They hold what this replayer has: conditionals on its options are resolved, declarations of the trace format and of
the GPU lie where they are first needed and only if they are, and what the compiler only checks comes last.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from tee_replayer.crypto import SEAMS
from tee_replayer.generator import conditionals, target
from tee_replayer.generator.declarations import Stock, without_assertions
from tee_replayer.generator.decryption import HAS_ENCRYPTION
from tee_replayer.generator.status import CORE
from trace_format.emit import GENERATED
from trace_format.emit.c_memory import GENERATED_BY
from trace_format.files import read_file_text
from trace_format.licence import SPDX
from trace_format.profile import Profile

_OWN_INCLUDE = re.compile(r'^#include "[\w.]+"\n', re.MULTILINE)
_GUARD = re.compile(r"^#ifndef (GRAMOPHONE_\w+_H)\n#define \1\n(.*)^#endif\n*\Z", re.MULTILINE | re.DOTALL)
_GENERATED = re.compile(r" " + r"[\s*]+".join(map(re.escape, GENERATED_BY.split())) + r"(\n \*(?= \*/))?")
_REPORT = "gramophone_report.h"
# core files in reading order; memory.c, which the first ones use too, is with those that take memory
CORE_SOURCES = (
    *("lz4.c", "stream.c", "reach.c", "check.c", "slots.c", "operate.c", "memory.c", "policy.c"),
    *("cose.c", "known.c", "envelope.c", "trust.c", "encryption.c", "networks.c", "load.c", "run.c"),
    "schedule.c",
)
OPERATORS = "operators.h"
HAS_OPERATORS = "GRAMOPHONE_OPERATORS"
HAS_TRUST = "GRAMOPHONE_TRUST"  # a trust policy says who signs, not one key
HAS_NETWORKS = "GRAMOPHONE_NETWORKS"  # joint traces
HAS_STEPS = "GRAMOPHONE_STEPS"  # replays that stop between jobs
HAS_SCHEDULE = "GRAMOPHONE_SCHEDULE"  # requests with deadlines wait for the GPU
HAS_CLOCK = "GRAMOPHONE_CLOCK"  # the port knows what day it is
HAS_STORE = "GRAMOPHONE_STORE"  # versions outlive a reboot
IN_OPTEE = "GR_STAGING_BYTES"  # only OP-TEE's port has memory for the normal world's data in the carve-out
_ONLY_WITH = {  # core files of replayers with an option, by its macro
    HAS_OPERATORS: ("operate.c",),
    HAS_TRUST: ("policy.c", "cose.c", "trust.c"),
    HAS_ENCRYPTION: ("encryption.c",),
    HAS_NETWORKS: ("reach.c", "networks.c"),
    HAS_SCHEDULE: ("schedule.c",),
}
_OPTIONS = (  # macros that a generated replayer has or has not
    *_ONLY_WITH,
    *(macro for _, macro in SEAMS.values()),
    *("GRAMOPHONE_LOG", "GRAMOPHONE_LOG_HASHES", "GRAMOPHONE_ATTEST", HAS_STORE, HAS_CLOCK, HAS_STEPS, IN_OPTEE),
)
_INTERNAL = "GR_INTERNAL"
_LISTED = re.compile(r"\bX\((\w+), \w+\)")  # an operator, in what HAS_OPERATORS is


def core_sources(on: Collection[str]) -> tuple[str, ...]:
    """Names of the core's files that a replayer has, in reading order.

    Args:
        on: macros of its options.
    """
    left_out = {name for macro, names in _ONLY_WITH.items() if macro not in on for name in names}
    return tuple(name for name in CORE_SOURCES if name not in left_out)


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
    return f"{notice}\n{defines}" + _resolved(f"{body}\n#endif\n", options(defines))


def options(defines: str) -> set[str]:
    """Names of the macros that are defined in a text."""
    return set(re.findall(r"^#define (\w+)", defines, re.MULTILINE))


def source(
    profile: Profile,
    notice: str,
    device: str,
    more: str = "",
    *,
    defines: str = "",
    in_optee: bool = False,
) -> str:
    """Text of replayer.c.

    Args:
        profile: the GPU.
        notice: the file's first comment.
        device: the definition of the device's constant.
        more: further functions.
        defines: what comes first in replayer.h: the options that are on.
        in_optee: it is a part of OP-TEE's core.
    """
    names = {path.name for path in CORE.glob("*.c")}
    assert names == set(CORE_SOURCES), names
    on = options(defines)
    driver = part(target.driver_source(profile))
    parts = [
        part(CORE / "internal.h"),
        part(CORE / "driver.h"),
        driver,
        *([part(CORE / OPERATORS)] if HAS_OPERATORS in on else []),
        *(_core(name) for name in core_sources(on)),
        *([more] if more else []),
        device,
    ]
    on |= {_INTERNAL} | ({IN_OPTEE} if in_optee else set())
    kept, assertions = zip(*(without_assertions(_resolved(text, on)) for text in parts), strict=True)
    formats = (GENERATED / "gramophone_trace.h").read_text(encoding="utf-8")
    trust = [(GENERATED / "gramophone_trust.h").read_text(encoding="utf-8")] if HAS_TRUST in on else []
    headers = [_resolved(_bare(text), on) for text in (formats, target.header(profile), *trust)]
    joined = [
        f"GR_{kind}_{name}" for name in _LISTED.findall(defines) for kind in ("OPERANDS", "OPERATOR", "HAS_PACKED")
    ]
    stock = Stock(headers, kept, {HAS_OPERATORS: joined})
    body = []
    for number, code in enumerate(kept):
        # Functions lie before the first code that is no header's: compilers write code in the order of the source.
        needed = stock.take(f"{code} {stock.functions}" if parts[number] is driver else code)
        body += [*([_heading("format and GPU") + needed] if needed else []), code]
    checks = "".join([*stock.assertions(), *(text for found in assertions for text in found)])
    start = f'{notice}\n#include "replayer.h"\n\n#define {_INTERNAL} static\n'
    return "\n".join([start, *body, f"{_heading('assertions')}{checks}"])


def _core(name: str) -> str:
    """A file of the core, and before the first that verifies and loads what these share."""
    before = {"check.c": "own.h", "memory.c": "load.h", "policy.c": "trust.h"}
    return (part(CORE / before[name]) + "\n" if name in before else "") + part(CORE / name)


def _resolved(text: str, on: Collection[str]) -> str:
    """A text for the options that are on."""
    return _tidy(conditionals.resolve(text, {*_OPTIONS, _INTERNAL}, on))


def part(path: Path) -> str:
    """A file as a part of a larger one: under its subject, without its include guard and includes of ours."""
    subject = path.stem.removeprefix("gramophone_")
    return f"{_heading(subject)}{_bare(read_file_text(path))}"


def _heading(subject: str) -> str:
    return f"/* {'-' * 40} {subject} */\n"


def _bare(text: str) -> str:
    """A file without licence line, include guard and includes of ours, and not saying what it was generated by."""
    text = _GENERATED.sub("", _OWN_INCLUDE.sub("", _GUARD.sub(r"\2", _without_spdx(text))))
    return _tidy(text).strip() + "\n"


def _tidy(text: str) -> str:
    """A text with at most one empty line at a time."""
    return re.sub(r"\n{3,}", "\n\n", text)


def _without_spdx(text: str) -> str:
    """A file without its licence line: the whole has one, in its notice."""
    return text.removeprefix(f"/* {SPDX} */\n")
