# SPDX-License-Identifier: BSD-2-Clause
"""Puts the core, one nano driver and one GPU's tables into two files that drop into any tree.

They hold what this replayer has: conditionals on its options are resolved, declarations of the trace format and of
the GPU lie where they are first needed and only if they are, and what the compiler only checks comes last.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection
from pathlib import Path

from tee_replayer import features
from tee_replayer.crypto import SEAMS
from tee_replayer.features import FEATURES
from tee_replayer.generator import conditionals, target
from tee_replayer.generator.declarations import Stock, is_macros, without_assertions
from tee_replayer.generator.status import CORE
from trace_format.emit import GENERATED
from trace_format.emit.c_memory import GENERATED_BY
from trace_format.files import read_file_text
from trace_format.licence import SPDX
from trace_format.profile import Profile

_OWN_INCLUDE = re.compile(r'^#include "[\w./]+"\n', re.MULTILINE)
_OF_FEATURES = re.compile(r'^#include "((?:\.\./features/)?[\w/]+\.h)"\n', re.MULTILINE)
_TABLES = ("features_api.h", "features_hooks.h")  # of the core; they include what is each feature's
_GUARD = re.compile(r"^#ifndef (GRAMOPHONE_\w+_H)\n#define \1\n(.*)^#endif\n*\Z", re.MULTILINE | re.DOTALL)
_GENERATED = re.compile(r" " + r"[\s*]+".join(map(re.escape, GENERATED_BY.split())) + r"(\n \*(?= \*/))?")
_MACRO = re.compile(r"^#define (\w+)((?:\([^)]*\))?)((?:.*\\\n)*.*)\n", re.MULTILINE)
_FIELDS = re.compile(r"GR_\w*_FIELDS")
_REPORT = "gramophone_report.h"
HAS_OPERATORS = "GRAMOPHONE_OPERATORS"
HAS_TRUST = "GRAMOPHONE_TRUST"  # a trust policy says who signs, not one key
HAS_NETWORKS = "GRAMOPHONE_NETWORKS"  # joint traces
HAS_STEPS = "GRAMOPHONE_STEPS"  # replays that stop between jobs
HAS_SCHEDULE = "GRAMOPHONE_SCHEDULE"  # requests with deadlines wait for the GPU
HAS_STREAMING = "GRAMOPHONE_STREAMING"  # memory is read while jobs run
HAS_COMMAND_STREAMS = "GRAMOPHONE_COMMAND_STREAMS"  # of the GPU: jobs are calls of streams
HAS_CLOCK = "GRAMOPHONE_CLOCK"  # the port knows what day it is
HAS_STORE = "GRAMOPHONE_STORE"  # versions outlive a reboot
IN_OPTEE = "GR_STAGING_BYTES"  # only OP-TEE's port has memory for the normal world's data in the carve-out
_OPTIONS = (  # macros that a generated replayer has or has not
    *(feature.macro for feature in FEATURES),
    *(macro for _, macro in SEAMS.values()),
    *("GRAMOPHONE_LOG_HASHES", "GRAMOPHONE_ATTEST", IN_OPTEE),
)
_INTERNAL = "GR_INTERNAL"
_KNOWN = {*_OPTIONS, _INTERNAL}
_LISTED = re.compile(r"\bX\((\w+), \w+\)")  # an operator, in what HAS_OPERATORS is


def header(notice: str, device: str, defines: str = "", more: str = "") -> str:
    """Text of replayer.h: the public interface, the crypto seam, and the declaration of the device's constant.

    Args:
        notice: the file's first comment.
        device: the declaration.
        defines: what comes before all else.
        more: further declarations.
    """
    on = options(defines)
    public = _inlined(CORE / "replayer.h", on).replace(f'#include "{_REPORT}"\n', part(GENERATED / _REPORT))
    parts = [f"{_heading('crypto')}{_inlined(CORE / 'crypto.h', on)}", device, *([more] if more else [])]
    body = "\n".join([public, *parts])
    guard = "GRAMOPHONE_REPLAYER_H"
    return f"{notice}\n{defines}" + _resolved(f"#ifndef {guard}\n#define {guard}\n\n{body}\n#endif\n", on)


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
    on = options(defines)
    on |= {_INTERNAL} | ({IN_OPTEE} if in_optee else set())
    driver = "\n".join(map(part, target.driver_files(profile)))
    hooks = _paragraphs(_inlined(CORE / "features_hooks.h", on))
    sources = [driver, *map(_core, features.sources(on))]
    parts = [
        "\n".join([part(CORE / "internal.h"), *(text for text in hooks if not is_macros(text))]),
        part(CORE / "driver.h"),
        *sources,
        *([more] if more else []),
        device,
    ]
    kept, assertions = zip(*(without_assertions(_resolved(text, on)) for text in parts), strict=True)
    formats = (GENERATED / "gramophone_trace.h").read_text(encoding="utf-8")
    trust = [(GENERATED / "gramophone_trust.h").read_text(encoding="utf-8")] if HAS_TRUST in on else []
    headers = [_resolved(_bare(text), on) for text in (_known(formats, on), target.header(profile), *trust)]
    headers += [text for text in hooks if is_macros(text)]
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


def _known(formats: str, on: Collection[str]) -> str:
    """The format's header without opcodes that only an absent feature knows: a row of a table each."""
    absent = {name for name in re.findall(r"\bGR_IF_(\w+)", formats) if f"GRAMOPHONE_{name}" not in on}
    rows = re.compile(rf"^    +.*\bGR_IF_({'|'.join(sorted(absent))})\(.*[,\\\\]\n", re.MULTILINE)
    return rows.sub("", formats) if absent else formats


def _core(path: Path) -> str:
    """A C file of the core or a feature, behind the header that it and those after it share."""
    before = {"memory.c": CORE / "load.h"} | {
        feature.sources[0]: features.HERE / feature.name / feature.header for feature in FEATURES if feature.header
    }
    shared = before.get(path.name)
    return (part(shared) + "\n" if shared else "") + part(path)


def _inlined(path: Path, on: Collection[str]) -> str:
    """A header of the core with those of the features in it; of a feature that is absent, what is left of it."""

    def text_of(found: re.Match[str]) -> str:
        name = found[1]
        if not name.startswith("../features/") and name not in _TABLES:
            return found[0]
        text = _inlined(path.parent / name, on)
        has_code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).strip()
        return text + "\n" if has_code else ""

    text = _GUARD.sub(r"\2", _without_spdx(read_file_text(path)))
    if path.name in _TABLES:
        text = text[text.index("*/") + 3 :]  # what it says is of the two tables
    return _bare(_resolved(_OF_FEATURES.sub(text_of, text), on), keep=_REPORT)


@functools.cache
def _fields(on: frozenset[str]) -> dict[str, str]:
    """What features add to structures, by the macro that names it there."""
    paths = [*(CORE / name for name in _TABLES), *features.headers()]
    text = "".join(conditionals.resolve(read_file_text(path), _KNOWN, on) for path in paths)
    return {
        found[1]: re.sub(r"[ \t]*\\\n", "\n", found[3]).strip()
        for found in _MACRO.finditer(text)
        if _FIELDS.fullmatch(found[1])
    }


def _with_fields(text: str, on: Collection[str]) -> str:
    """A text in which structures have what features add, and no macro says so."""
    fields = _fields(frozenset(on))
    text = _MACRO.sub(lambda found: "" if found[1] in fields else found[0], text)
    while used := [name for name in fields if re.search(rf"\b{name}\b", text)]:
        for name in used:
            text = re.sub(rf"\b{name}\b;?", lambda _, name=name: fields[name], text)  # type: ignore[misc]
    return re.sub(r"^[ \t]+\n(?=\};)", "", text, flags=re.MULTILINE)


def _paragraphs(text: str) -> list[str]:
    return [f"{paragraph}\n" for paragraph in re.split(r"\n{2,}", text.strip())]


def _resolved(text: str, on: Collection[str]) -> str:
    """A text for the options that are on."""
    return _tidy(_with_fields(conditionals.resolve(text, _KNOWN, on), on))


def part(path: Path) -> str:
    """A file as a part of a larger one: under its subject, without its include guard and includes of ours."""
    subject = path.stem.removeprefix("gramophone_")
    return f"{_heading(subject)}{_bare(read_file_text(path))}"


def _heading(subject: str) -> str:
    return f"/* {'-' * 40} {subject} */\n"


def _bare(text: str, keep: str = "") -> str:
    """A file without licence line, include guard and includes of ours, and not saying what it was generated by."""
    text = _GUARD.sub(r"\2", _without_spdx(text))
    text = _GENERATED.sub("", _OWN_INCLUDE.sub(lambda found: found[0] if keep and keep in found[0] else "", text))
    return _tidy(text).strip() + "\n"


def _tidy(text: str) -> str:
    """A text with at most one empty line at a time."""
    return re.sub(r"\n{3,}", "\n\n", text)


def _without_spdx(text: str) -> str:
    """A file without its licence line: the whole has one, in its notice."""
    return text.removeprefix(f"/* {SPDX} */\n")
