# SPDX-License-Identifier: BSD-2-Clause
"""Passes: each a named change of a program that keeps outputs and GPU-visible memory as they are, and the order in
which `gramophone build` runs them.

Not in here: passes for the GPUs of one family (`gpus/FAMILY`), the model of memory that they edit (`model`), what
jobs access (`accesses`).

Read first: registry.py
"""

from host_tools.families.family import families
from host_tools.gpus.mali import preparation
from host_tools.passes import list_passes, memory_passes, mmu_passes, register_passes
from host_tools.passes.registry import Pass, family_pass

# In the order in which `gramophone build` runs them.
PASSES: dict[str, Pass] = {
    item.name: item
    for item in (
        memory_passes.make_parameters_constant,
        register_passes.mask_volatile_bits,
        register_passes.fold_polls,
        register_passes.trim_intervals,
        register_passes.fold_interrupts,
        list_passes.drop_lists,
        *(family_pass(family, name) for family in families() for name in family.passes),
        mmu_passes.map_once,
        register_passes.drop_repeated_cache_maintenance,
        memory_passes.map_read_only,
        memory_passes.drop_dead_memory,
        preparation.prepare_once,
        memory_passes.drop_recorded_inputs,
        memory_passes.share_duplicate_pages,
        memory_passes.plan_memory,
        memory_passes.relocate,
        memory_passes.trim_address_space,
    )
}

__all__ = ["PASSES", "Pass"]
