# SPDX-License-Identifier: BSD-2-Clause
"""Constants fitted to times: those that made the times come back, and what they say nothing of stays."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from host_tools.extras.speed import calibration
from host_tools.extras.speed.calibration import Measured, calibrate, mean_error
from host_tools.model.timing import Chip, TimingError, chips, estimate, read_chips
from host_tools.vgpu.binding import Dispatch

ZERO = Dispatch(**{field.name: 0 for field in dataclasses.fields(Dispatch)})
ROWS = {
    "launch": (64, {"instructions": 1000, "groups": 1}),
    "store": (1, {"instructions": 1347640, "groups": 8, "stored_lines": 1 << 18}),
    "load": (
        1,
        {
            "instructions": 2295216,
            "groups": 8,
            "loaded_lines": 2097152,
            "first_misses": 2097152,
            "second_misses": 2097152,
        },
    ),
    "gemm": (
        1,
        {
            "instructions": 197679424,
            "groups": 8,
            "loaded_lines": 71368719,
            "stored_lines": 65536,
            "first_misses": 71368712,
            "second_misses": 4447240,
        },
    ),
}


def measured(chip: Chip, **constants: float) -> list[Measured]:
    """What a board with these constants would have measured."""
    other = {
        name: dataclasses.replace(chip.constants[name], value=value, best=value, worst=value)
        for name, value in constants.items()
    }
    board = dataclasses.replace(chip, constants=dict(chip.constants) | other)
    found = []
    for name, (times, fields) in ROWS.items():
        row = dataclasses.replace(ZERO, **fields)
        found.append(Measured(name, Counter({row: times}), times * estimate([row], board).us))
    return found


@pytest.mark.parametrize("name", ["pi4", "pi5"])
def test_constants_come_back(name: str) -> None:
    chip = chips()[name]
    true = {"start": 2 * chip.constants["start"].value, "clock": 0.8 * chip.constants["clock"].value}
    times = measured(chip, **true)
    found = calibrate(chip, times)
    assert mean_error(found.before, times) > 0.1
    assert mean_error(found.after, times) < 0.01
    for constant, value in true.items():
        assert found.chip.constants[constant].value == pytest.approx(value, rel=0.1)
        assert not found.chip.constants[constant].guess
        assert "4 replays on a board; before: " in found.chip.constants[constant].source
    assert len(found.left_out) == len(times)
    assert found.chip.low <= 1 <= found.chip.high


def test_what_is_right_stays() -> None:
    chip = chips()["pi4"]
    times = measured(chip)
    found = calibrate(chip, times)
    assert found.before == pytest.approx([one.us for one in times])
    assert found.after == pytest.approx(found.before, rel=1e-3)
    for name, constant in chip.constants.items():
        assert found.chip.constants[name].value == pytest.approx(constant.value, rel=0.02, abs=0.02)


def test_what_the_times_say_nothing_of_stays() -> None:
    """One replay of small jobs says what starting one takes, and no more."""
    chip = chips()["pi4"]
    found = calibrate(chip, measured(chip, start=45.0)[:1])
    assert found.chip.constants["start"].value == pytest.approx(45, rel=0.05)
    for name in chip.constants.keys() - {"start"}:
        assert found.chip.constants[name].value == pytest.approx(chip.constants[name].value, rel=0.05, abs=0.05)
    assert found.left_out == ()
    assert (found.chip.low, found.chip.high) == (chip.low, chip.high), "one replay says nothing of errors"


def test_constants_without_room_never_move() -> None:
    chip = chips()["pi4"]
    found = calibrate(chip, measured(chip, load=20.0))
    assert "load" not in calibration.free(chip)
    assert found.chip.constants["load"] == chip.constants["load"]
    assert 0 <= found.chip.constants["serial"].value <= 1, "a share stays one"


@pytest.mark.parametrize("name", list(chips()))
def test_what_is_written_is_read(name: str) -> None:
    chip = chips()[name]
    (same,) = read_chips(calibration.written(chip).encode())
    assert same == chip
    if chip.gpu != "mali_g71":
        fitted = calibrate(chip, measured(chip, start=33.25)).chip
        assert read_chips(calibration.written(fitted).encode()) == [fitted]


@pytest.mark.parametrize("us", [0.0, -1.0, float("nan"), float("inf"), 601e6])
def test_times_that_are_none(us: float) -> None:
    one = measured(chips()["pi4"])[0]
    with pytest.raises(TimingError, match="launch: its time: expected 1 to 600000000 microseconds"):
        calibrate(chips()["pi4"], [dataclasses.replace(one, us=us)])


def test_nothing_to_fit_to() -> None:
    with pytest.raises(TimingError, match="no replay was measured"):
        calibrate(chips()["pi4"], [])
    with pytest.raises(TimingError, match="empty: it has no dispatches"):
        calibrate(chips()["pi4"], [Measured("empty", Counter(), 1.0)])
