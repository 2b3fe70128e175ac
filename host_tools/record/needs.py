# SPDX-License-Identifier: BSD-2-Clause
"""Programs that a recording needs besides Python. All that are missing are named at once, before it begins."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from host_tools.machine.errors import RecordError

HEADER = Path("/usr/include/vulkan/vulkan.h")
DRIVERS = Path("/usr/share/vulkan/icd.d")


@dataclass(frozen=True)
class Need:
    """Something of a package of Debian's.

    Attributes:
        name: for messages.
        package: that has it.
        is_there: whether this machine has it.
    """

    name: str
    package: str
    is_there: Callable[[], object]


def lavapipe() -> Path | None:
    """The file that announces Mesa's Vulkan driver for this machine's CPU; None: there is none."""
    return next(DRIVERS.glob("lvp_icd*.json"), None)


def _program(name: str, package: str) -> Need:
    return Need(name, package, lambda: shutil.which(name))


GLSLANG = _program("glslangValidator", "glslang-tools")
GCC = _program("gcc", "gcc")
GUEST_GCC = _program("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")
VULKAN = Need("vulkan/vulkan.h", "libvulkan-dev", HEADER.exists)
LAVAPIPE = Need("lavapipe", "mesa-vulkan-drivers", lavapipe)
QEMU = _program("qemu-system-aarch64", "qemu-system-arm")
BY_NCNN = (QEMU, GCC)
BY_COMPILER = (GLSLANG, LAVAPIPE, VULKAN, GUEST_GCC, *BY_NCNN)


def missing(needs: Iterable[Need]) -> list[Need]:
    """Those that this machine does not have."""
    return [need for need in dict.fromkeys(needs) if not need.is_there()]


def told(needs: Iterable[Need]) -> str:
    """That these are missing, and how to get them."""
    lacking = list(needs)
    names, packages = ", ".join(need.name for need in lacking), " ".join(need.package for need in lacking)
    return f"{names} {'is' if len(lacking) == 1 else 'are'} missing; as root: apt-get install {packages}"


def require(*needs: Need) -> None:
    """Raise RecordError where some are missing; it names all of them."""
    if lacking := missing(needs):
        raise RecordError(told(lacking))
