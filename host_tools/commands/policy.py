# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone policy`: making and changing a trust policy, for people who do this once a year (docs/KEYS.md)."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from host_tools.commands import policy_words
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, UsageError, warn
from host_tools.commands.option_rules import requires
from host_tools.commands.policy_words import PolicyFacts
from host_tools.commands.signers import DeviceId, chosen, signer_options
from host_tools.commands.streams import OUTPUT, check_output, read, write
from host_tools.commands.tree import SubGroup
from signing import ceremony
from signing.cose_sign import to_be_signed
from signing.errors import TrustError
from signing.key_files import load_public_key
from signing.keys import PublicKey
from signing.trust import Policy, Role, Rule
from signing.trust_chain import Chain
from trace_format import layout, limits
from trace_format.errors import GramophoneError
from trace_format.files import read_file
from trace_format.schema import Gpu

DRY_RUN = click.option("--dry-run", is_flag=True, help="Print the resulting trust policy, and write nothing.")
POLICY = click.argument("file", type=FILE)
MIB = 1 << 20
SECOND_US = 1_000_000


class Expiry(click.ParamType):  # type: ignore[type-arg]
    """A day, or "never": seconds since 1970 (UTC) of its end, or 0."""

    name = "day"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The seconds."""
        if isinstance(value, int):
            return value
        if value == "never":
            return 0
        try:
            day = datetime.datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=datetime.UTC)
        except ValueError:
            self.fail(f"{value!r}: expected a day as 2028-01-31, or never", param, ctx)
        end = int((day + datetime.timedelta(days=1)).timestamp()) - 1
        if end < datetime.datetime.now(datetime.UTC).timestamp():
            self.fail(
                f"{value}: this day is over: the policy would be refused by every device with a clock", param, ctx
            )
        return end


EXPIRES = click.option("--expires", type=Expiry(), help="Last day of validity (UTC), or never.")


@click.group("policy", cls=SubGroup, example="gramophone policy init fleet --root a.pub.pem --root b.pub.pem ...")
def policy_group() -> None:
    """Make, change, sign and publish a trust policy. A trust policy says who signs traces and policies."""


@policy_group.command(
    "init",
    cls=GramophoneCommand,
    renamed={"--trace": "--trace-key"},
    example=(
        "gramophone policy init fleet --root a.pub.pem --root b.pub.pem --root c.pub.pem --root-threshold 2 "
        "--trace-key d.pub.pem --trace-key e.pub.pem --expires 2030-12-31 -o fleet.gtp"
    ),
)
@click.argument("name")
@click.option(
    "--root", type=FILE, multiple=True, required=True, help=("Public key that signs trust policies; repeatable.")
)
@click.option(
    "--root-threshold",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help=("Number of signatures required."),
)
@click.option(
    "--trace-key", "trace", type=FILE, multiple=True, help="Public key that signs traces of all names; repeatable."
)
@click.option(
    "--trace-threshold",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of signatures required. Requires --trace-key.",
)
@EXPIRES
@OUTPUT
@DRY_RUN
@requires("--trace-threshold", "--trace-key")
def init(
    name: str,
    root: tuple[Path, ...],
    root_threshold: int,
    trace: tuple[Path, ...],
    trace_threshold: int,
    expires: int | None,
    output: Path,
    dry_run: bool,
) -> Outcome[PolicyFacts]:
    """Create version 1 of a trust policy. Devices have it compiled in. Next, its own root keys must sign it."""
    check_output(output)
    chain = ceremony.start(name, map(_public, root), root_threshold, map(_public, trace), trace_threshold)
    if expires:
        chain = ceremony.changed(chain, lambda policy: ceremony.expiring(policy, expires))
    if not dry_run and output.exists():
        raise GramophoneError(
            f"{output}: exists; a trust policy in use would be lost. Choose another name, or remove it"
        )
    return _written(output, chain, dry_run)


@policy_group.command(
    "allow",
    cls=GramophoneCommand,
    example="gramophone policy allow fleet.gtp 'lenet*' --key a.pub.pem --key b.pub.pem --threshold 2",
)
@POLICY
@click.argument("names")
@click.option("--key", type=FILE, multiple=True, required=True, help="Public key of a signer; repeatable.")
@click.option(
    "--threshold", type=click.IntRange(1), default=1, show_default=True, help=("Number of signatures required.")
)
@click.option(
    "--gpu", type=click.Choice([gpu.name.lower() for gpu in Gpu]), help=("Allow traces only for this GPU.")
)
@click.option("--platform", help="Allow traces only on this platform, as in a device file.")
@click.option(
    "--device-id", type=DeviceId(), multiple=True, help=("Allow traces only on this device; repeatable.")
)
@click.option(
    "--min-security-version",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    help=("Lowest security version to accept."),
)
@click.option("--max-carveout-mib", type=click.IntRange(1, 4096), help="Largest carve-out of a trace.")
@click.option("--max-seconds", type=click.IntRange(1, 600), help="Longest time budget of a trace.")
@click.option("--signed-weights", is_flag=True, help="Refuse traces with weights given by callers.")
@DRY_RUN
def allow(
    file: Path,
    names: str,
    key: tuple[Path, ...],
    threshold: int,
    gpu: str | None,
    platform: str | None,
    device_id: tuple[bytes, ...],
    min_security_version: int,
    max_carveout_mib: int | None,
    max_seconds: int | None,
    signed_weights: bool,
    dry_run: bool,
) -> Outcome[PolicyFacts]:
    """Set the signers and limits of traces by name. NAMES is a name, or a prefix and a *.

    The new rule replaces a rule for the same NAMES. For each trace, the rule with the longest matching NAMES
    counts.
    """
    publics = [_public(path) for path in key]
    rule = Rule(
        names.removesuffix("*"),
        Role(frozenset(public.kid for public in publics), threshold),
        names.endswith("*"),
        int(Gpu[gpu.upper()]) if gpu else 0,
        min_security_version,
        frozenset(device_id),
        (max_carveout_mib or 0) * MIB,
        (max_seconds or 0) * SECOND_US,
        platform or "",
        signed_weights,
    )
    return _change(file, dry_run, lambda policy: ceremony.allowed(policy, rule, publics))


@policy_group.command(
    "add-key", cls=GramophoneCommand, example="gramophone policy add-key fleet.gtp d.pub.pem --role root"
)
@POLICY
@click.argument("key", type=FILE)
@click.option("--role", required=True, help="Role: root, which signs trust policies, or the NAMES of a rule.")
@DRY_RUN
def add_key(file: Path, key: Path, role: str, dry_run: bool) -> Outcome[PolicyFacts]:
    """Add a key to a role."""
    public = _public(key)
    return _change(file, dry_run, lambda policy: ceremony.added(policy, public, role))


@policy_group.command(
    "revoke", cls=GramophoneCommand, example="gramophone policy revoke fleet.gtp 67bd3715 --dry-run"
)
@POLICY
@click.argument("key")
@DRY_RUN
def revoke(file: Path, key: str, dry_run: bool) -> Outcome[PolicyFacts]:
    """Revoke a key permanently, in all roles. KEY is its id, a prefix of the id, or its file."""
    return _change(file, dry_run, lambda policy: ceremony.revoked(policy, _named(policy, key)))


@policy_group.command(
    "rotate",
    cls=GramophoneCommand,
    example="gramophone policy rotate fleet.gtp 67bd3715 new.pub.pem --overlap",
)
@POLICY
@click.argument("old")
@click.argument("new", type=FILE)
@click.option("--overlap", is_flag=True, help="Keep the old key valid until it is revoked.")
@DRY_RUN
def rotate(file: Path, old: str, new: Path, overlap: bool, dry_run: bool) -> Outcome[PolicyFacts]:
    """Replace a key by a new one, in all of its roles. The old one is revoked."""
    public = _public(new)
    return _change(
        file, dry_run, lambda policy: ceremony.rotated(policy, _named(policy, old), public, overlap=overlap)
    )


@policy_group.command(
    "threshold", cls=GramophoneCommand, example="gramophone policy threshold fleet.gtp --role root 2"
)
@POLICY
@click.argument("threshold", type=click.IntRange(1))
@click.option("--role", required=True, help="Role: root, which signs trust policies, or the NAMES of a rule.")
@DRY_RUN
def threshold_command(file: Path, threshold: int, role: str, dry_run: bool) -> Outcome[PolicyFacts]:
    """Set the number of signatures that a role requires."""
    return _change(file, dry_run, lambda policy: ceremony.thresholds(policy, role, threshold))


@policy_group.command("expire", cls=GramophoneCommand, example="gramophone policy expire fleet.gtp 2031-12-31")
@POLICY
@click.argument("day", type=Expiry())
@DRY_RUN
def expire(file: Path, day: int, dry_run: bool) -> Outcome[PolicyFacts]:
    """Set the trust policy's last DAY, or never. Devices without a clock ignore it."""
    return _change(file, dry_run, lambda policy: ceremony.expiring(policy, day))


@policy_group.command("drop", cls=GramophoneCommand, example="gramophone policy drop fleet.gtp")
@POLICY
@DRY_RUN
def drop(file: Path, dry_run: bool) -> Outcome[PolicyFacts]:
    """Drop the newest version, if it lacks signatures."""
    chain = _chain(file)
    with layout.naming(str(file)):
        return _written(file, ceremony.dropped(chain), dry_run)


@policy_group.command("show", cls=GramophoneCommand, example="gramophone policy show fleet.gtp")
@POLICY
def show(file: Path) -> Outcome[PolicyFacts]:
    """Show a trust policy and its signers.

    Exit status 1: signatures are missing.
    """
    chain = _chain(file)
    _warn(chain)
    return Outcome(
        policy_words.data(file, chain, written=False),
        "\n".join(policy_words.lines(file, chain)),
        not ceremony.missing(chain),
    )


@policy_group.command(
    "sign",
    cls=GramophoneCommand,
    example=(
        "gramophone policy sign fleet.gtp --signing-key a.pem\n"
        "gramophone policy sign fleet.gtp --pkcs11 'pkcs11:token=T;object=KEY' --passphrase-file pin"
    ),
)
@POLICY
@signer_options
@click.option("-o", "--output", type=FILE, help="File for the bytes to sign. Requires --to-be-signed.")
@DRY_RUN
def sign(file: Path, output: Path | None, dry_run: bool, **who: Any) -> Outcome[PolicyFacts]:
    """Sign the newest version. Read its printed summary before you give the passphrase or PIN."""
    chain, by = _chain(file), chosen(**who)
    if (by.signer is None) != (output is not None):
        raise UsageError("-o and --to-be-signed require each other")
    ceremony.check_root(chain, by.public)
    if by.signer is None:
        assert output is not None
        check_output(output)
        if not dry_run:
            write(output, to_be_signed(by.public.kid, chain.last.payload, by.signing.algorithm))
        lines = [*policy_words.lines(file, chain), f"{output}: to be signed by key {by.public.kid.hex()}"]
        return Outcome(policy_words.data(file, chain, written=not dry_run), "\n".join(lines))
    with by.naming():
        signed = ceremony.sign(chain, by.signer)
    return _written(file, signed, dry_run)


@policy_group.command(
    "publish",
    cls=GramophoneCommand,
    example="gramophone policy publish fleet.gtp --after old.gtp -o published.gtp",
)
@POLICY
@click.option("--after", type=FILE, help="Previously published trust policy; default: OUTPUT, if it exists.")
@OUTPUT
@DRY_RUN
def publish(file: Path, after: Path | None, output: Path, dry_run: bool) -> Outcome[PolicyFacts]:
    """Check the newest version, and write it for distribution. Devices with any older version must accept it."""
    check_output(output)
    chain = _chain(file)
    if ceremony.missing(chain):
        version = chain.last.policy.version
        raise GramophoneError(f"{file}: version {version} of the trust policy lacks signatures ('policy sign')")
    before = after or (output if output.exists() else None)
    if before:
        published = _chain(before)
        if chain.links[: len(published.links)] != published.links:
            raise GramophoneError(
                f"{file}: it does not continue {before}: devices with that version would refuse this and every "
                "later trust policy"
            )
    return _written(output, chain, dry_run)


def _public(path: Path) -> PublicKey:
    return load_public_key(read_file(path, limits.SMALL_BYTES), file=str(path))


def _named(policy: Policy, text: str) -> bytes:
    """The id of a key that is named by it, by how it begins, or by its file."""
    if Path(text).is_file():
        return _public(Path(text)).kid
    found = [key.kid for key in policy.keys if text and key.kid.hex().startswith(text.lower())]
    if len(found) != 1:
        known = ", ".join(key.kid.hex() for key in policy.keys)
        raise GramophoneError(f"{text!r} names {len(found)} keys of version {policy.version}; they are: {known}")
    return found[0]


def _chain(file: Path) -> Chain:
    """A file's versions; TrustError: one before the newest lacks signatures."""
    with layout.naming(str(file)):
        chain = Chain.decode(read(file, limits.SMALL_BYTES))
        for link in chain.unfinished():
            if link is not chain.last:
                raise TrustError(
                    f"version {link.policy.version} lacks signatures, and a newer one follows it: nobody can tell "
                    "what that changes. Get the file that was published"
                )
    return chain


def _change(file: Path, dry_run: bool, change: Callable[[Policy], Policy]) -> Outcome[PolicyFacts]:
    chain = _chain(file)
    with layout.naming(str(file)):
        return _written(file, ceremony.changed(chain, change), dry_run)


def _written(file: Path, chain: Chain, dry_run: bool) -> Outcome[PolicyFacts]:
    """Write a policy's file, and say what it says."""
    if not dry_run:
        write(file, chain.encode())
    _warn(chain)
    lines = policy_words.lines(file, chain)
    return Outcome(
        policy_words.data(file, chain, written=not dry_run),
        "\n".join([*lines, *(["nothing was written (--dry-run)"] if dry_run else [])]),
    )


def _warn(chain: Chain) -> None:
    for text in ceremony.warnings(chain):
        warn(text)
