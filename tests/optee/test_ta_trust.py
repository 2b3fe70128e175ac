# SPDX-License-Identifier: BSD-2-Clause
"""The TA of a device with a trust policy: the version under which traces are accepted never falls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.optee.compiled_ta import (
    BAD_FORMAT,
    BUSY,
    COUNTER,
    LOAD,
    NO_SPACE,
    OLD_POLICY,
    OLDER,
    RUN,
    SOURCES,
    SUCCESS,
    TRUST_VERSION,
    Ta,
    compiled,
    manifest,
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return compiled(tmp_path_factory.mktemp("ta"), (SOURCES / "policy.h").read_text(), trust=True)


@pytest.fixture
def device(library: Path) -> Ta:
    found = Ta(library)
    assert found.open() == SUCCESS
    return found


def load(device: Ta, policy: int, version: int = 0, name: str = "lenet") -> int:
    device.lib.fake_trust(policy)
    return device.load(version, name)


def replayed(device: Ta, policy: int, version: int = 0, name: str = "lenet") -> int:
    result = load(device, policy, version, name)
    return device.invoke(RUN) if result == SUCCESS else result


def test_versions_of_the_policy_only_grow(device: Ta) -> None:
    """For traces of all names together, and over reboots."""
    for policy, name, expected in (
        (1, "a", SUCCESS),
        (3, "a", SUCCESS),
        (3, "b", SUCCESS),
        (2, "b", OLD_POLICY),
        (1, "a", OLD_POLICY),
        (4, "c", SUCCESS),
    ):
        assert replayed(device, policy, 0, name) == expected
        assert device.lib.fake_loaded() == (expected == SUCCESS)
    device.close()
    assert device.open() == SUCCESS
    assert load(device, 3) == OLD_POLICY
    assert replayed(device, 4) == SUCCESS
    assert device.lib.fake_objects() == 1


@pytest.mark.parametrize("name", [b"\0trust policy", b"net\0x"])
def test_a_name_that_is_the_policys_is_none(device: Ta, name: bytes) -> None:
    """A signer whom the policy names must not raise the policy's own counter."""
    device.lib.fake_trust(1)
    device.lib.fake_manifest(name.ljust(64, b"\0") + manifest("", 7)[64:])
    assert device.invoke(LOAD) == BAD_FORMAT
    assert replayed(device, 1) == SUCCESS


def test_both_counters_are_kept(device: Ta) -> None:
    assert replayed(device, 2, 5) == SUCCESS
    assert device.lib.fake_objects() == 2
    assert load(device, 2, 4) == OLDER
    assert load(device, 1, 5) == OLD_POLICY
    assert load(device, 1, 4) == OLDER
    assert replayed(device, 2, 0, "another") == SUCCESS


def test_a_replay_that_fails_raises_nothing(device: Ta) -> None:
    """Nor does a trace that is only loaded, whatever comes after it."""
    assert replayed(device, 1) == SUCCESS
    assert load(device, 9) == SUCCESS
    device.lib.fake_fail(RUN, BUSY)
    assert device.invoke(RUN) == BUSY
    device.lib.fake_fail(RUN, 0)
    assert replayed(device, 1) == SUCCESS
    assert load(device, 9) == SUCCESS
    assert load(device, 1, 0, "another") == SUCCESS  # in its place
    assert device.invoke(RUN) == SUCCESS
    assert replayed(device, 1) == SUCCESS


def test_the_version_is_asked_for_once_loaded(device: Ta) -> None:
    assert load(device, 1) == SUCCESS
    commands = [command for command, *_ in device.calls]
    assert commands[-3:] == [LOAD, 9, TRUST_VERSION]
    device.lib.fake_fail(TRUST_VERSION, BUSY)
    assert load(device, 1) == BUSY
    assert not device.lib.fake_loaded()


def test_without_storage_nothing_is_loaded(device: Ta) -> None:
    device.lib.fake_storage(NO_SPACE, 0, 0)
    assert load(device, 1) == COUNTER
    assert not device.lib.fake_loaded()


def test_where_the_version_cannot_be_kept_nothing_goes_out(device: Ta) -> None:
    assert load(device, 7) == SUCCESS
    device.lib.fake_storage(0, NO_SPACE, 0)
    assert device.invoke(RUN) == COUNTER
    assert not device.lib.fake_loaded()
    device.lib.fake_storage(0, 0, 0)
    assert replayed(device, 6) == SUCCESS


def test_a_trace_with_no_name_has_another_counter(device: Ta) -> None:
    """The policy's object begins as an empty name does."""
    assert replayed(device, 3, 2, "") == SUCCESS
    assert device.lib.fake_objects() == 2
    assert load(device, 3, 1, "") == OLDER
    assert load(device, 2, 2, "") == OLD_POLICY
