# SPDX-License-Identifier: BSD-2-Clause
"""GPU families: every GPU has one, and the facts that passes need fit the profiles."""

from __future__ import annotations

import dataclasses

import pytest

from host_tools.families.family import Family, families, family_of, part_of, profile_of
from host_tools.families.retargeting import Retargeting
from host_tools.families.shares import Sharing, sharing_of
from host_tools.families.speed import Speed, speed_of
from host_tools.families.timing import Timing
from trace_format import profile as profiles
from trace_format.errors import ProfileError


def test_every_gpu_has_one_family() -> None:
    assert sorted(name for family in families() for name in family.gpus) == profiles.names()


@pytest.mark.parametrize("name", profiles.names())
def test_a_family_is_found_by_profile_name_and_variant(name: str) -> None:
    family = family_of(name)
    assert name in family.gpus
    assert family_of(profiles.load(name)) is family
    assert family_of(f"{name}-variant") is family


def test_a_gpu_without_profile_or_family_is_refused() -> None:
    with pytest.raises(ProfileError, match="no profile for GPU 'teapot'"):
        family_of("teapot")
    with pytest.raises(ProfileError, match="GPU teapot belongs to no family"):
        family_of(dataclasses.replace(profiles.load("v3d42"), name="teapot"))


@pytest.mark.parametrize("name", profiles.names())
def test_facts_fit_the_profile(name: str) -> None:
    gpu, family = profile_of(name), family_of(name)
    assert family.queues == ("js0.HEAD_NEXT_LO" in gpu.registers)
    assert any(family.cache_commands.fullmatch(register) for register in gpu.registers)


def test_a_family_says_no_more_than_the_core_asks() -> None:
    assert len(dataclasses.fields(Family)) <= 25


@pytest.mark.parametrize("kind", [Timing, Speed, Sharing, Retargeting])
def test_parts_are_found_in_the_familys_folder(kind: type[object]) -> None:
    assert isinstance(part_of("mali_g71", kind), kind)


def test_a_part_that_a_folder_lacks() -> None:
    """A V3D has no rules; of a family without the others, nothing is known."""
    assert part_of("v3d42", Retargeting) is None
    assert isinstance(sharing_of("v3d42").shares, str)
    assert (Speed().kernel_costs, Sharing().job_order) == (None, None)
    assert speed_of("v3d42") is part_of("v3d42", Speed)
