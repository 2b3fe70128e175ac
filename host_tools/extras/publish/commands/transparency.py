# SPDX-License-Identifier: BSD-2-Clause
"""Proofs of transparency logs, as `verify trace` and `verify provenance` take them (docs/PROVENANCE.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from host_tools.commands.additions import FileJudge, Judged, adds
from host_tools.commands.framework import FILE
from host_tools.commands.option_rules import requires
from host_tools.commands.streams import read
from host_tools.support.results import Count, Id, Positive, Result, one_of
from trace_format import layout, limits
from trace_format.codec import Buffer
from trace_format.errors import printable

if TYPE_CHECKING:
    from host_tools.extras.publish.transparency import Entry, Proof
    from signing.keys import PublicKey

NOT_LOGGED = "not-logged"  # verdict of `verify trace`


class LogEntry(Result):
    """The entry of a transparency log."""

    log: str
    log_key_id: Id
    index: Count
    size: Positive
    kind: Annotated[str, one_of("hashedrekord", "dsse", "intoto")]


class Logged(Result):
    """What a log adds to the result of `verify trace`.

    Attributes:
        transparency: The entry of a transparency log about it; null: none was asked for, or there is none.
    """

    transparency: LogEntry | None = None


def transparency_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options for a proof and the log's key: `transparency`, `transparency_key`."""
    proof = click.option(
        "--transparency",
        type=FILE,
        help="Proof of an entry in a transparency log: Sigstore's bundle or Rekor's entry. "
        "Requires --transparency-key.",
    )
    key = click.option(
        "--transparency-key",
        type=FILE,
        help="Public key (PEM) of the transparency log. Requires --transparency.",
    )
    function = requires("--transparency", "--transparency-key")(function)
    return proof(key(requires("--transparency-key", "--transparency")(function)))


def logged(
    proof: Path | None, key: Path | None, find: Callable[[Proof, PublicKey], Entry]
) -> tuple[LogEntry | None, str]:
    """What a log shows of a file.

    Args:
        proof: the option's file; None: there is none.
        key: of the log.
        find: the entry that is about the file; may raise as `Proof.entry_of_file`.

    Returns:
        The entry as JSON has it, or None without a proof or with one that shows nothing; then the reason for that.

    Raises:
        GramophoneError: the proof or the key is malformed.
    """
    if proof is None or key is None:
        return None, ""
    from host_tools.extras.publish.transparency import NotLoggedError, Proof
    from signing.key_files import load_public_key

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


@adds(
    fields=Logged,
    verdicts=[NOT_LOGGED],
    example="gramophone verify trace net.sgtr --key pub.pem --transparency net.json --transparency-key log.pem",
)
@transparency_options
def log_judge(transparency: Path | None, transparency_key: Path | None) -> FileJudge | None:
    """Judges a file by the log's entry about it."""
    if transparency is None:
        return None

    def judge(data: Buffer) -> Judged:
        sha256 = hashlib.sha256(data).digest()
        entry, missing = logged(
            transparency, transparency_key, lambda proof, public: proof.entry_of_file(sha256, public)
        )
        return Judged({"transparency": entry}, words(entry) if entry else "", missing, NOT_LOGGED)

    return judge
