# SPDX-License-Identifier: BSD-2-Clause
"""The options of a replayer: checked where they are made, fixed from then on."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tee_replayer import crypto
from tee_replayer.generator.bare_metal import BareMetal
from tee_replayer.generator.evidence import Evidence
from tee_replayer.generator.generate import generate
from tee_replayer.generator.linux_folder import Linux
from tee_replayer.generator.optee_folder import OpTee
from tee_replayer.generator.options import GenerateError, Options
from tee_replayer.generator.platforms import names, platform_of
from tests.support import crypto_trees
from tests.support.replayer_samples import KEY
from trace_format.errors import GramophoneError

NOWHERE = crypto.Libraries(Path("bearssl"), Path("aws-lc"))
MIB = 1 << 20


def options(platform: str, **changes: Any) -> Options:
    gpu = {"hikey960": "mali_g71", "rk3576": "mali_g52r1"}.get(platform, "v3d42")
    return Options(gpu, platform_of(platform), KEY, NOWHERE, **changes)


def test_the_platforms_by_name() -> None:
    assert {name: type(platform_of(name)) for name in names()} == {
        **dict.fromkeys(("hikey960", "qemu-virt", "rk3576", "rpi4"), BareMetal),
        "linux": Linux,
        "optee": OpTee,
    }
    assert [options(name).target.name for name in names()] == names()


@pytest.mark.parametrize(
    ("platform", "changes", "message"),
    [
        ("qemu-virt", {"share_gpu": True}, "OP-TEE does that"),
        ("qemu-virt", {"any_client": True}, "qemu-virt has no clients"),
        ("qemu-virt", {"policy": Path("mine.h")}, "takes no client policy"),
        ("qemu-virt", {"carveout_bytes": 1 << 40}, "carveout.bytes"),
        ("rpi4", {"evidence": Evidence(log=True)}, "gr_board_secret"),
        ("rpi4", {"rollback_store": True}, "gr_port_flash_read"),
        ("optee", {"rollback_store": True}, "secure storage"),
        ("linux", {"rollback_store": True}, "set its versions back"),
        *((name, {"clock": True}, "requires a trust policy") for name in ("qemu-virt", "optee")),
        ("optee", {"carveout_bytes": 64 * MIB + 4096}, "multiples of 2 MiB"),
        ("optee", {"mmu": True}, "tables of its own"),
        ("linux", {"carveout_bytes": MIB}, "device tree"),
        ("linux", {"mmu": False}, "Linux has the MMU"),
        *((name, {"min_security_version": 1 << 32}, "out of range") for name in ("rpi4", "optee", "linux")),
    ],
)
def test_what_a_platform_refuses_is_never_an_options_object(
    platform: str, changes: dict[str, Any], message: str
) -> None:
    """No file is looked for: the libraries' folders are nowhere."""
    options(platform)
    with pytest.raises(GramophoneError, match=message):
        options(platform, **changes)


def test_a_policy_is_read_when_the_options_are_made(tmp_path: Path) -> None:
    policy = tmp_path / "policy.h"
    policy.write_text("policy_clients policy_traces POLICY_STORAGE")
    libraries = crypto_trees.empty(tmp_path)
    made = Options("v3d42", platform_of("optee"), KEY, libraries, policy=policy)
    policy.write_text("something else")
    with pytest.raises(GenerateError, match=r"policy\.h: expected policy_clients"):
        dataclasses.replace(made)
    out = generate(made, tmp_path / "out")
    assert (out / "ta" / "policy.h").read_text() == "policy_clients policy_traces POLICY_STORAGE"


def test_options_are_fixed_and_leave_the_platform_as_it_is() -> None:
    board = platform_of("qemu-virt")
    made = Options("v3d42", board, KEY, NOWHERE, carveout_bytes=64 * MIB)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.carveout_bytes = 0  # type: ignore[misc]
    assert isinstance(made.target, BareMetal)
    assert made.target.board.memory["carveout"].bytes == 64 * MIB
    again = dataclasses.replace(made, carveout_bytes=None)
    assert again.target == Options("v3d42", board, KEY, NOWHERE).target != made.target
    assert board == platform_of("qemu-virt")


def test_devices_are_the_boards_whatever_the_firmware_uses() -> None:
    """Its translation tables are those that an audit expects of the board's description."""
    plain, keeping = (options("qemu-virt", rollback_store=wanted).target.board for wanted in (False, True))  # type: ignore[attr-defined]
    assert plain.devices == keeping.devices
