# SPDX-License-Identifier: BSD-2-Clause
"""The interface of the runners: each has it, and what a runner does not have is refused."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.runners import (
    LINUX,
    NORMAL_WORLDS,
    RASPI4B,
    RUNNERS,
    WITHOUT_OPTEE,
    qemu,
    raspi4b,
    run,
    runner_of,
    unicorn,
    user_space,
    vgpu,
)
from host_tools.runners.optee import bare_metal, linux
from host_tools.runners.replay import ReplayRequest, Runner, RunnerError
from host_tools.runners.requests import WHY_NOT
from signing.delivery import Delivery
from signing.sign import sign_trace
from tests.support.signing_samples import ES256, small_trace

MODULES: dict[str, Runner] = {  # as mypy sees them
    "vgpu": vgpu,
    "unicorn": unicorn,
    "qemu": qemu,
    "optee": bare_metal,
    "optee-linux": linux,
    "linux": user_space,
    "raspi4b": raspi4b,
}
VALUES: dict[str, Any] = {
    **{"firmware": Path("fw"), "plugin_args": {"stats": "x"}, "timeout_s": 1.0},
    **{
        "latency_ns": 1,
        "hang_job": 1,
        "fault_job": 1,
        "network": "a",
        "store": Path("store"),
        "has_log": False,
        "flash": Path("flash"),
        "clock": 1,
        "nonce": bytes(8),
    },
    **{"series": {"x": np.zeros((1, 1))}, "each": frozenset({"y"})},
    "watch": lambda number, outputs: None,
}
TAKEN = {name: {field.name for field in fields(module.REQUEST)} for name, module in MODULES.items()}
OTHERS = [(name, option) for name in RUNNERS for option in VALUES if option not in TAKEN[name]]


def test_each_name_is_a_runner() -> None:
    assert {name: runner_of(name) for name in RUNNERS} == MODULES
    assert set(RUNNERS) == {*WITHOUT_OPTEE, *NORMAL_WORLDS.values(), LINUX, RASPI4B}


def test_each_option_is_some_runner_s() -> None:
    every = {field.name for field in fields(ReplayRequest)}
    assert WHY_NOT.keys() == VALUES.keys() == set().union(*TAKEN.values()) - every


@pytest.mark.parametrize(("name", "option"), OTHERS)
def test_an_option_that_a_runner_does_not_have(name: str, option: str) -> None:
    delivery = Delivery(sign_trace(small_trace(), ES256))
    with pytest.raises(RunnerError, match=f"^{option} cannot be used on {name}: {WHY_NOT[option]}$"):
        run(name, delivery, ES256.public, **{option: VALUES[option]})


def test_an_option_of_no_runner() -> None:
    delivery = Delivery(sign_trace(small_trace(), ES256))
    with pytest.raises(RunnerError, match="tiemout_s cannot be used on qemu: no runner has it"):
        run("qemu", delivery, ES256.public, tiemout_s=1)


def test_a_firmware_has_its_own_minimum_security_version(tmp_path: Path) -> None:
    """It cannot be made to take another, so to say nothing would mislead."""
    (tmp_path / "net.sgtr").write_bytes(sign_trace(small_trace(), ES256))
    (tmp_path / "pub.pem").write_bytes(ES256.public.pem())
    line = ["replay", f"{tmp_path}/net.sgtr", "--key", f"{tmp_path}/pub.pem", "--on", "unicorn"]
    done = CliRunner().invoke(main, [*line, "--firmware", "fw", "--min-security-version", "3"])
    assert done.exit_code == 2
    assert done.stderr.startswith("error: fw: the minimum security version is that which the firmware was")
