# SPDX-License-Identifier: BSD-2-Clause
"""What a profile's replayer (tee_replayer/profiles.toml) is compiled of, for the proof and the fuzzers, which take
the core's files as they are.
"""

from __future__ import annotations

from pathlib import Path

from tee_replayer import features
from tee_replayer.crypto import SEAMS
from tee_replayer.features import operators
from tee_replayer.generator import amalgamate, rollback_store
from tee_replayer.generator.decryption import HAS_ENCRYPTION
from tee_replayer.generator.profiles import Features

OPTIONS = "gr_options.h"


def defines(has: Features) -> str:
    """The options of its replayer.h; a trust policy may have keys of all kinds."""
    flags = (
        (amalgamate.HAS_TRUST, has.trust),
        *((macro, has.trust) for _, macro in SEAMS.values()),
        (HAS_ENCRYPTION, has.encryption),
        (amalgamate.HAS_STEPS, has.steps),
        (amalgamate.HAS_STREAMING, has.streaming),
        (amalgamate.HAS_CLOCK, has.clock),
    )
    numbers = ((amalgamate.HAS_NETWORKS, has.networks), (amalgamate.HAS_SCHEDULE, has.schedule))
    lines = [f"#define {macro}\n" for macro, wanted in flags if wanted]
    lines += [f"#define {macro} {number}\n" for macro, number in numbers if number]
    lines += [has.evidence.defines, operators.define(has.operators), rollback_store.defines(has.store)]
    return "".join(lines)


def sources(has: Features) -> list[Path]:
    """The C files of the core and of its features."""
    found = list(features.sources(amalgamate.options(defines(has))))
    found += [path for path in operators.files(has.operators) if path.suffix == ".c"]
    evidence = (("log.c", has.evidence.log), ("attest.c", has.evidence.attestation))
    found += [features.HERE / "evidence" / name for name, wanted in evidence if wanted]
    return found + ([rollback_store.HERE / "store.c"] if has.store else [])
