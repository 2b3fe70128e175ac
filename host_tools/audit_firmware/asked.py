# SPDX-License-Identifier: BSD-2-Clause
"""What a firmware was asked to be, by its device file, against what it is."""

from __future__ import annotations

from collections.abc import Iterator

from host_tools.audit_firmware.analysis import Analysis
from host_tools.audit_firmware.expected import OF_FUNCTIONS
from host_tools.audit_firmware.rules import RULES, FirmwareFinding
from host_tools.audit_firmware.target import turns_mmu_on
from signing.trust import Policy
from tee_replayer.crypto import SEAMS
from tee_replayer.features import FEATURES
from tee_replayer.generator import profiles
from tee_replayer.generator.device_record import DeviceRecord
from trace_format import profile as gpus

# Features and algorithms, each with a function that only firmware with it has.
_FEATURES = {row.name: OF_FUNCTIONS[row.macro] for row in FEATURES if row.macro in OF_FUNCTIONS} | {
    "operators": "gr_operate",
    "evidence": "gr_log_append",
    "store": "gr_store_open",
    "streaming": "gr_lacks_pieces",
}
_ATTESTATIONS = "gr_attest_key"
_ALGORITHMS = {kind: OF_FUNCTIONS[macro] for kind, (_, macro) in SEAMS.items()}
_ONLY_REBUILT = "clock, device_id, and the numbers and names of features"


def findings(analysis: Analysis, asked: DeviceRecord) -> Iterator[FirmwareFinding]:
    """What differs, each with its key of the device file; and a warning where the features are no profile."""
    for key, expected, found in _differences(analysis, asked):
        yield FirmwareFinding(RULES["GF609"], f"expected {_shown(expected)}, found {_shown(found)}", key)
    if not asked.features.profile:
        yield FirmwareFinding(RULES["GF610"], asked.features.words, "features")


def not_compared(analysis: Analysis) -> str:
    """What of a device file is not compared with code that is not built again."""
    more = "" if analysis.image.symbols else ", and without symbols no feature but trust"
    return f"without --rebuild these are not compared: {_ONLY_REBUILT}{more}"


def _differences(analysis: Analysis, asked: DeviceRecord) -> Iterator[tuple[str, object, object]]:
    rows = [*_of_constants(analysis, asked), *_of_code(analysis, asked)]
    for key, expected, found in rows:
        if expected != found:
            yield key, expected, found


def _of_constants(analysis: Analysis, asked: DeviceRecord) -> Iterator[tuple[str, object, object]]:
    """What the constant says that the device was made for."""
    device = analysis.target.device
    if device is None:
        return
    expected = next((gpus.load(name).profile_id for name in gpus.names() if name == asked.gpu), None)
    if device.profile_id != expected:
        yield "gpu", asked.gpu, analysis.target.profile.name if analysis.target.profile else "an unknown GPU"
    yield "platform", asked.platform, device.platform
    has_policy = isinstance(device.key, Policy)
    yield "features.trust", asked.features.trust, has_policy
    key = "trust_policy_id" if asked.features.trust else "key_id"
    yield key, asked.key_id.hex(), device.key.kid.hex()
    yield "min_security_version", asked.min_security_version, device.min_security_version
    staging = asked.carveout_bytes // 4 if analysis.is_pta else 0
    if device.carveout_bytes and asked.carveout_bytes:
        yield "carveout_bytes", asked.carveout_bytes, device.carveout_bytes + staging
    if asked.mmu is not None:
        yield "mmu", asked.mmu, turns_mmu_on(analysis.image)


def _of_code(analysis: Analysis, asked: DeviceRecord) -> Iterator[tuple[str, object, object]]:
    """What its functions say; an image without symbols has no names of functions."""
    if not analysis.image.symbols:
        return
    names = {row.name.partition(".")[0] for row in analysis.image.symbols}
    for feature, function in _FEATURES.items():
        if not (analysis.is_pta and feature == "schedule"):  # OP-TEE's core also has functions of such names
            yield f"features.{feature}", feature in asked.features.names, function in names
    yield "features.evidence.attestations", asked.features.evidence.attestation, _ATTESTATIONS in names
    for kind, function in _ALGORITHMS.items():
        yield f"algorithms.{kind.name.lower()}", kind in asked.algorithms, function in names


def _shown(value: object) -> str:
    return profiles.shown(value) if isinstance(value, bool) else str(value)
