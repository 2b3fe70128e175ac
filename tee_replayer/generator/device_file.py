# SPDX-License-Identifier: BSD-2-Clause
"""A device file: what `gramophone generate` makes a replayer of. docs/DEVICE-FILE.md has its keys.

    gpu = "v3d42"
    platform = "qemu-virt"
    key = "pub.pem"
    profile = "plain"

Paths are relative to the file's folder. It is read strictly: each key has one type and one meaning, and all is
checked before anything is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signing.keys import Algorithm, PublicKey
from signing.trust import Anchor, Policy
from signing.trust_chain import load_anchor
from signing.trust_verdict import NO_ID
from tee_replayer.crypto import Libraries
from tee_replayer.generator import boards, gpu_firmware, linux_folder, platforms, profiles
from tee_replayer.generator.boards import Board
from tee_replayer.generator.decryption import Decryption
from tee_replayer.generator.options import Options
from tee_replayer.generator.profiles import Features, choices
from tee_replayer.generator.target import drivers
from trace_format import limits
from trace_format.errors import GramophoneError, TraceError, meant
from trace_format.files import read_file
from trace_format.schema.trust import KeyKind
from trace_format.toml_table import Table, loads

MIB = 1 << 20
MAX_CARVEOUT_MIB = 1 << 20
DEVICE_ID_BYTES = len(NO_ID)
ALGORITHMS = {"hybrid": KeyKind.ES256_ML_DSA_44, "es384": KeyKind.ES384, "eddsa": KeyKind.ED25519}
NOWHERE = Libraries(Path("bearssl"), Path("aws-lc"))  # for checks before the libraries are fetched
# Keys of the record in a generated folder, instead of those that name files (device_record.py).
IDS = {"key": "key_id", "trust_policy": "trust_policy_id", "fleet_key": "fleet_key_id"}
# Keys that name files.
PATHS = ("key", "trust_policy", "board", "fleet_key", "client_policy", "gpu_firmware", "bearssl", "aws_lc")


class DeviceFileError(TraceError):
    """A device file that is not what it must be."""


@dataclass(frozen=True)
class DeviceFile:
    """What a device file says; `Options` has the meanings.

    Attributes:
        file: its name, for messages.
        board: a board, or the name of the platform that is none.
        key: an ES256 key, or a trust policy where the features have trust.
        fleet_key: file of the private key that is compiled in.
        client_policy: file of the TA's policy.h.
        gpu_firmware: file of the firmware that the GPU's microcontroller runs.
        bearssl, aws_lc: folders of the crypto libraries' sources.
        paths: of all files that it names, but those folders.
    """

    file: str
    gpu: str
    board: Board | str
    key: Anchor
    features: Features
    min_security_version: int
    device_id: bytes
    algorithms: tuple[KeyKind, ...]
    fleet_key: Path | None
    carveout_bytes: int | None
    mmu: bool | None
    share_gpu: bool
    any_client: bool
    client_policy: Path | None
    gpu_firmware: Path | None
    bearssl: Path | None
    aws_lc: Path | None
    paths: tuple[Path, ...]

    def options(
        self, fleet_key: bytes = b"", libraries: Libraries = NOWHERE, programs: Mapping[str, bytes] | None = None
    ) -> Options:
        """The same as options of the generator, which checks what the platform can do.

        Args:
            fleet_key: what is in the file `fleet_key`, 32 bytes.
            libraries, programs: as `Options`.

        Raises:
            DeviceFileError: the platform has no use for an option, or no room for the carve-out.
        """
        try:
            return Options(
                self.gpu,
                platforms.platform_of(self.board),
                self.key,
                libraries,
                min_security_version=self.min_security_version,
                carveout_bytes=self.carveout_bytes,
                share_gpu=self.share_gpu,
                any_client=self.any_client,
                policy=self.client_policy,
                programs=programs or {},
                decryption=Decryption(self.features.encryption, fleet_key),
                mmu=self.mmu,
                algorithms=self.algorithms,
                device_id=self.device_id,
                gpu_firmware=_of_file(self.gpu_firmware),
                **self.features.options,
            )
        except GramophoneError as error:
            if any(str(error).startswith(f"{path}:") for path in self.paths):
                raise
            raise DeviceFileError(str(error), file=self.file) from None


def _of_file(path: Path | None) -> gpu_firmware.GpuFirmware | None:
    return gpu_firmware.read(read_file(path, gpu_firmware.MOST_BYTES), str(path)) if path else None


def read(path: Path) -> DeviceFile:
    """Read a device file.

    Raises:
        DeviceFileError: it is malformed or contradicts itself; the error names the file and the key.
        OSError: it, or a file that it names, cannot be read.
    """
    return parse(loads(read_file(path, limits.SMALL_BYTES), DeviceFileError, str(path)), path.parent, str(path))


def parse(rows: Mapping[str, Any], folder: Path, file: str) -> DeviceFile:
    """What rows of a device file say; `folder`: that paths are relative to; `file`: for messages."""
    try:
        return _parse(Table(dict(rows), "", DeviceFileError), folder, file)
    except (DeviceFileError, profiles.FeatureError) as error:
        error.file = error.file or file
        raise


def text_of(rows: Mapping[str, Any]) -> str:
    """Rows as a device file has them: tables last."""
    plain = [f"{key} = {_value(value)}\n" for key, value in rows.items() if not isinstance(value, Mapping)]
    tables = [f"\n[{key}]\n{text_of(value)}" for key, value in rows.items() if isinstance(value, Mapping)]
    return "".join([*plain, *tables])


def device_key(path: Path) -> Anchor:
    """The key or the trust policy in a file; errors name the file. Devices verify ES256 only (docs/adr)."""
    return checked_key(load_anchor(read_file(path, limits.SMALL_BYTES), file=str(path)), str(path))


def checked_key(key: Anchor, file: str) -> Anchor:
    """A device's key, from somewhere (`file`, for the error); GramophoneError: devices do not verify with it."""
    if isinstance(key, PublicKey) and key.algorithm is not Algorithm.ES256:
        raise GramophoneError(
            f"{file}: a device's key: expected ES256 ('gramophone key new' makes one), found {key.algorithm.title}"
        )
    return key


def features_of(top: Table) -> Features:
    """The features of a device file: a profile's, of which a table may say more, or those of the table."""
    name = top.text("profile") if "profile" in top.rows else ""
    if not name and "features" not in top.rows:
        raise top.fail("profile is missing", f"one of {', '.join(profiles.load())}, or a table [features]")
    base = profiles.named(name) if name else None
    return profiles.read(top.table("features", {}), base)


def hexadecimal(top: Table, key: str, size: int) -> bytes:
    """Bytes in hexadecimal, not all of them 0."""
    text = top.text(key)
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != size or not any(found):
        raise top.fail(key, f"{2 * size} digits in hexadecimal, not all of them 0", repr(text))
    return found


def several(top: Table, key: str, known: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a list of known names stands for, in their order; empty where the key is not there."""
    if key not in top.rows:
        return ()
    return tuple(known[name] for name in choices(top, key, top.take(key, list), tuple(known)))


def one_of(top: Table, key: str, known: list[str]) -> str:
    """A known name."""
    name = top.text(key)
    if name not in known:
        raise top.fail(f"{key}{meant(name, known)}", f"one of {', '.join(known)}", repr(name))
    return name


def either(top: Table, one: str, other: str) -> str:
    """The one of two keys that is there."""
    given = [key for key in (one, other) if key in top.rows]
    if len(given) == 2:
        raise top.fail(f"{one} and {other} are mutually exclusive")
    if not given:
        raise top.fail(f"{one} or {other} is missing")
    return given[0]


def _parse(top: Table, folder: Path, file: str) -> DeviceFile:
    for key, name in IDS.items():
        if name in top.rows:
            raise top.fail("the record of a generated folder has no keys", f"{key} = FILE", name)
    paths = tuple(folder / str(top.rows[key]) for key in PATHS[:-2] if key in top.rows)
    gpu = one_of(top, "gpu", drivers())
    board = _board(top, folder)
    features = features_of(top)
    device = DeviceFile(
        file,
        gpu,
        board,
        _key(top, folder, features),
        features,
        top.number("min_security_version", 1 << 32, 0),
        hexadecimal(top, "device_id", DEVICE_ID_BYTES) if "device_id" in top.rows else NO_ID,
        several(top, "algorithms", ALGORITHMS),
        _path(top, "fleet_key", folder),
        _carveout(top),
        top.take("mmu", bool) if "mmu" in top.rows else None,
        top.take("share_gpu", bool, False),
        top.take("any_client", bool, False),
        _path(top, "client_policy", folder),
        _path(top, "gpu_firmware", folder),
        _path(top, "bearssl", folder),
        _path(top, "aws_lc", folder),
        paths,
    )
    top.end()
    needs = (
        ("device_id", device.device_id != NO_ID, "trust", features.trust),
        ("algorithms", bool(device.algorithms), "trust", features.trust),
        ("fleet_key", device.fleet_key is not None, "encryption", features.encryption),
    )
    for key, given, feature, has in needs:
        if given and not has:
            raise top.fail(key, f"the feature {feature}", features.words)
    return device


def _path(top: Table, key: str, folder: Path) -> Path | None:
    if key not in top.rows:
        return None
    text = top.text(key)
    if "\0" in text:
        raise top.fail(key, "a path", repr(text))
    return folder / text


def _file(top: Table, key: str, folder: Path) -> Path:
    path = _path(top, key, folder)
    assert path is not None
    return path


def _board(top: Table, folder: Path) -> Board | str:
    if either(top, "platform", "board") == "board":
        return boards.read(_file(top, "board", folder))
    name = one_of(top, "platform", platforms.names())
    return name if name == linux_folder.PLATFORM else boards.load(name)


def _key(top: Table, folder: Path, features: Features) -> Anchor:
    name = either(top, "key", "trust_policy")
    right = "trust_policy" if features.trust else "key"
    if name != right:
        raise top.fail(name, f"{right} = FILE", features.words)
    path = _file(top, name, folder)
    key = device_key(path)
    if isinstance(key, Policy) != features.trust:
        what = ("a public key (PEM)", "a trust policy (.gtp)")
        expected, found = what if name == "key" else what[::-1]
        raise top.fail(f"{name}: {path}", expected, found)
    return key


def _carveout(top: Table) -> int | None:
    if "carveout_mib" not in top.rows:
        return None
    size = top.take("carveout_mib", int)
    if not 1 <= size <= MAX_CARVEOUT_MIB:
        raise top.fail("carveout_mib", f"1 to {MAX_CARVEOUT_MIB}", size)
    return int(size) * MIB


def _value(value: object) -> str:
    """A value of TOML; a text is one of JSON but for the character DEL."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
