# SPDX-License-Identifier: BSD-2-Clause
"""Estimates of jobs' times: what the constants' files must say, and what estimates do with them."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from host_tools.families.timing import Parts, total
from host_tools.model.timing import Chip, TimingError, chip_of, chips, estimate, read_chips, together
from host_tools.vgpu.binding import Dispatch
from tests.support import chips as no_chip

NOTHING = Dispatch(**{field.name: 0 for field in fields(Dispatch)})
V3D = replace(
    NOTHING, instructions=1_000_000, loaded_lines=50_000, first_misses=20_000, second_misses=5_000,
    stored_lines=2_000, groups=64, loaded_words=50_000,
)  # fmt: skip
MALI = replace(V3D, workgroups=100, stored_misses=1_000)
CONSTANT = 'value = 2.0\nbest = 1.0\nworst = 3.0\nunit = "us"\nsource = "a test"\n'
FILE = f'[a]\ntitle = "A"\ngpu = "v3d42"\nspread = {{ low = 0.5, high = 2.0 }}\n[a.constant.start]\n{CONSTANT}'


@pytest.mark.parametrize("chip", chips().values(), ids=lambda chip: chip.name)
def test_every_constant_says_what_it_rests_on(chip: Chip) -> None:
    """And lies between best and worst; a guess says that it is one."""
    for name, constant in chip.constants.items():
        assert constant.unit
        assert constant.source, name
        assert min(constant.best, constant.worst) <= constant.value <= max(constant.best, constant.worst)
    assert any(constant.guess for constant in chip.constants.values())


def test_the_chips_that_there_are() -> None:
    assert {chip.name: chip.gpu for chip in chips().values()} == {
        "pi4": "v3d42",
        "pi5": "v3d71",
        "hikey960": "mali_g71",
        "mt8183": "mali_g72",
        "mt8365": "mali_g52r1",
        "h313": "mali_g31",
    }
    pi5 = chips()["pi5"].values()
    assert pi5["slices"] * pi5["qpus"] / pi5["slices"] * 4 * 2 * pi5["clock"] / 1e3 == pytest.approx(
        76.8
    )  # Gflop/s


@pytest.mark.parametrize("name", list(chips()))
def test_more_work_never_takes_less(name: str) -> None:
    """Of each count by itself; the interval has the estimate in it."""
    chip = chips()[name]
    base = estimate([MALI], chip)
    assert 0 < base.low_us < base.us < base.high_us
    for field in ("instructions", "loaded_lines", "stored_lines", "loaded_words", "workgroups", "second_misses"):
        more = estimate([replace(MALI, **{field: 10 * getattr(MALI, field)})], chip)
        assert more.us >= base.us, field
        assert more.high_us >= base.high_us, field


@pytest.mark.parametrize("name", list(chips()))
def test_jobs_add_up(name: str) -> None:
    chip = chips()[name]
    one, other = estimate([MALI], chip), estimate([V3D], chip)
    both = estimate([MALI, V3D], chip)
    for field in ("us", "low_us", "high_us"):
        assert getattr(both, field) == pytest.approx(getattr(one, field) + getattr(other, field))
        assert getattr(together([one, other]), field) == pytest.approx(getattr(both, field))
    assert both.parts["lines"] == pytest.approx(one.parts["lines"] + other.parts["lines"])
    assert together([]).us == 0


def test_what_binds_a_job() -> None:
    pi4 = chips()["pi4"]
    assert estimate([NOTHING], pi4).binds == "start"
    assert estimate([replace(V3D, instructions=10**8)], pi4).binds == "issue"
    assert estimate([replace(V3D, loaded_lines=10**8)], pi4).binds == "lines"
    assert estimate([replace(MALI, workgroups=10**7)], chips()["hikey960"]).binds == "workgroups"
    assert estimate([], pi4).us == pi4.constants["start"].value  # a job that dispatches nothing


def test_what_overlaps() -> None:
    parts = Parts(start=1.0, workgroups=2.0, issue=10.0, lines=3.0, words=1.0)
    assert [total(parts, serial) for serial in (0.0, 0.5, 1.0)] == [13.0, 15.0, 17.0]
    assert total(replace(parts, memory=20.0), 0.0) == 27.0


def test_few_batches_leave_qpus_idle() -> None:
    """One batch has one QPU and one TMU, nine batches on eight QPUs take as long as sixteen."""
    pi4 = chips()["pi4"]
    times = {
        groups: estimate([replace(V3D, groups=groups, loaded_lines=0, first_misses=0, second_misses=0)], pi4)
        for groups in (1, 8, 9, 16)
    }
    issue = {groups: time.parts["issue"] for groups, time in times.items()}
    assert issue[1] == pytest.approx(8 * issue[8])
    assert issue[9] == pytest.approx(issue[8] * 16 / 9)
    assert issue[16] == pytest.approx(issue[8])
    assert times[1].parts["lines"] == pytest.approx(2 * times[8].parts["lines"])


@pytest.mark.parametrize(
    ("gpu", "name", "text"),
    [
        ("v3d42", "pi5", "pi5 has another GPU than the trace: expected v3d71, found v3d42"),
        ("mali_g71", "pi4", "pi4 has another GPU than the trace"),
        ("v3d42", "pi3", "no chip is called pi3; there are: pi4, pi5, hikey960, mt8183, mt8365, h313"),
        ("v3d42", "", "no chip is called "),
    ],
)
def test_chips_that_are_refused(gpu: str, name: str | None, text: str) -> None:
    with pytest.raises(TimingError, match=text):
        chip_of(gpu, name)


def test_a_gpu_without_a_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    no_chip.forget(monkeypatch)
    with pytest.raises(TimingError, match=f"{no_chip.REFUSED}; there are some of mali_g31, mali_g52r1, "):
        chip_of(no_chip.GPU)


def test_a_chip_like_another() -> None:
    more = f'[b]\ntitle = "B"\ngpu = "v3d71"\nlike = "a"\n[b.constant.clock]\n{CONSTANT}'
    first, second = read_chips((FILE + more).encode())
    assert second.constants["start"] == first.constants["start"]
    assert list(first.constants) == ["start"]
    assert (second.title, second.low) == ("B", 0.5)


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ('title = "A"', "", "a: title is missing"),
        ('title = "A"', 'title = " "', "a: title is empty"),
        ("value = 2.0", "value = 2", "a.constant.start: value: expected a value of type float"),
        ("value = 2.0", "value = 4.0", "a.constant.start: the value does not lie between best and worst"),
        ("value = 2.0", "value = nan", "a.constant.start: value: expected 0 to"),
        ("worst = 3.0", "worst = inf", "a.constant.start: worst: expected 0 to"),
        ("best = 1.0", "best = -1.0", "a.constant.start: best: expected 0 to"),
        ('source = "a test"', "", "a.constant.start: source is missing"),
        ('unit = "us"', "unit = 3", "a.constant.start: unit"),
        ("low = 0.5", "low = 0.0", "a.spread: low: expected a number above 0"),
        ("low = 0.5", "low = 1.5", "a.spread: 1 does not lie between low and high"),
        ("[a]", "[a]\nlike = 'c'", "a: like 'c', which is no other chip of the file"),
        ("[a]", "[a]\nlike = 'a'", "a: like 'a', which is no other chip of the file"),
        ("[a]", "[b]\nlike = 'a'\n[a]\nlike = 'b'", "b: like 'b', which is no other chip of the file"),
        ("[a]", "[a]\nmore = 1", "a: unknown keys more"),
        ('source = "a test"', 'source = "a test"\nguess = 1', "a.constant.start: guess"),
        ("[a]", "c = 1\n[a]", "c: expected a chip's table"),
        ("[a]", "[a", "not TOML"),
    ],
)
def test_a_malformed_file_is_refused(before: str, after: str, text: str) -> None:
    with pytest.raises(TimingError, match=text):
        read_chips(FILE.replace(before, after, 1).encode())


@pytest.mark.parametrize(
    ("workgroups", "cores", "times"), [(1, 1, 1), (1, 4, 1), (4, 2, 2), (8, 2, 4), (800, 4, 2)]
)
def test_on_some_of_the_cores(workgroups: int, cores: int, times: float) -> None:
    """A dispatch loses the cores that it could have used: of one workgroup, none."""
    row, chip = replace(MALI, workgroups=workgroups), chips()["hikey960"]
    whole, part = estimate([row], chip), estimate([row], chip, cores)
    for name in ("workgroups", "issue", "lines", "words", "misses"):
        assert part.parts[name] == pytest.approx(times * whole.parts[name])
    for name in ("start", "memory"):
        assert part.parts[name] == whole.parts[name]
    assert estimate([row], chip, 8) == whole


def test_a_v3d_has_no_parts() -> None:
    with pytest.raises(TimingError, match="pi4: its jobs run on all of its cores, none on 2 of them"):
        estimate([V3D], chips()["pi4"], 2)
