# SPDX-License-Identifier: BSD-2-Clause
"""The virtual GPUs' register tables say what the profiles say, for every register: access, bits, reset values."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from host_tools.vgpu import VgpuError, VirtualGpu
from tests.support import vgpu_model
from tests.support.vgpu_model import PM, RPIVID
from trace_format.emit.register_map import MAPS
from trace_format.profile import Profile, load
from trace_format.registers import ALL_BITS, Register

SAMPLE = 100  # of the words that lie far from any register


@functools.cache
def library() -> Path:
    """The virtual GPU; finding it takes longer than an access."""
    return vgpu_model.library()


@dataclass(frozen=True)
class Model:
    """A virtual GPU, and its profile; `powered`: of a board, and the writes that switch it on."""

    gpu: str
    profile: Profile
    powered: tuple[tuple[int, int], ...] | None = None

    @property
    def registers(self) -> dict[int, Register]:
        """Those that lie in its window, by offset."""
        every = (*self.profile.registers.values(), *self.profile.others)
        return {r.offset: r for r in every if r.offset < self.window_bytes}

    @property
    def window_bytes(self) -> int:
        with VirtualGpu(self.gpu, library=library()) as gpu:
            return gpu.window_bytes

    def access(self, offset: int, value: int | None = None) -> int | str:
        """What a read of a new virtual GPU gives, or 0 for a write; its error when it stops."""
        with VirtualGpu(self.gpu, library=library()) as gpu:
            for at, word in self.powered or ():
                gpu.write32(at, word)
            try:
                if value is None:
                    return gpu.read32(offset)
                gpu.write32(offset, value)
            except VgpuError as error:
                return str(error)
            return 0


SWITCHED_ON = ((PM + 0x10C, 0x5A000040), (RPIVID + 0xC, 0x5A000000), (RPIVID + 0x8, 0x5A000000))
MODELS = [
    Model("v3d42", load("v3d42")),
    Model("v3d42-pi4", load("v3d42"), SWITCHED_ON),
    Model("v3d71", load("v3d71")),
    Model("v3d71-pi5", load("v3d71"), ()),
    Model("mali_g71", load("mali_g71")),
    Model("mali_g71-arch60", load("mali_g71")),
    Model("mali_g72", load("mali_g72")),
    Model("mali_g52r1", load("mali_g52r1")),
    Model("mali_g31", load("mali_g31")),
    Model("mali_g610", load("mali_g610")),
]
each_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.gpu)


def words(model: Model) -> Iterator[int]:
    """Offsets of all words next to registers, and of some of the others; on a board only those of its blocks."""
    window = range(0 if model.powered is None else model.profile.window_bytes, model.window_bytes, 4)
    near = {at for r in model.registers for at in range(r - 8, r + 12, 4) if at in window}
    yield from sorted(near)
    yield from random.Random(1).sample(sorted(set(window) - near), SAMPLE)


def printed(register: Register) -> str:
    """Its name in messages: a repeated block has no number there."""
    return re.escape(re.sub(r"^(js|as|doorbell)\d+\.", r"\1.", register.name))


@each_model
def test_every_access_is_the_profiles(model: Model) -> None:
    registers = model.registers
    for offset in words(model):
        register = registers.get(offset)
        for value, allowed, refusal in (
            (None, register and register.readable, "the register is write-only"),
            (0, register and register.writable, "the register is read-only"),
        ):
            if register is None:
                expected = "unknown register"
            elif not register.modelled:
                expected = (
                    rf"{printed(register)}\): (the register|the texture formatting unit \(TFU\)) is not modelled"
                )
            elif not allowed:
                expected = rf"{printed(register)}\): {refusal}"
            else:
                expected = ""
            found = model.access(offset, value)
            if expected:
                assert isinstance(found, str), f"{offset:#x}: {expected}"
                assert re.search(expected, found)
            elif isinstance(found, str):  # a value of 0 may be one that makes no sense, but may be written
                assert value == 0
                assert "register is" not in found
                assert "bits 0x" not in found


@each_model
def test_every_bit_is_the_profiles(model: Model) -> None:
    """Each bit that the profile does not have, or has and the model lacks, is refused by name; no other is."""
    here = set(words(model))
    for register in model.registers.values():
        if not (register.writable and register.modelled and register.offset in here):
            continue
        assert register.model_bits & ~(register.bits | register.busy) == 0
        for bit in (1 << i for i in range(32)):
            found = model.access(register.offset, bit)
            refused = isinstance(found, str) and f"reserved or not modelled bits {bit:#010x}" in found
            assert refused == (not register.model_bits & bit), f"{register.name}, bit {bit:#x}: {found}"


@each_model
def test_every_reset_value_is_the_profiles(model: Model) -> None:
    """But for what switching it on has changed, and the identity that the second Mali exists for."""
    found = {
        r.name: (model.access(r.offset), r.reset) for r in model.registers.values() if r.readable and r.modelled
    }
    different = {name for name, (value, reset) in found.items() if value != reset}
    switched = {"pm.GRAFX", "rpivid_asb.V3D_S_CTRL", "rpivid_asb.V3D_M_CTRL"}
    assert different == (
        switched if model.powered else {"gpu.GPU_ID"} if model.gpu == "mali_g71-arch60" else set()
    )


def test_reset_values_of_power() -> None:
    model = Model("v3d42-pi4", load("v3d42"))
    for register in model.registers.values():
        if register.offset >= model.profile.window_bytes:
            assert model.access(register.offset) == register.reset, register.name


@each_model
def test_the_window(model: Model) -> None:
    blocks = [b for b in model.profile.blocks.values() if not b.board or model.powered is not None]
    assert model.window_bytes == max(
        model.profile.window_bytes, *(b.base + b.bytes * b.count for b in blocks if b.board), 0
    )
    found = model.access(model.window_bytes)
    assert isinstance(found, str)
    assert "not a register" in found


def test_every_gpu_with_a_map_is_here() -> None:
    assert {model.profile.name for model in MODELS} == set(MAPS)


@pytest.mark.parametrize("name", MAPS)
def test_bits_that_have_names_exist(name: str) -> None:
    profile = load(name)
    for register, names in profile.bit_names.items():
        assert all(0 < mask <= ALL_BITS for mask in names.values()), register
