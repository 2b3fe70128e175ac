# SPDX-License-Identifier: BSD-2-Clause
"""Proofs of transparency logs, as `verify` and `verify provenance` take them (docs/PROVENANCE.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import click

from host_tools.commands.framework import FILE, UsageError
from host_tools.commands.streams import read
from host_tools.support.results import Count, Id, Positive, Result, one_of
from signing.key_files import load_public_key
from signing.keys import PublicKey
from signing.transparency import Entry, NotLoggedError, Proof
from trace_format import layout, limits
from trace_format.errors import printable


class LogEntry(Result):
    """The entry of a transparency log."""

    log: str
    log_key_id: Id
    index: Count
    size: Positive
    kind: Annotated[str, one_of("hashedrekord", "dsse", "intoto")]


def transparency_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options for a proof and the log's key: `transparency`, `transparency_key`."""
    function = click.option("--transparency-key", type=FILE, help="Public key (PEM) of the transparency log.")(
        function
    )
    return click.option(
        "--transparency",
        type=FILE,
        help=("Proof of an entry in a transparency log: Sigstore's bundle or Rekor's entry."),
    )(function)


def logged(
    proof: Path | None, key: Path | None, find: Callable[[Proof, PublicKey], Entry]
) -> tuple[LogEntry | None, str]:
    """What a log shows of a file.

    Args:
        proof: the option's file; None: there is none.
        key: of the log.
        find: the entry that is about the file; may raise as `signing.transparency.Proof.entry_of_file`.

    Returns:
        What JSON says of the entry, None where there is no proof or it shows nothing; and why it shows nothing.

    Raises:
        UsageError: one of the two options only.
        GramophoneError: the proof or the key is malformed.
    """
    if (proof is None) != (key is None):
        raise UsageError("--transparency and --transparency-key require each other")
    if proof is None or key is None:
        return None, ""
    public = load_public_key(read(key, limits.SMALL_BYTES), file=str(key))
    try:
        with layout.naming(str(proof)):
            entry = find(Proof.decode(read(proof, limits.SMALL_BYTES)), public)
            found = LogEntry(entry.checkpoint.origin, public.kid.hex(), entry.index, entry.size, entry.kind)
    except NotLoggedError as error:
        return None, f"{proof}: {error}"
    return found, ""


def words(entry: LogEntry) -> str:
    """A line on it."""
    return f"logged: entry {entry.index} of {entry.size} of {printable(entry.log)} ({entry.kind})"
