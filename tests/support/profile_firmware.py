# SPDX-License-Identifier: BSD-2-Clause
"""The firmware of each profile (tee_replayer/profiles.toml) for the emulated board."""

from __future__ import annotations

import functools
from pathlib import Path

from host_tools.runners import firmware, libraries
from signing.trust import Anchor
from tee_replayer.generator import profiles
from tee_replayer.generator.decryption import Decryption
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support import replayer_samples as s
from tests.support import trust_samples as t

NAMES = tuple(profiles.load())


def anchor(name: str) -> Anchor:
    """Whom a profile's device trusts."""
    return t.policy() if profiles.named(name).features.trust else s.KEY


def options_of(name: str, gpu: str, min_security_version: int = 0) -> Options:
    """What its firmware is generated with."""
    features = profiles.named(name).features
    return Options(
        gpu,
        platform_of("qemu-virt"),
        anchor(name),
        libraries.source(),
        min_security_version=min_security_version,
        decryption=Decryption(features.encryption),
        **features.options,
    )


@functools.cache
def folder_of(name: str, gpu: str, min_security_version: int = 0) -> Path:
    """A profile's firmware, compiled once."""
    options = options_of(name, gpu, min_security_version)

    def write(folder: Path) -> None:
        generate(options, folder)

    return firmware.compiled_once(write)
