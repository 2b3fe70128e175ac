# SPDX-License-Identifier: BSD-2-Clause
"""Findings in functions of the crypto libraries that somebody has looked at: which functions, by what they do.

A function counts by its digest (digests.py), which covers all that it calls, and not by its name: an image's names
are claims. So it is known as the tested compilers make it (GCC 12 and 14 of Debian, the generated Makefile's
flags); of another compiler the finding stays, and a file of `--allow` can name it. tests/emulated/test_known.py
says what the digests are now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from host_tools.audit_firmware.digests import digest
from host_tools.audit_firmware.program import Function, Program
from host_tools.audit_firmware.rules import FirmwareFinding


@dataclass(frozen=True)
class Known:
    """A function that breaks a rule, and may.

    Attributes:
        rule: id.
        name: what the source calls it; nothing is decided by it.
        digests: of its code, by each compiler.
        reason: why it may.
    """

    rule: str
    name: str
    digests: tuple[str, str]
    reason: str


KNOWN = (
    Known(
        "GF401",
        "br_ecdsa_i31_sign_raw",
        (
            "1c04774e7e2e53d51fd1919632a44a9bc281f157f73067d9c61acb9fc828681a",
            "618d805b6adde5d3cbdbad23066e7ffaca100bb87e5a1b5e02ac300434f64d01",
        ),
        "RFC 6979, 3.2: a number that is no scalar of P-256 is drawn again, which happens once in 2^32",
    ),
    Known(
        "GF401",
        "mldsa_poly_uniform",
        (
            "9d349cc1f78d25eb27872249ff0a626e647f6410d4594dd1bb624cb518ba0c6c",
            "6c836b380d2aa20ef2e0f3e812b61700a60862aa2e4e240440bbcbad9d76c0a1",
        ),
        "FIPS 204, algorithm 30: numbers that are too large are drawn again; after 64 blocks SHAKE here gives "
        "zeros, which are taken",
    ),
    Known(
        "GF503",
        "mldsa_verify_internal",
        (
            "03fee38e968e99d86771b89156da598b7460d7baa90be93d0cc0caf919ba1212",
            "f5aee6f2bc7341d7cf0c70a442763eee3edd5dbddc24730c332c48cbe317b631",
        ),
        "FIPS 204, algorithm 21: hints are stored at an index of a byte, in an array of 256; CBMC proves it in "
        "mldsa-native",
    ),
)
_RULES = frozenset(known.rule for known in KNOWN)


def accepted(program: Program, findings: Sequence[FirmwareFinding]) -> dict[int, str]:
    """Index of each finding that is in a function that is known -> the reason.

    Where functions share instructions, each must be known: one may run them with other values.
    """
    found = {}
    for index, finding in enumerate(findings):
        if finding.rule.id in _RULES and finding.address is not None:
            digests = {digest(program, function) for function in _functions(program, finding.address)}
            for row in KNOWN:
                if row.rule == finding.rule.id and len(digests) == 1 and digests <= {*row.digests}:
                    found[index] = row.reason
    return found


def _functions(program: Program, address: int) -> list[Function]:
    return [function for function in program.functions.values() if address in function.instructions]
