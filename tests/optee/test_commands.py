# SPDX-License-Identifier: BSD-2-Clause
"""Every command of every build of the TA: what the build lacks, the TA refuses itself, with one status.

The pseudo-TA's own refusals: test_client.py.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest

from host_tools.runners.optee import client
from tests.optee.compiled_ta import (
    ACCESS_DENIED,
    BAD_PARAMETERS,
    NOT_SUPPORTED,
    SOURCES,
    SUCCESS,
    Ta,
    compiled,
)

PTA = client.SOURCES.parent
ALWAYS = (
    *("LOAD_BEGIN", "LOAD_DATA", "LOAD", "DESCRIBE", "SET_INPUT", "RUN", "GET_OUTPUT", "UNLOAD", "GET_LOG"),
    *("DESCRIBE_TRACE", "FORGET"),
)
OF_FEATURES = {
    "log": ("LOG_OPEN", "LOG_TAIL", "GET_ENTRIES", "ATTEST_NONCE", "DEVICE_KEY"),
    "trust": ("TRUST_VERSION",),
    "networks": ("CHOOSE", "DESCRIBE_NETWORK", "SUBMIT", "STEP", "YIELD"),
}
FOR_THE_TA = {"LOG_OPEN": (bytes(48),), "LOG_TAIL": (bytearray(48),), "TRUST_VERSION": (bytearray(4),)}
BUILDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "log": {"log": True},
    "trust": {"trust": True},
    "networks": {"networks": 2},
    "all": {"log": True, "trust": True, "networks": 2},
}
PARAMETERS: tuple[tuple[Any, ...], ...] = (
    *((), ((0, 0),), (bytes(8),), (bytearray(8),)),
    *(((0, 0), bytes(8)), ((0, 0), bytearray(8)), (bytes(8), bytearray(8))),
)


@cache
def commands() -> list[str]:
    """All, in the order of their numbers."""
    text = (PTA / "gramophone_pta.h").read_text()
    inside = re.sub(
        r"/\*.*?\*/", "", text.partition("enum gramophone_command {")[2].partition("};")[0], flags=re.DOTALL
    )
    return re.findall(r"GRAMOPHONE_(\w+),", inside)


def test_every_command_has_a_row_and_a_feature() -> None:
    rows = re.findall(r"^ROW\((\w+),", (PTA / "gramophone_commands.h").read_text(), re.MULTILINE)
    assert rows == commands()
    assert commands() == [*ALWAYS, *(name for names in OF_FEATURES.values() for name in names)]


@pytest.fixture(scope="module", params=BUILDS)
def build(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ta, set[str]]:
    """A TA with an open session, and the commands that it has."""
    features = BUILDS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    ta = Ta(compiled(folder, (SOURCES / "policy.h").read_text(), **features))
    assert ta.open() == SUCCESS
    return ta, {*ALWAYS, *(name for feature in features for name in OF_FEATURES[feature])}


def test_a_command_that_a_build_lacks_is_refused_by_the_ta(build: tuple[Ta, set[str]]) -> None:
    ta, has = build
    before = len(ta.calls)
    for number in range(len(commands()) + 3):
        if number < len(commands()) and commands()[number] in has:
            continue
        for values in PARAMETERS:
            assert ta.invoke(number, *values) == NOT_SUPPORTED, (number, values)
    assert len(ta.calls) == before, "the pseudo-TA sees none of them"


def test_a_command_that_a_build_has_is_judged_by_its_parameters(build: tuple[Ta, set[str]]) -> None:
    ta, has = build
    for number, name in enumerate(commands()):
        if name in has:
            assert ta.invoke(number, (0, 0), (0, 0)) == BAD_PARAMETERS, name
            assert ta.invoke(number, *FOR_THE_TA.get(name, ((0, 0), (0, 0)))) == (
                ACCESS_DENIED if name in FOR_THE_TA else BAD_PARAMETERS
            )
