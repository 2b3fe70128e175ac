# SPDX-License-Identifier: BSD-2-Clause
"""One share of the signatures that a trust policy asks of a trace (`sign --trust-policy`)."""

from __future__ import annotations

from pathlib import Path

from host_tools.commands.framework import warn
from host_tools.commands.signers import Chosen
from signing.cose_sign import Signatures, to_be_signed
from signing.delivery import Delivery
from signing.envelope import before_under_policy
from signing.sign import head_of, signed_under
from signing.trust_chain import Chain
from signing.trust_verdict import Judge
from signing.verify import verify_under_policy
from trace_format import layout, limits
from trace_format.errors import GramophoneError
from trace_format.files import read_file
from trace_format.trace import Trace


def share(
    data: memoryview, content: Trace, by: Chosen, file: Path, shares: Signatures | None
) -> tuple[bytes, list[str]]:
    """What goes in front of a trace, or is to be signed of it; and what of the signatures is missing then.

    Raises:
        GramophoneError: no version of the policy lets the key sign a trace of this name.
    """
    with layout.naming(str(file)):
        chain = Chain.decode(read_file(file, limits.SMALL_BYTES))
    name = str(content.meta["name"])
    rules = [link.policy.rule(name.encode()) for link in chain.links]
    if not any(rule and by.public.kid in rule.role.kids for rule in rules):
        kids = sorted({kid.hex() for rule in rules if rule for kid in rule.role.kids})
        raise GramophoneError(
            f"{file}: key {by.public.kid.hex()} does not sign traces named {name!r}: "
            f"{'expected one of ' + ', '.join(kids) if kids else 'no rule is about them'}"
        )
    if by.signer is None:
        return to_be_signed(by.public.kid, head_of(data), by.signing.algorithm), []
    complete = [link for link in chain.links if link not in chain.unfinished()]
    if not complete:
        raise GramophoneError(f"{file}: version 1 is not signed: no device has it ('gramophone policy sign')")
    with by.naming():
        messages = signed_under(data, chain, by.signer, shares)
    if chain.unfinished():
        warn(
            f"{file}: version {chain.unfinished()[0].policy.version} lacks signatures: it is not put into the file"
        )
    found = verify_under_policy(
        Delivery(before_under_policy(messages, len(data)) + bytes(data)),
        complete[-1].policy,
        Judge(),
        file=str(file),
    )
    missing = [] if found else [f"not enough for devices yet: {found.reason}"]
    return before_under_policy(messages, len(data)), missing
