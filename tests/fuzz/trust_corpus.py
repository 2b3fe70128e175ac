# SPDX-License-Identifier: BSD-2-Clause
"""For the fuzz target of trust policies: its policy in C, and the envelopes of the named cases."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

from signing.cose_sign import Signatures
from tests.support import trust_samples as t
from tests.support.hostile_trust import CASES
from tests.support.sampling import spread
from tests.support.trust_samples import DEVICE_ID, HEADER, PLATFORM, policy
from trace_format.schema.trust import MAX_TRUST_BYTES

MOST_BYTES = 3000
RECORDS = 6  # offset of the number of signatures in a message without a payload


def header() -> str:
    """The device's policy, twice, and what it knows besides."""
    raw = policy().raw
    rows = {
        "fuzz_trust": raw,
        "fuzz_trust_again": raw,
        "fuzz_platform": PLATFORM.encode().ljust(16, b"\0"),
        "fuzz_device_id": DEVICE_ID,
    }
    lines = [
        f"static const _Alignas(8) uint8_t {name}[] = {{{', '.join(map(str, data))}}};"
        for name, data in rows.items()
    ]
    threshold = policy().rules[0].role.threshold
    text = "\n".join(lines)
    roots = f"#define FUZZ_TRUST_ROOTS {len(policy().root.kids)}u\n"
    return f"#pragma once\n#include <stdint.h>\n#define FUZZ_TRUST_THRESHOLD {threshold}u\n{roots}{text}\n"


def good() -> Signatures:
    """As many signatures as the policy asks for, which fuzz targets take for good ones."""
    return Signatures({signer.kid: (t.es256(b"\1\1" + bytes(62)),) for signer in t.TRACERS[:2]})


def envelopes() -> Iterator[tuple[str, bytes]]:
    """Of some cases, and one with signatures that this target takes for good ones."""
    kept = {name: case.make() for name, case in CASES.items() if case.root == policy() and not case.malformed}
    for number, name in enumerate(spread(list(kept), 60)):
        data = kept[name]
        size = struct.unpack_from("<I", data, 12)[0] if len(data) > HEADER else 0
        if 0 < size <= MOST_BYTES:
            yield (
                f"{number:02}-{name.translate(str.maketrans(' :,', '---'))}",
                b"\0\0" + data[HEADER : HEADER + size],
            )
    trace = good()
    signature = trace.by_kid[t.TRACERS[0].kid]
    link = Signatures({signer.kid: signature for signer in t.ROOTS[:2]}, replace(policy(), version=2).raw)
    yield "good", b"\0\0" + trace.encode()
    yield "good-newer", b"\0\0" + trace.encode() + link.encode()
    # what only a mistake in the device's checks would accept
    one = Signatures({t.TRACERS[0].kid: signature}).encode()
    yield "good-twice", b"\0\0" + one[:RECORDS] + b"\x82" + one[RECORDS + 1 :] * 2
    yield "good-long", b"\0\0" + trace.encode() + replace(link, payload=bytes(MAX_TRUST_BYTES + 1000)).encode()
