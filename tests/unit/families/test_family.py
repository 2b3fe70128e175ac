# SPDX-License-Identifier: BSD-2-Clause
"""GPU families: every GPU has one, and the facts that passes need fit the profiles."""

from __future__ import annotations

import dataclasses

import pytest

from host_tools.families.family import families, family_of, profile_of
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
