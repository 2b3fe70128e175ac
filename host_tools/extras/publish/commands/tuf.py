# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone publish tuf`: repositories of signed traces and policies, for TUF's clients (docs/PROVENANCE.md)."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from host_tools.commands.extras import extra
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, UsageError
from host_tools.commands.policy import EXPIRES
from host_tools.commands.signers import chosen, signer_options
from host_tools.commands.streams import check_output, read, write
from host_tools.commands.tree import SubGroup
from host_tools.support.results import Count, Positive, Result, Sha256
from signing.key_files import load_public_key
from signing.keys import PublicKey
from trace_format import limits

FOLDER = click.argument("folder", type=FILE)
DAYS = 365  # that root and targets hold, if nothing is said


def _roles(required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options that say who signs what."""
    at_first = " (needed)" if required else "; default: as before"

    def options(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(
            (
                click.option("--root", type=FILE, multiple=True, required=required,
                             help=f"Public key that signs root: who signs what{at_first}; repeatable."),
                click.option("--root-threshold", type=click.IntRange(1),
                             help="Number of signatures required; default: 1."),
                click.option("--targets", type=FILE, multiple=True, required=required,
                             help=f"Public key that signs the list of files{at_first}; repeatable."),
                click.option("--targets-threshold", type=click.IntRange(1),
                             help="Number of signatures required; default: 1."),
                click.option("--online", type=FILE, required=required,
                             help=f"Public key that signs what is newest{at_first}."),
            )
        ):  # fmt: skip
            function = option(function)
        return function

    return options


class RoleFacts(Result):
    """Metadata of a role.

    Attributes:
        staged: It is to be published yet.
        keys: TUF's ids.
    """

    version: Positive
    staged: bool
    expires: str
    threshold: Positive
    keys: list[str]


class FileFacts(Result):
    """A file of the repository."""

    name: str
    sha256: Sha256
    bytes: Count


class TufRepository(Result):
    """What is in a TUF repository.

    Attributes:
        newest_until: Until when clients take what is published for the newest; null: nothing is.
        missing: What lacks signatures.
    """

    folder: str
    root: RoleFacts
    targets: RoleFacts
    newest_until: str | None
    files: list[FileFacts]
    missing: list[str]


@click.group(
    "tuf", cls=SubGroup, example="gramophone publish tuf init repo --root a.pub.pem --targets b.pub.pem ..."
)
def tuf_group() -> None:
    """Publish traces and trust policies in a TUF repository. Its clients notice old and missing files."""


@tuf_group.command(
    "init",
    cls=GramophoneCommand,
    example=(
        "gramophone publish tuf init repo --root a.pub.pem --root b.pub.pem --targets c.pub.pem \\\n"
        "    --online d.pub.pem --expires 2030-12-31"
    ),
)
@FOLDER
@_roles(required=True)
@EXPIRES
def init(folder: Path, expires: int | None, **roles: Any) -> Outcome[TufRepository]:
    """Create a repository in a new FOLDER. Next, sign its root and its list of files ('tuf sign')."""
    with _extra():
        from host_tools.extras.publish.repository import Repository
    return _said(Repository.begin(folder, _keys(**roles), _until(expires, DAYS)))


@tuf_group.command(
    "keys",
    cls=GramophoneCommand,
    example="gramophone publish tuf keys repo --targets c.pub.pem --targets e.pub.pem",
)
@FOLDER
@_roles(required=False)
@EXPIRES
def keys(folder: Path, expires: int | None, **roles: Any) -> Outcome[TufRepository]:
    """Change the keys of roles. Keys of the old root and of the new root must sign the change."""
    with _extra():
        from host_tools.extras.publish.repository import Repository
    repository = Repository(folder)
    repository.change_keys(_keys(**roles), _until(expires, DAYS) if expires is not None else None)
    return _said(repository)


@tuf_group.command(
    "add", cls=GramophoneCommand, example="gramophone publish tuf add repo net.sgtr fleet.gtp net.intoto.jsonl"
)
@FOLDER
@click.argument("files", type=FILE, nargs=-1)
@EXPIRES
def add(folder: Path, files: tuple[Path, ...], expires: int | None) -> Outcome[TufRepository]:
    """Add FILES, or replace those of the same names. Traces and trust policies must be signed."""
    with _extra():
        from host_tools.extras.publish.repository import Repository
    if not files and expires is None:
        raise UsageError("expected FILES that are added, or --expires")
    repository = Repository(folder)
    repository.change_targets(files, (), _until(expires, DAYS) if expires is not None else None)
    return _said(repository)


@tuf_group.command("remove", cls=GramophoneCommand, example="gramophone publish tuf remove repo net.sgtr")
@FOLDER
@click.argument("names", nargs=-1, required=True)
def remove(folder: Path, names: tuple[str, ...]) -> Outcome[TufRepository]:
    """Remove NAMES from the list of files. Clients with an older list still find them."""
    with _extra():
        from host_tools.extras.publish.repository import Repository
    repository = Repository(folder)
    repository.change_targets((), names, None)
    return _said(repository)


@tuf_group.command(
    "sign",
    cls=GramophoneCommand,
    example=(
        "gramophone publish tuf sign repo root --signing-key a.pem\n"
        "gramophone publish tuf sign repo targets --pkcs11 'pkcs11:token=T;object=KEY' --passphrase-file pin"
    ),
)
@FOLDER
@click.argument("role", type=click.Choice(["root", "targets"]))
@signer_options
@click.option("-o", "--output", type=FILE, help="File for the bytes to sign. Requires --to-be-signed.")
def sign(folder: Path, role: str, output: Path | None, **who: Any) -> Outcome[TufRepository]:
    """Sign the staged files of a role."""
    with _extra():
        from host_tools.extras.publish.repository import Repository
    repository, by = Repository(folder), chosen(**who)
    if (by.signer is None) != (output is not None):
        raise UsageError("-o and --to-be-signed require each other")
    if by.signer is None:
        assert output is not None
        check_output(output)
        write(output, repository.to_be_signed(role, by.public)[1])
    else:
        with by.naming():
            repository.sign(role, by.signer)
    return _said(repository)


@tuf_group.command(
    "publish",
    cls=GramophoneCommand,
    example="gramophone publish tuf publish repo --signing-key online.pem --days 7",
)
@FOLDER
@signer_options
@click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=7,
    show_default=True,
    help=("Days until clients report the repository as outdated."),
)
def publish(folder: Path, days: int, **who: Any) -> Outcome[TufRepository]:
    """Publish staged files with the online key.

    They are first checked as by a client. Repeat this before the days are over, or clients report an outdated
    repository.
    """
    with _extra():
        from host_tools.extras.publish.repository import Repository
    by = chosen(**who)
    if by.signer is None or by.file:
        raise UsageError("this signs two documents: use --to-be-signed and --signature with 'tuf sign'")
    repository = Repository(folder)
    repository.publish(by.signer, _until(None, days))
    return _said(repository)


@tuf_group.command("show", cls=GramophoneCommand, example="gramophone publish tuf show repo")
@FOLDER
def show(folder: Path) -> Outcome[TufRepository]:
    """Show a repository and its missing signatures. Exit status 1: a signature is missing."""
    with _extra():
        from host_tools.extras.publish.repository import Repository
    found = _said(Repository(folder))
    found.ok = not found.data.missing
    return found


def _extra() -> Any:
    return extra("provenance", "tuf", "securesystemslib", "packageurl")


def _keys(
    root: tuple[Path, ...],
    root_threshold: int | None,
    targets: tuple[Path, ...],
    targets_threshold: int | None,
    online: Path | None,
) -> dict[str, Any]:
    from host_tools.extras.publish.repository import ONLINE, Keys

    for role, paths, threshold in (("root", root, root_threshold), ("targets", targets, targets_threshold)):
        if threshold and not paths:
            raise UsageError(
                f"--{role}-threshold is of the keys that --{role} names: all of them, also those that stay"
            )
    newest = Keys([_public(online)] if online else [])
    return {
        "root": Keys([_public(path) for path in root], root_threshold or 1),
        "targets": Keys([_public(path) for path in targets], targets_threshold or 1),
        **dict.fromkeys(ONLINE, newest),
    }


def _public(path: Path) -> PublicKey:
    return load_public_key(read(path, limits.SMALL_BYTES), file=str(path))


def _until(expires: int | None, days: int) -> datetime.datetime:
    if expires == 0:
        raise UsageError("--expires never: TUF's metadata always expires")
    if expires:
        return datetime.datetime.fromtimestamp(expires, datetime.UTC)
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0) + datetime.timedelta(days=days)


def _said(repository: Any) -> Outcome[TufRepository]:
    """What is in a repository, for programs and for people."""
    root, targets = repository.root().signed, repository.targets().signed
    newest = repository.published("timestamp")
    roles = {
        role: RoleFacts(
            version=document.version,
            staged=repository.staged(role) is not None,
            expires=f"{document.expires:%Y-%m-%dT%H:%M:%SZ}",
            threshold=root.roles[role].threshold,
            keys=sorted(root.roles[role].keyids),
        )
        for role, document in (("root", root), ("targets", targets))
    }
    files = [FileFacts(name, one.hashes["sha256"], one.length) for name, one in sorted(targets.targets.items())]
    missing = list(repository.missing())
    until = f"{newest.signed.expires:%Y-%m-%dT%H:%M:%SZ}" if newest else None
    lines = [
        f"{role:<16} version {one.version}, {one.threshold} of {len(one.keys)} keys, "
        f"to {one.expires}{', staged' if one.staged else ''}"
        for role, one in roles.items()
    ]
    lines.append(f"{'published':<16} {f'newest until {until}' if until else 'not yet'}")
    lines += [f"{'file':<16} {one.name}, {one.bytes} bytes, sha256 {one.sha256}" for one in files]
    lines += [f"{'missing':<16} {text}" for text in missing]
    return Outcome(
        TufRepository(str(repository.folder), roles["root"], roles["targets"], until, files, missing),
        "\n".join(lines),
    )
