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
            "5081854458daf89c9d7856021a583a799fd3d38289c5f2152294ce66e96f957f",
            "a083929abcf2184ac2c4d0e75616c57ccb6570594419addd9f0bc0f2f6387c97",
        ),
        "RFC 6979, 3.2: a number that is no scalar of P-256 is drawn again, which happens once in 2^32",
    ),
    Known(
        "GF401",
        "mldsa_poly_uniform",
        (
            "16cf70b2684670f4dca19a566abaa9e450faa7e565173c887a8c020291df464a",
            "1dc5e724bf187cc879c2adc852791492ecccaf9f2525011c6c26899b2d516666",
        ),
        "FIPS 204, algorithm 30: numbers that are too large are drawn again; after 64 blocks SHAKE here gives "
        "zeros, which are taken",
    ),
    Known(
        "GF503",
        "mldsa_verify_internal",
        (
            "a712f27369500ed6d6a374bc13709516eb06a980fe682649589b352ee615ef47",
            "c459a3a93d9fa7fca8ead1596bab8e704cc9764aab620837076a62e6f6b6308b",
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
