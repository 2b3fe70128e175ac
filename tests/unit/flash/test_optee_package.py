# SPDX-License-Identifier: BSD-2-Clause
"""Packages for OP-TEE by somebody who knows how `flash --check` works, made without building OP-TEE."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from host_tools.flash import fip, names, signed_ta
from host_tools.flash.check import check_opened
from host_tools.flash.containers import take_apart
from host_tools.flash.errors import ImageError
from host_tools.runners.optee.ta import uuid_of
from tee_replayer.generator.device import Device
from tests.support import replayer_samples as s
from tests.support.image_attacks import Files, forged
from tests.unit.flash.test_signed_ta import KEY, signed
from trace_format import profile

EVIL = b"evil" * 64
DEVICE = Device("optee", profile.load("v3d42").profile_id, 0, s.KEY)


def sample() -> Files:
    """The files of a package with a core that is only what is looked for in one."""
    core = {
        "tee-header_v2.bin": b"header",
        "tee-pager_v2.bin": b"core" + DEVICE.encoded + signed_ta.modulus(KEY.public_key()),
        "tee-pageable_v2.bin": b"",
    }
    images = {part: core[name] for part, name in names.CORE.items()} | {"soc-fw": b"bl31", "nt-fw": b"u-boot"}
    pem = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return {names.FIP: fip.build(images), **core, names.TA: signed(signed_ta.PSS), names.TA_KEY: pem}


def reasons(image: bytes) -> list[str]:
    try:
        return [str(finding) for finding in check_opened(take_apart(image), s.KEY).findings]
    except ImageError as error:
        return [str(error)]


def test_the_sample_is_what_it_must_be() -> None:
    assert reasons(forged("optee", sample())) == []


def test_the_name_of_the_ta() -> None:
    assert f"{uuid_of(Path('tee_replayer/optee/ta'))}.ta" == names.TA


def package(**changes: bytes) -> Callable[[], Files]:
    def make() -> Files:
        files = sample()
        old = {name: image.data for name, image in fip.parse(files[names.FIP]).images.items()}
        new = {name.replace("_", "-"): data for name, data in changes.items()}
        return {**files, names.FIP: fip.build(old | new)}

    return make


def with_files(**changes: bytes) -> Callable[[], Files]:
    return lambda: {**sample(), **changes}


def without(*left_out: str) -> Callable[[], Files]:
    return lambda: {name: data for name, data in sample().items() if name not in left_out}


ATTACKS: dict[str, tuple[Callable[[], Files], str]] = {
    "another core in the package": (package(tos_fw_extra1=EVIL), "fip.bin/tos-fw-extra1"),
    "a third part of the core, only in the package": (package(tos_fw_extra2=EVIL), "fip.bin/tos-fw-extra2"),
    "a core of two files, the third only in the package": (
        lambda: {n: d for n, d in package(tos_fw_extra2=EVIL)().items() if n != "tee-pageable_v2.bin"},
        "no firmware of ours",  # it is one for a HiKey960
    ),
    "a TA of another name": (
        with_files(**{"00000000-0000-0000-0000-000000000001.ta": signed(signed_ta.PSS)}),
        "00000000-0000-0000-0000-000000000001.ta",
    ),
    "no TA": (without(names.TA), names.TA),
    "a second key": (with_files(**{names.TA_KEY: sample()[names.TA_KEY] * 2}), names.TA_KEY),
    "text before the key": (with_files(**{names.TA_KEY: b"key\n" + sample()[names.TA_KEY]}), names.TA_KEY),
    "a flash script": (with_files(**{names.FLASH_SCRIPT: EVIL}), names.FLASH_SCRIPT),
    "a configuration": (with_files(**{names.CONFIG: EVIL}), names.CONFIG),
    "no package": (without(names.FIP), names.FIP),
    "another order": (lambda: dict(reversed(sample().items())), "as packing"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_package_that_boots_something_else(name: str) -> None:
    attack, reason = ATTACKS[name]
    found = reasons(forged("optee", attack()))
    assert any(re.search(re.escape(reason), text) for text in found), found
