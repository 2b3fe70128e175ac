# SPDX-License-Identifier: BSD-2-Clause
"""Keys as callers have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from host_tools.api.keys import anchor_of, signer_of
from signing import key_files
from signing.errors import PassphraseError
from tests.support.signing_samples import ES256
from tests.support.trust_samples import policy


def test_what_signs(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(key_files.private_pem(ES256.key, b"secret"))
    for key, passphrase in ((ES256, None), (ES256.key, None), (path, "secret"), (str(path), b"secret")):
        assert signer_of(key, passphrase).public == ES256.public
    with pytest.raises(PassphraseError, match=str(path)):
        signer_of(path)


def test_what_is_trusted(tmp_path: Path) -> None:
    path = tmp_path / "pub.pem"
    path.write_bytes(ES256.public.pem())
    for key in (ES256, ES256.public, path, str(path)):
        assert anchor_of(key) == ES256.public
    assert anchor_of(policy()) == policy()
