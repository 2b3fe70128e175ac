# SPDX-License-Identifier: BSD-2-Clause
"""Which Debian archive packages come from.

It is $GRAMOPHONE_MIRROR, or the one that the machine's own apt uses if that is Debian's, or Debian's own; so
nothing has to be added to the sources of another system.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from host_tools.machine.errors import RecordError
from trace_format import limits
from trace_format.files import read_file_text

MIRROR = "GRAMOPHONE_MIRROR"  # environment variable
DEFAULT_MIRROR = "http://deb.debian.org/debian"
APT_ETC = Path("/etc/apt")
# A source of Debian's main archive names one of these (or the machine's own codename) as a suite, exactly:
# "bookworm-security" and a third party's "nodistro" are other archives.
SUITE_ALIASES = {"oldstable", "stable", "testing", "unstable", "sid", "bullseye", "bookworm", "trixie", "forky"}


def mirror_uri(etc: Path = APT_ETC) -> str:
    """URI of the Debian archive: $GRAMOPHONE_MIRROR, that of the machine's own apt, or Debian's own.

    Reads `sources.list`, `sources.list.d/*.list` (one line a source) and `*.sources` (deb822, sources.list(5)).

    Raises:
        RecordError: $GRAMOPHONE_MIRROR is not a URI.
    """
    if given := os.environ.get(MIRROR):
        if re.fullmatch(r"[a-z][a-z0-9+.-]*:[^\s\[\]]+", given) is None:
            raise RecordError(f"${MIRROR}: expected a URI such as {DEFAULT_MIRROR}, found {given!r}")
        return given.rstrip("/")
    files = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]
    for file in files:
        if not file.is_file():
            continue
        text = read_file_text(file, limits.TEXT_BYTES)
        sources = _deb822_sources(text) if file.suffix == ".sources" else _line_sources(text)
        for uri, suites, components in sources:
            if "main" in components and SUITE_ALIASES & set(suites):
                return uri.rstrip("/")
    return DEFAULT_MIRROR


def _line_sources(text: str) -> Iterable[tuple[str, list[str], list[str]]]:
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s+([^#]+)", line)
        if match:
            yield match[1], [match[2]], match[3].split()


def _deb822_sources(text: str) -> Iterable[tuple[str, list[str], list[str]]]:
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n\s*\n", lines):
        fields: dict[str, list[str]] = {}
        for field, value in re.findall(r"^([A-Za-z-]+):((?:.*)(?:\n[ \t].*)*)", stanza, re.MULTILINE):
            fields[field.lower()] = value.split()
        if "deb" not in fields.get("types", []) or fields.get("enabled", ["yes"]) == ["no"]:
            continue
        for uri in fields.get("uris", []):
            yield uri, fields.get("suites", []), fields.get("components", [])
