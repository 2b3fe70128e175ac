# SPDX-License-Identifier: BSD-2-Clause
"""What a family says to those who make networks faster: by cut jobs, by the CPU beside the GPU, by a search."""

from __future__ import annotations

from dataclasses import dataclass

from host_tools.families.cutting import Cutting
from host_tools.families.family import part_of
from host_tools.families.kernel_costs import KernelCosts
from trace_format.profile import Profile


@dataclass(frozen=True)
class Speed:
    """What the module `speed` of a family's folder has as SPEED.

    Attributes:
        cutting: how one compute job becomes several; text: why none does.
        kernel_costs: by what a search for faster kernels orders what it tries; None: it is not possible.
        loads_vectors: kernels that are compiled here load and store vectors, since its driver does not join loads
            of what lies side by side.
    """

    cutting: Cutting | str = "nothing is known of cutting jobs of its GPU"
    kernel_costs: KernelCosts | None = None
    loads_vectors: bool = False


def speed_of(gpu: Profile | str) -> Speed:
    """What the family of a GPU says; what nobody can, if it says nothing."""
    return part_of(gpu, Speed) or Speed()
