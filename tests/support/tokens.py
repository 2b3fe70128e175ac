# SPDX-License-Identifier: BSD-2-Clause
"""A PKCS#11 token of its own for a test: SoftHSM2, which `make setup-test` installs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pkcs11
import pytest

from signing import key_files, keys

PIN = b"1234"
LIBRARIES = ("/usr/lib/softhsm/libsofthsm2.so", "/usr/lib64/pkcs11/libsofthsm2.so")


def make(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> Path:
    """Initialise tokens of these names in a folder, and point the environment to them; the library."""
    (library,) = (path for path in LIBRARIES if Path(path).exists())
    tokens = folder / "tokens"
    tokens.mkdir()
    config = folder / "softhsm2.conf"
    config.write_text(f"directories.tokendir = {tokens}\nlog.level = ERROR\n")
    monkeypatch.setenv("SOFTHSM2_CONF", str(config))
    monkeypatch.setenv("PKCS11_MODULE", library)
    for name in names:
        _util("--init-token", "--free", "--label", name, "--pin", PIN.decode(), "--so-pin", "5678")
    pkcs11.lib(library).reinitialize()  # another test of this process may have had other tokens
    return Path(library)


def put(folder: Path, key: keys.PrivateKey, *, token: str, label: str, key_id: str = "01") -> None:
    """Put a key on a token."""
    pem = folder / f"{label}.pkcs8"
    pem.write_bytes(key_files.private_pem(key))
    _util("--import", str(pem), "--token", token, "--label", label, "--id", key_id, "--pin", PIN.decode())
    pem.unlink()


def _util(*words: str) -> None:
    subprocess.run(["softhsm2-util", *words], check=True, capture_output=True)
