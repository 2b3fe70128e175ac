# SPDX-License-Identifier: BSD-2-Clause
"""The options that `generate` had before device files: deprecated, hidden, and for one release the same as a file.

Delete this module with them, and in generate.py what it imports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from host_tools.commands.framework import FILE, UsageError, say, warn
from signing.cose_sign import TAG
from tee_replayer.generator import device_file, profiles
from tee_replayer.generator.device_file import DeviceFile
from trace_format import limits
from trace_format.files import read_file

NAME = "the options"  # what stands for the device file in messages


@dataclass(frozen=True)
class _Old:
    """An option: its name, the key that says the same, and what click must know of it."""

    option: str
    key: str
    about: Mapping[str, Any]


_FLAG, _FILE, _NUMBER, _SEVERAL = {"is_flag": True}, {"type": FILE}, {"type": int}, {"multiple": True}
_OLD = (
    _Old("--gpu", "gpu", {}),
    _Old("--platform", "platform", {}),
    _Old("--board", "board", _FILE),
    _Old("--key", "key", _FILE),
    _Old("--min-security-version", "min_security_version", _NUMBER),
    _Old("--device-id", "device_id", {}),
    _Old("--algorithm", "algorithms", _SEVERAL),
    _Old("--fleet-key", "fleet_key", {"type": FILE, "help": "Private key (PEM). Deprecated."}),
    _Old("--carveout-mib", "carveout_mib", _NUMBER),
    _Old("--mmu/--no-mmu", "mmu", {"default": None}),
    _Old("--share-gpu", "share_gpu", _FLAG),
    _Old("--any-client", "any_client", _FLAG),
    _Old("--policy", "client_policy", _FILE),
    _Old("--bearssl", "bearssl", _FILE),
    _Old("--aws-lc", "aws_lc", _FILE),
    _Old("--decrypts", "features.encryption", _FLAG),
    _Old("--networks", "features.networks", _NUMBER),
    _Old("--steps", "features.steps", _FLAG),
    _Old("--schedule", "features.schedule", _NUMBER),
    _Old("--operator", "features.operators", _SEVERAL),
    _Old("--replay-log", "features.evidence", _FLAG),
    _Old("--log-hashes", "features.evidence.hashes", _FLAG),
    _Old("--attest", "features.evidence.attestations", _FLAG),
    _Old("--rollback-store", "features.store", _FLAG),
    _Old("--clock", "features.clock", _FLAG),
)


def old_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options, each by the key that says the same."""
    for old in _OLD:
        about = {"help": f"Deprecated: {old.key} in a device file.", **old.about}
        command = click.option(old.option, _parameter(old.key), hidden=True, **about)(command)
    return command


def of_options(old: Mapping[str, Any], file: Path | None) -> tuple[DeviceFile, str] | None:
    """What old options ask for, and the device file's text that asks for the same; None: there are none.

    Args:
        old: the parameters.
        file: the device file, which excludes them.

    Raises:
        UsageError, DeviceFileError: they do not fit together.
    """
    given = {row.key: old[_parameter(row.key)] for row in _OLD}
    given = {key: value for key, value in given.items() if _is_given(key, value)}
    if not given:
        return None
    if file:
        raise UsageError("expected a device file (docs/DEVICE-FILE.md), also found options that belong in it")
    rows = _rows(given)
    device = device_file.parse(rows, Path(), NAME)
    profile = device.features.profile
    known = profiles.named(profile).features.rows if profile else {}
    features = {name: value for name, value in device.features.rows.items() if value != known.get(name)}
    return device, device_file.text_of(
        {key: value for key, value in rows.items() if key != "features"}
        | ({"profile": profile} if profile else {})
        | ({"features": features} if features else {})
    )


def deprecate(text: str) -> None:
    """Say that options are deprecated, with the device file that asks for the same."""
    warn("options that say what to generate are deprecated: 'gramophone generate' takes a device file")
    say(f"this device file says the same (docs/DEVICE-FILE.md):\n{text.rstrip()}")


def _is_given(key: str, value: object) -> bool:
    """Only --no-mmu gives False: a flag that is not there is False."""
    return value is not None and value != () and (value is not False or key == "mmu")


def _parameter(key: str) -> str:
    return "old_" + key.replace(".", "_")


def _rows(given: Mapping[str, Any]) -> dict[str, Any]:
    """A device file's rows."""
    rows: dict[str, Any] = {}
    features: dict[str, Any] = {}
    for key, value in given.items():
        table, plain = (features, key.removeprefix("features.")) if "." in key else (rows, key)
        table[plain] = str(value) if isinstance(value, Path) else list(value) if type(value) is tuple else value
    detail = [name for name in ("hashes", "attestations") if features.pop(f"evidence.{name}", None)]
    if detail and "evidence" not in features:
        raise UsageError("--log-hashes and --attest require --replay-log: both are about what is in the log")
    if detail:
        features["evidence"] = detail
    if "schedule" in features:
        features["steps"] = True
    if "fleet_key" in rows:
        features["encryption"] = True
    if "key" in rows and read_file(Path(rows["key"]), limits.SMALL_BYTES).startswith(TAG):
        rows["trust_policy"], features["trust"] = rows.pop("key"), True
    return rows | {"features": features}
