# SPDX-License-Identifier: BSD-2-Clause
"""The device file in a generated folder: what was asked for, without secrets, without paths of a machine.

It has the keys of a device file (device_file.py), with these in place of those that name a file: `key_id`,
`trust_policy_id`, `fleet_key_id`, `board_sha256`, `client_policy_sha256`. What was left to the board is said:
`carveout_bytes`, `mmu`. `gramophone audit-firmware` compares a firmware with it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from signing.keys import KID_BYTES, PublicKey
from signing.trust_verdict import NO_ID
from tee_replayer.generator import profiles
from tee_replayer.generator.boards import ADDRESSES, Board
from tee_replayer.generator.device_file import (
    ALGORITHMS,
    DEVICE_ID_BYTES,
    DeviceFileError,
    either,
    features_of,
    hexadecimal,
    several,
    text_of,
)
from tee_replayer.generator.options import Options
from tee_replayer.generator.profiles import FeatureError, Features
from trace_format import limits
from trace_format.files import read_file
from trace_format.schema.trust import KeyKind
from trace_format.toml_table import Table, loads

FILE = "device.toml"
_HASH_BYTES = 32
_HEAD = """\
# What this replayer was generated for, without keys; 'gramophone audit-firmware' compares a firmware with it.
"""


@dataclass(frozen=True)
class DeviceRecord:
    """What was asked for.

    Attributes:
        gpu, platform: names.
        key_id: of the key, or of the trust policy where the features have trust.
        features: with what is said of them.
        min_security_version: older traces are refused.
        device_id: for trust policies that name devices.
        algorithms: what it verifies besides ES256.
        fleet_key_id: id of the public half of the key that is compiled in; empty: none.
        carveout_bytes: secure memory; 0: the device tree says it.
        mmu: MMU and caches on; None: they are not the replayer's.
        share_gpu, any_client: as `Options`.
        client_policy_sha256, board_sha256: of the TA's policy.h and of the description of a board of one's own;
            empty: the project's.
        gpu_firmware_sha256: of the file that the GPU's microcontroller runs; empty: there is none.
    """

    gpu: str
    platform: str
    key_id: bytes
    features: Features
    min_security_version: int = 0
    device_id: bytes = NO_ID
    algorithms: tuple[KeyKind, ...] = ()
    fleet_key_id: bytes = b""
    carveout_bytes: int = 0
    mmu: bool | None = None
    share_gpu: bool = False
    any_client: bool = False
    client_policy_sha256: bytes = b""
    board_sha256: bytes = b""
    gpu_firmware_sha256: bytes = b""

    @property
    def rows(self) -> dict[str, Any]:
        """As a table of TOML: what is not asked for is left out."""
        rows: dict[str, Any] = {
            "gpu": self.gpu,
            "platform": self.platform,
            "board_sha256": self.board_sha256.hex(),
            "trust_policy_id" if self.features.trust else "key_id": self.key_id.hex(),
            "profile": self.features.profile,
            "min_security_version": self.min_security_version,
            "device_id": "" if self.device_id == NO_ID else self.device_id.hex(),
            "algorithms": [name for name, kind in ALGORITHMS.items() if kind in self.algorithms],
            "fleet_key_id": self.fleet_key_id.hex(),
            "carveout_bytes": self.carveout_bytes or None,
            "mmu": self.mmu,
            "share_gpu": self.share_gpu or None,
            "any_client": self.any_client or None,
            "client_policy_sha256": self.client_policy_sha256.hex(),
            "gpu_firmware_sha256": self.gpu_firmware_sha256.hex(),
            "features": self.features.rows,
        }
        return {name: value for name, value in rows.items() if value not in ("", None, [], {})}

    @property
    def text(self) -> str:
        """The file's text."""
        untested = "" if self.features.profile else f"# {profiles.UNTESTED}: no profile has these features.\n"
        return _HEAD + untested + text_of(self.rows)


def of_options(options: Options) -> DeviceRecord:
    """The record of a replayer."""
    target = options.target
    board: Board | None = getattr(target, "board", None)
    client_policy = read_file(options.policy, limits.SMALL_BYTES) if options.policy else b""
    own = read_file(board.file, limits.SMALL_BYTES) if board and not board.is_own else b""
    return DeviceRecord(
        options.gpu,
        target.name,
        options.key.kid,
        profiles.of_options(options),
        options.min_security_version,
        options.device_id,
        options.linked_algorithms,
        _public_id(options.decryption.fleet_key),
        board.memory["carveout"].bytes if board else 0,
        board.mmu if board and not board.runs_optee else None,
        options.share_gpu,
        options.any_client,
        hashlib.sha256(client_policy).digest() if client_policy else b"",
        hashlib.sha256(own).digest() if own else b"",
        options.gpu_firmware.sha256 if options.gpu_firmware else b"",
    )


def is_record(path: Path) -> bool:
    """Whether a file is a record, and no device file: it has a key's id, not a key."""
    rows = loads(read_file(path, limits.SMALL_BYTES), DeviceFileError, str(path))
    return "key_id" in rows or "trust_policy_id" in rows


def read(path: Path) -> DeviceRecord:
    """Read the record of a generated folder.

    Raises:
        DeviceFileError: it is malformed, or contradicts itself; the error names the file and the key.
        OSError: it cannot be read.
    """
    file = str(path)
    top = Table(loads(read_file(path, limits.SMALL_BYTES), DeviceFileError, file), "", DeviceFileError)
    try:
        return _parse(top)
    except (DeviceFileError, FeatureError) as error:
        error.file = error.file or file
        raise


def _parse(top: Table) -> DeviceRecord:
    features = features_of(top)
    key = either(top, "key_id", "trust_policy_id")
    if key != (right := "trust_policy_id" if features.trust else "key_id"):
        raise top.fail(key, right, features.words)
    record = DeviceRecord(
        top.text("gpu"),
        top.text("platform"),
        hexadecimal(top, key, KID_BYTES),
        features,
        top.number("min_security_version", 1 << 32, 0),
        hexadecimal(top, "device_id", DEVICE_ID_BYTES) if "device_id" in top.rows else NO_ID,
        several(top, "algorithms", ALGORITHMS),
        hexadecimal(top, "fleet_key_id", KID_BYTES) if "fleet_key_id" in top.rows else b"",
        top.number("carveout_bytes", ADDRESSES, 0),
        top.take("mmu", bool) if "mmu" in top.rows else None,
        top.take("share_gpu", bool, False),
        top.take("any_client", bool, False),
        _hash(top, "client_policy_sha256"),
        _hash(top, "board_sha256"),
        _hash(top, "gpu_firmware_sha256"),
    )
    top.end()
    return record


def _hash(top: Table, key: str) -> bytes:
    return hexadecimal(top, key, _HASH_BYTES) if key in top.rows else b""


def _public_id(fleet_key: bytes) -> bytes:
    if not fleet_key:
        return b""
    private = ec.derive_private_key(int.from_bytes(fleet_key, "big"), ec.SECP256R1())
    return PublicKey(private.public_key()).kid
