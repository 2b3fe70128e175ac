# SPDX-License-Identifier: BSD-2-Clause
"""Faults: what can happen to one instruction, and which instructions of a run it happens to.

An instruction is named by its number in the run, so the same address counts as often as it is executed.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import capstone
import numpy as np
import numpy.typing as npt

from tests.campaign.device import Place

# As struct fault of campaign.c.
_ONE = (("number", "<u8"), ("kind", "<u4"), ("operand", "<u4"))
FAULT = np.dtype([*_ONE, *((f"second_{name}", type_) for name, type_ in _ONE)])  # second_number 0: there is none


class Do(IntEnum):
    """enum kind of campaign.c."""

    SKIP = 0
    EXCHANGE = 1
    ZERO = 2
    ONES = 3
    FLIP = 4
    STAY = 5
    CONSTANT = 6


ENCODING_BITS = 32
NOP = 0xD503201F
VERIFY, SIGNING = "gr_signature_verify", ("gr_public_key", "gr_sign")  # of the crypto seam
_HALF = 1 << 16  # operand of a register's fault: only 32 bits of it are used
_LR, _SP = 30, 31


def _registers(word: int, decoder: Any) -> list[int]:
    """Operands that name the general registers an instruction writes, the flags aside."""
    for instruction in decoder.disasm(word.to_bytes(4, "little"), 0):
        found = []
        for register in instruction.regs_access()[1]:
            name = instruction.reg_name(register)
            match = re.fullmatch(r"([wx])(\d+)", name)
            if match:
                found.append(int(match[2]) | (_HALF if match[1] == "w" else 0))
            elif name in ("lr", "fp", "sp"):
                found.append({"fp": 29, "lr": _LR, "sp": _SP}[name])
        return sorted(set(found))
    return []


def inversion(word: int) -> int:
    """Bits of a conditional branch's encoding that invert it; 0: it is none (Arm DDI 0487, C4.1)."""
    if word & 0xFF000010 == 0x54000000:
        return 1  # b.cond
    return 1 << 24 if word & 0x7C000000 == 0x34000000 else 0  # cbz, cbnz, tbz, tbnz


def _bits(operand: int) -> int:
    """How many of a register are used."""
    return 32 if operand & _HALF else 64


def _one_bit(number: int, operand: int) -> int:
    """A register's bit that changes with the instruction's number: odd factors visit them all."""
    return operand | (number * 37 + 11) % _bits(operand) << 8


def _every_bit(word: int) -> list[int]:
    """Each bit of each register that is written."""
    return [operand | bit << 8 for operand in _written(word) for bit in range(_bits(operand))]


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes:
        name: for the command line and tables.
        do: what campaign.c does.
        operands: operands for an instruction by its encoding; empty: it cannot have this fault.
        vary: the operand for an instruction by its number in the run.
        of_all_bits: it is many faults at each instruction, tried on our own code.
        stays: the instruction stays changed, so its first execution stands for all.
    """

    name: str
    do: Do
    operands: Callable[[int], list[int]]
    vary: Callable[[int, int], int] = lambda _number, operand: operand
    of_all_bits: bool = False
    stays: bool = False


def _decoded() -> Callable[[int], list[int]]:
    decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
    decoder.detail = True
    return lambda word: _registers(word, decoder)


_written = _decoded()
KINDS = (
    Kind("skip", Do.SKIP, lambda _: [1]),
    Kind("double skip", Do.SKIP, lambda _: [2]),
    Kind("inverted branch", Do.EXCHANGE, lambda word: [inversion(word)] if inversion(word) else []),
    Kind("register 0", Do.ZERO, _written),
    Kind("register ones", Do.ONES, _written),
    Kind("register bit", Do.FLIP, _written, _one_bit),
    Kind("encoding bit", Do.EXCHANGE, lambda _: [1], lambda number, _: 1 << (number * 13 + 5) % ENCODING_BITS),
    Kind("each register bit", Do.FLIP, _every_bit, of_all_bits=True),
    Kind("each encoding bit", Do.EXCHANGE, lambda _: [1 << bit for bit in range(ENCODING_BITS)], of_all_bits=True),
    Kind("same skip", Do.STAY, lambda word: [word ^ NOP] if word != NOP else [], stays=True),
    Kind("stuck bit", Do.STAY, lambda _: [1 << bit for bit in range(ENCODING_BITS)], stays=True),
    Kind("stuck constant", Do.CONSTANT, lambda _: [1 << bit for bit in range(ENCODING_BITS)], stays=True),
)


@dataclass(frozen=True)
class Run:
    """A run without a fault.

    Attributes:
        addresses: of the instructions, each once.
        words: the instructions there.
        places: what they were compiled from.
        index: of each instruction executed, in the three above.
        is_ours: whether each instruction executed is our code, and not a library's.
        constants: addresses of the words of code that it reads as data.
    """

    addresses: npt.NDArray[np.uint32]
    words: list[int]
    places: list[Place]
    index: npt.NDArray[np.uint32]
    is_ours: npt.NDArray[np.bool_]
    constants: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        """Instructions executed."""
        return len(self.index)

    def parts_of(self, function: str) -> list[tuple[int, int]]:
        """The library's parts that begin in this function: number of the first instruction, and how many."""
        edges = np.flatnonzero(np.diff(np.concatenate(([1], self.is_ours.astype(np.int8), [1]))))
        starts, ends = edges[::2].tolist(), edges[1::2].tolist()
        return [
            (start, end - start)
            for start, end in zip(starts, ends, strict=True)
            if self.places[self.index[start]].function == function
        ]

    @functools.cached_property
    def verification(self) -> int:
        """Number of the first instruction of the crypto seam's verification."""
        parts = self.parts_of(VERIFY)
        if not parts:
            raise ValueError(f"the run does not reach {VERIFY}")
        return parts[0][0]

    @property
    def meetings(self) -> list[int]:
        """Addresses before long parts of a run, which need not be executed in a state that was seen before."""
        numbers = [parts[0][0] for parts in map(self.parts_of, (VERIFY, *SIGNING)) if parts]
        return [int(self.addresses[self.index[number]]) for number in numbers]

    def first_of(self, addresses: Collection[int]) -> dict[int, int]:
        """Of those of these addresses that are executed, the number of the first execution."""
        at, numbers = np.unique(self.index, return_index=True)
        found = zip(self.addresses[at].tolist(), numbers.tolist(), strict=True)
        return {address: number for address, number in found if address in addresses}

    def where(self, plan: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Addresses of what faults change."""
        executed = self.addresses[self.index[plan["number"].astype(np.int64)]]
        found: npt.NDArray[np.int64] = np.where(
            plan["kind"] == Do.CONSTANT, plan["second_number"], executed
        ).astype(np.int64)
        return found

    def able(self, kind: Kind) -> npt.NDArray[np.bool_]:
        """For each instruction executed, whether it can have a fault."""
        able = np.array([bool(kind.operands(word)) for word in self.words])
        found: npt.NDArray[np.bool_] = able[self.index]
        return found

    def plan(self, kind: Kind, numbers: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """The faults of these instructions, all operands of each."""
        rows = []
        for number, at in zip(numbers.tolist(), self.index[numbers].tolist(), strict=True):
            for operand in kind.operands(self.words[at]):
                rows.append((number, kind.do, kind.vary(number, operand), 0, 0, 0))
        return np.array(rows, FAULT)

    def plan_constants(self, most: int) -> npt.NDArray[Any]:
        """Each bit of `most` constants, evenly spread: flipped from the start; the second number says where."""
        mine = self.constants[
            np.linspace(0, len(self.constants) - 1, min(most, len(self.constants))).astype(np.int64)
        ]
        rows = [(0, Do.CONSTANT, 1 << bit, at, 0, 0) for at in mine.tolist() for bit in range(ENCODING_BITS)]
        return np.array(rows, FAULT)

    def pairs(self, numbers: npt.NDArray[np.int64], count: int, seed: int) -> npt.NDArray[Any]:
        """Pairs of faults at random: two different instructions of those, each with a kind that it can have.

        Kinds that are many faults at each instruction, and those that stay, are left out.
        """
        draw = random.Random(seed)
        candidates = numbers.tolist()
        rows = []
        for _ in range(count):
            row: list[int] = []
            for number in sorted(draw.sample(candidates, 2)):
                word = self.words[int(self.index[number])]
                kind = draw.choice(
                    [kind for kind in KINDS if not kind.of_all_bits | kind.stays and kind.operands(word)]
                )
                row += [number, kind.do, kind.vary(draw.getrandbits(16), draw.choice(kind.operands(word)))]
            rows.append(tuple(row))
        return np.array(rows, FAULT)
