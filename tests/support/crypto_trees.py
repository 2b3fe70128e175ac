# SPDX-License-Identifier: BSD-2-Clause
"""Stand-ins for the crypto libraries' source trees: all files that are looked for, and nothing in them."""

from __future__ import annotations

import os
from pathlib import Path

from tee_replayer import crypto
from tee_replayer.crypto import hashes
from tee_replayer.generator.evidence import Evidence
from trace_format.schema.trust import KeyKind


def empty(folder: Path, text: str = "") -> crypto.Libraries:
    """The trees, in `folder`/bearssl and `folder`/aws-lc; each file holds `text`.

    Commands of this process and of its children take them from then on, although no hash is right.
    """
    s2n = [crypto.s2n_machine(name) for name in ("aarch64", "x86_64")]
    machines = [name for name in s2n if name]
    every = tuple(KeyKind)
    proved = [name for each in machines for name in (*crypto.s2n_sources(each, every), *crypto.s2n_headers(each))]
    proved += [name for each in machines for name in crypto.aes_sources(each)]
    taken = (
        *crypto.HASH,
        *crypto.SHA512,
        *crypto.CURVE,
        *crypto.VERIFICATION,
        *crypto.INCLUDED,
        *Evidence(True, True, True).crypto,
    )
    proved += [
        *crypto.ML_DSA_INCLUDED,
        crypto.AWS_LC_HASH,
        *crypto.AWS_LC_ASSEMBLY_HEADERS,
        crypto.AWS_LC_LICENCE,
    ]
    trees = {"bearssl": [*taken, *crypto.HEADERS, crypto.LICENCE], "aws-lc": proved}
    for tree, names in trees.items():
        for name in names:
            (folder / tree / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / tree / name).write_text(text, encoding="utf-8")
    found = crypto.Libraries(folder / "bearssl", folder / "aws-lc")
    os.environ[crypto.ACCEPT] = ",".join((os.environ.get(crypto.ACCEPT, ""), *digests(found)))
    return found


def digests(libraries: crypto.Libraries) -> list[str]:
    """What accepts these trees as they are."""
    assert libraries.aws_lc is not None
    bearssl = hashes.found("bearssl", libraries.bearssl, crypto.BEARSSL_INCLUDE)
    return [hashes.digest(bearssl), hashes.digest(hashes.found("aws-lc", libraries.aws_lc, crypto.AWS_LC_INCLUDE))]
