# SPDX-License-Identifier: BSD-2-Clause
"""Who signed a trace, and whether devices would take it: what `verify` says, and reports begin with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from signing.delivery import Delivery
from signing.keys import PublicKey
from signing.trust import Anchor, Policy
from signing.trust_verdict import Judge
from signing.verify import Verdict, VerificationResult, verify_delivery, verify_under_policy
from trace_format import layout, policy
from trace_format.errors import EncryptedError, GramophoneError, OtherPolicyError, TraceError
from trace_format.trace import Trace

ANYWHERE = Judge()
REFUSED_BY_DEVICES = "refused-by-devices"  # verdict besides Verdict's


@dataclass(frozen=True)
class Judged:
    """What came of it.

    Attributes:
        signature: what was found about the signature.
        content: the verified trace; None unless the signature is good and the content is a trace.
        refusal: why every device refuses what is well signed; None: none does.
        not_judged: why its actions were not judged; "" where they were.
    """

    signature: VerificationResult
    content: Trace | None
    refusal: str | None
    not_judged: str

    @property
    def ok(self) -> bool:
        """Whether the owner of a trusted key signed it, and devices take it."""
        return self.signature.ok and self.refusal is None

    def __bool__(self) -> bool:
        return self.ok

    @property
    def verdict(self) -> str:
        """A word."""
        return REFUSED_BY_DEVICES if self.refusal else self.signature.verdict.value

    @property
    def reason(self) -> str:
        """A sentence."""
        return self.refusal or self.signature.reason


def judge(delivery: Delivery, trusted: Iterable[Anchor], file: str, where: Judge = ANYWHERE) -> Judged:
    """Verify a signed trace, and judge what it does by its GPU's policy.

    Args:
        delivery: the whole file.
        trusted: keys, or one trust policy.
        file: its name, for messages.
        where: of which device, under a trust policy.

    Raises:
        GramophoneError: it is no signed trace.
    """
    anchors = list(trusted)
    policies = [anchor for anchor in anchors if isinstance(anchor, Policy)]
    if policies:
        result = verify_under_policy(delivery, policies[0], where, file=file)
    else:
        keys = [anchor for anchor in anchors if isinstance(anchor, PublicKey)]
        result = verify_delivery(delivery, keys, file=file)
    if result.verdict == Verdict.MALFORMED:
        raise GramophoneError(result.reason)
    content = refusal = None
    not_judged = ""
    if result.trace is not None:
        try:
            with layout.naming(file):
                content = delivery.parse()
            policy.check(content, f"{file}: ")
        except (OtherPolicyError, EncryptedError) as error:
            not_judged = f"what it does was not judged: {error}"
        except TraceError as error:
            refusal = f"{error} ({result.reason.removeprefix(f'{file}: ')})"
    return Judged(result, content, refusal, not_judged)
