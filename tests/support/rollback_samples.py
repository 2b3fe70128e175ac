# SPDX-License-Identifier: BSD-2-Clause
"""Firmware with a rollback store, and traces of several versions for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from host_tools import runners
from host_tools.runners import firmware, libraries
from host_tools.runners.replay import ReplayResult
from signing.delivery import Delivery
from signing.sign import sign_trace
from signing.trust import Anchor
from tee_replayer.generator.boards import QEMU_VIRT
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support import replayer_samples as s
from tests.support import trust_samples as t
from tests.support.trust_samples import policy
from trace_format.actions import Action


def with_store(key: Anchor, *, mmu: bool = False) -> Path:
    """The firmware's folder, compiled."""

    def write(folder: Path) -> None:
        options = Options(
            "v3d42", platform_of(QEMU_VIRT), key, libraries.source(), rollback_store=True, mmu=mmu or None
        )
        generate(options, folder)

    return firmware.compiled_once(write)


def trace(version: int, name: str = "net", *actions: Action) -> bytes:
    """A small trace with a security version."""
    return s.trace(*actions, meta={"name": name, "security_version": version}).build()


def under(policies: int, version: int, name: str = "net") -> bytes:
    """A trace with a security version, signed, under this version of the policy."""
    built = trace(version, name)
    links = [t.signed_policy(replace(policy(), version=number)) for number in range(2, policies + 1)]
    return t.join(built, t.signatures(built), links)


def by_key(version: int, name: str = "net") -> bytes:
    """The same, signed by one key."""
    return sign_trace(trace(version, name), s.ES256)


def boot(on: str, folder: Path, key: Anchor, flash: Path, data: bytes) -> ReplayResult:
    """Reset, one request, and the power off."""
    return runners.run(on, Delivery(data), key, gpu="v3d42", firmware=folder, flash=flash)
