# SPDX-License-Identifier: BSD-2-Clause
"""Builds the TA that applications call, signed as OP-TEE requires."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from host_tools.runners.optee.build import CROSS, TA_KEY, digest_of, run_program, ta_dev_kit
from host_tools.runners.replay import RunnerError
from host_tools.support.cache import cache_dir, locked, written_whole
from trace_format import limits
from trace_format.files import read_file, read_file_text


def build_ta(folder: Path, ta_key: Path | None = None) -> Path:
    """The TA, as UUID.ta, from the cache.

    Args:
        folder: `ta` in a folder that `generate` wrote for OP-TEE.
        ta_key: private key (PEM, RSA) to sign it with; without it OP-TEE's own, which is public. The core accepts
            the TA when it was built with its public part (`public_part`).

    Raises:
        RunnerError: no such folder, no such key, or it does not compile.
        RecordError: OP-TEE's source cannot be obtained.
    """
    uuid = uuid_of(folder)
    kit = ta_dev_kit()
    key = ta_key or kit / TA_KEY
    public_part(key)
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    digest = digest_of((path.name, read_file(path)) for path in [*files, key])
    kept = cache_dir("optee", "tas", f"{kit.name}-{digest}") / f"{uuid}.ta"
    with locked(cache_dir("optee") / "ta-in-use"), tempfile.TemporaryDirectory(dir=cache_dir("optee")) as out:
        if not kept.exists():
            settings = {
                "TA_DEV_KIT_DIR": kit,
                "CROSS_COMPILE": CROSS,
                "TA_SIGN_KEY": key.absolute(),
                "PYTHON3": sys.executable,
                "O": out,
            }
            run_program(
                ["make", "-s", "-C", str(folder), *(f"{name}={value}" for name, value in settings.items())],
                "the TA",
            )
            with written_whole(kept) as temporary:
                temporary.write_bytes(read_file(Path(out) / kept.name))
    return kept


def uuid_of(folder: Path) -> str:
    """The TA's UUID, which its Makefile names; RunnerError when `folder` is not the TA's."""
    file = folder / "Makefile"
    try:
        found = re.search(r"^BINARY := ([0-9a-f-]{36})$", read_file_text(file), re.MULTILINE)
    except OSError as error:
        raise RunnerError(f"{file}: {error.strerror}: 'gramophone generate' for OP-TEE writes it") from None
    if not found:
        raise RunnerError(f"{file}: expected a line BINARY := UUID, found none")
    return found[1]


def public_part(ta_key: Path) -> bytes:
    """Public part (PEM) of a TA key: what a core is built with.

    Raises:
        RunnerError: the file holds no private RSA key without a password.
        OSError: it cannot be read.
    """
    expected = "expected a private RSA key without a password (PEM)"
    try:
        key = load_pem_private_key(read_file(ta_key, limits.SMALL_BYTES), None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise RunnerError(f"{ta_key}: {expected}: {error}") from None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise RunnerError(f"{ta_key}: {expected}, found one of another kind")
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
