# SPDX-License-Identifier: BSD-2-Clause
"""All passes, in the order in which `gramophone build` runs them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from host_tools.families.family import families
from host_tools.passes import (
    checkpoints,
    cutting,
    early_uploads,
    list_passes,
    memory_passes,
    mmu_passes,
    planning,
    register_passes,
    streaming,
    timeouts,
)
from host_tools.passes.registry import Pass
from host_tools.support.extra import everyone, loaded, unusable

# Those for all GPUs. Families (`Family.passes`) and extras say after which of these their own run.
_GENERAL = (
    memory_passes.make_parameters_constant,
    register_passes.mask_volatile_bits,
    register_passes.fold_polls,
    register_passes.trim_intervals,
    register_passes.fold_interrupts,
    list_passes.drop_lists,
    mmu_passes.map_once,
    register_passes.drop_repeated_cache_maintenance,
    early_uploads.upload_early,
    memory_passes.map_read_only,
    memory_passes.drop_dead_memory,
    memory_passes.drop_recorded_inputs,
    memory_passes.share_duplicate_pages,
    planning.plan_memory,
    memory_passes.relocate,
    memory_passes.trim_address_space,
    cutting.PASS,
    timeouts.PASS,
    streaming.PASS,
    checkpoints.PASS,  # of the actions that a device has
)


def _of_extras() -> dict[str, list[Pass]]:
    """By the pass after which they run."""
    found: dict[str, list[Pass]] = {}
    for package, extra in everyone():
        try:
            added = {after: [loaded(place) for place in places] for after, places in extra.passes.items()}
        except Exception as error:  # somebody else's code
            if not package:
                raise
            unusable(package, error)
            continue
        for after, passes in added.items():
            found.setdefault(after, []).extend(passes)
    return found


def _all() -> Iterator[Pass]:
    of_extras = _of_extras()
    for item in _GENERAL:
        yield item
        for family in families():
            yield from (replace(one, family=family) for one in family.passes.get(item.name, ()))
        yield from of_extras.get(item.name, ())


PASSES: dict[str, Pass] = {item.name: item for item in _all()}
