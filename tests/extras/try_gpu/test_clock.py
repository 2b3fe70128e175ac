# SPDX-License-Identifier: BSD-2-Clause
"""The GPU's clock, before its first access: what the firmware is asked, and when nobody dares."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.port_program import port_program

WRAPPED = ("open", "ioctl", "uname")
ASK, SET = "9 0x6400: 32 0 0x30001 5 0", "9 0x6400: 32 0 0x38001 5 1"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """clock.c for this machine, with a firmware that says what it is told to."""
    return port_program("clock", WRAPPED, tmp_path_factory.mktemp("clock"))


def run(program: Path, *words: str, **environment: str) -> tuple[int, list[str]]:
    done = subprocess.run([program, *words], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(
    ("asked", "then", "status", "said"),
    [
        ("1", "-", 0, [ASK, "on"]),
        ("0", "1", 0, [ASK, SET, "on"]),
        ("0", "0", 1, [ASK, SET, "clock: expected the firmware to switch the GPU's clock on, found state 0"]),
        (
            "0",
            "refused",
            1,
            [ASK, SET, "clock: expected the firmware to switch the GPU's clock on, found state -1"],
        ),
        ("3", "-", 1, [ASK, "clock: expected the firmware to switch the GPU's clock on, found state 3"]),
        ("refused", "-", 1, [ASK, "clock: expected the firmware to switch the GPU's clock on, found state -1"]),
        ("closed", "-", 1, ["/dev/vcio: Permission denied"]),
    ],
)
def test_the_firmware_is_asked(program: Path, asked: str, then: str, status: int, said: list[str]) -> None:
    found, lines = run(program, asked, then, "6.18.0")
    assert found == status
    assert lines[0] == "open /dev/vcio"
    assert lines[1:-1] == said[:-1]
    assert lines[-1].startswith(said[-1])


@pytest.mark.parametrize("release", ["6.16.9", "5.15.0-v8+", "6.6.31+rpt-rpi-v8"])
def test_without_a_way_to_ask_an_older_kernel_is_trusted(program: Path, release: str) -> None:
    assert run(program, "none", "-", release) == (0, ["open /dev/vcio", "on"])


@pytest.mark.parametrize("release", ["6.17.0", "7.0.0", "6.17-rc1", "strange"])
def test_without_a_way_to_ask_a_newer_kernel_is_not(program: Path, release: str) -> None:
    status, lines = run(program, "none", "-", release)
    assert status == 1
    assert lines[-1].startswith(f"clock: expected /dev/vcio, found none, and Linux {release} may have switched")
    assert run(program, "none", "-", release, GRAMOPHONE_CLOCK_IS_ON="1") == (0, ["open /dev/vcio", "on"])
