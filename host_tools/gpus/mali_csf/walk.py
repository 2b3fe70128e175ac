# SPDX-License-Identifier: BSD-2-Clause
"""A command stream, instruction by instruction, on memory that does not change but by the stream itself.

Nothing is dispatched. What only orders others does nothing here: waits for scoreboards, flushes, resources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from host_tools.gpus.mali_csf.instructions import INSTRUCTION_BYTES, REGISTERS, Code
from trace_format.errors import TraceError

WORD, WORD_BITS = 4, 0xFFFFFFFF
MAX_CALLS = 8
MAX_INSTRUCTIONS = 1 << 20  # of a job; PanVK's LeNet has 2,205 in all
A, B, TO, LOW = 0xFF << 40, 0xFF << 32, 0xFF << 48, WORD_BITS
SIGNAL, SYNC, SYNC_WAIT = 0xF << 48, 0xFFFF0007, 0x10000001
# Bits besides the opcode that an instruction may have: vgpu/device/mali_csf_stream.c has the same.
FIELDS: dict[int, int] = {
    Code.NOP: 0,
    Code.MOVE: (1 << 48) - 1 | TO,
    Code.MOVE32: LOW | TO,
    Code.WAIT: 0xFFFF0000,
    Code.RUN_COMPUTE: 0xFFFF | A,
    Code.ADD32: LOW | A | TO,
    Code.ADD64: LOW | A | TO,
    Code.UMIN32: A | B | TO,
    Code.LOAD: LOW | A | TO,
    Code.STORE: LOW | A | TO,
    Code.BRANCH: 0x7000FFFF | A,
    Code.SET_SCOREBOARD: 0xFF,
    Code.CALL: A | B,
    Code.JUMP: A | B,
    Code.RESOURCES: 0xF,
    Code.FLUSH: 0xFFFF0FFF | A | SIGNAL,
    Code.SYNC_ADD32: SYNC | A | B | SIGNAL,
    Code.SYNC_SET32: SYNC | A | B | SIGNAL,
    Code.SYNC_WAIT32: SYNC_WAIT | A | B,
    Code.ERROR_BARRIER: 0,
    Code.HEAP_SET: A,
    Code.SYNC_ADD64: SYNC | A | B | SIGNAL,
    Code.SYNC_SET64: SYNC | A | B | SIGNAL,
    Code.SYNC_WAIT64: SYNC_WAIT | A | B,
}
CONDITIONS: tuple[Callable[[int], bool], ...] = (
    lambda value: value <= 0,
    lambda value: value > 0,
    lambda value: value == 0,
    lambda value: value != 0,
    lambda value: value < 0,
    lambda value: value >= 0,
    lambda value: True,
)


class StreamError(TraceError):
    """A stream that cannot be made straight: job, GPU address, what is wrong, the instruction."""

    def __init__(self, job: int, va: int, what: str, word: int) -> None:
        super().__init__(f"command stream of job {job}, at GPU address {va:#x}: {what} ({word:#018x})")


def signed(value: int, bits: int) -> int:
    """The signed value of a number with `bits` bits."""
    return value - (1 << bits) if value >> bits - 1 & 1 else value


class Walk:
    """What a stream does.

    Args:
        job: its number, for messages.
        memory: the word at a GPU address as the job finds it; None: it is not mapped.
        stored: words that streams have stored, this one included, by GPU address.

    Attributes:
        registers: of the queue.
        instructions: that were run.
        loads: address of a word that memory gave -> where the first load of it is, and that instruction.
        stores: addresses of words that this stream stored.
    """

    def __init__(self, job: int, memory: Callable[[int], int | None], stored: dict[int, int]) -> None:
        self.job, self.memory, self.stored = job, memory, stored
        self.registers = [0] * REGISTERS
        self.instructions = 0
        self.loads: dict[int, tuple[int, int]] = {}
        self.stores: set[int] = set()
        self.at = self.now = 0  # where the instruction at hand is, and it

    def fail(self, what: str) -> StreamError:
        """What is wrong with the instruction at hand."""
        return StreamError(self.job, self.at, what, self.now)

    def word(self, va: int) -> int:
        """A word of memory as it is now; StreamError: it is not mapped, or its address is no multiple of 4."""
        if va % WORD:
            raise self.fail(f"an access to {va:#x}, which is no multiple of {WORD}")
        if va in self.stored:
            return self.stored[va]
        value = self.memory(va)
        if value is None:
            raise self.fail(f"an access to {va:#x}, which is not mapped")
        return value

    def run(self, va: int, size: int, dispatch: Callable[[int, list[int]], None]) -> None:
        """Run a stream of `size` bytes to its end.

        Args:
            va, size: GPU address and bytes.
            dispatch: called with each RUN_COMPUTE and the registers that it finds.

        Raises:
            StreamError: at the first instruction that is not known, or that a straight stream cannot stand for.
        """
        callers: list[tuple[int, int]] = []
        self.at, end = va, va + size
        while True:
            while self.at >= end:
                if not callers:
                    return
                self.at, end = callers.pop()
            self.now = self._fetch()
            self.instructions += 1
            if self.instructions > MAX_INSTRUCTIONS:
                raise self.fail("a stream that does not end")
            code = self._code()
            following = self.at + INSTRUCTION_BYTES
            if code is Code.RUN_COMPUTE:
                dispatch(self.now, self.registers)
            elif code is Code.BRANCH:
                following += INSTRUCTION_BYTES * self._branch()
            elif code in (Code.CALL, Code.JUMP):
                if code is Code.CALL:
                    if len(callers) == MAX_CALLS:
                        raise self.fail(f"calls that are nested deeper than {MAX_CALLS}")
                    callers.append((following, end))
                following = self._pair(self._number(40, 2))
                length = self.registers[self._number(32)]
                if following % INSTRUCTION_BYTES or length % INSTRUCTION_BYTES:
                    raise self.fail("a call of a stream that is no whole number of instructions")
                end = following + length
            else:
                self._step(code)
            self.at = following

    def _fetch(self) -> int:
        self.now = 0
        return self.word(self.at) | self.word(self.at + WORD) << 32

    def _code(self) -> Code:
        number = self.now >> 56
        if number not in FIELDS:
            raise self.fail(f"an instruction of opcode {number}, which is not known")
        if extra := self.now & ~FIELDS[number] & (1 << 56) - 1:
            raise self.fail(f"reserved bits {extra:#x}")
        return Code(number)

    def _number(self, at: int, words: int = 1) -> int:
        """A register by where its number is."""
        number = self.now >> at & 0xFF
        if number + words > REGISTERS or (words == 2 and number % 2):
            raise self.fail(f"register {number}, which is not there or not the first of a pair")
        return number

    def _pair(self, number: int) -> int:
        return self.registers[number] | self.registers[number + 1] << 32

    def _set_pair(self, number: int, value: int) -> None:
        self.registers[number], self.registers[number + 1] = value & WORD_BITS, value >> 32 & WORD_BITS

    def _branch(self) -> int:
        value = signed(self.registers[self._number(40)], 32)
        condition = self.now >> 28 & 7
        if condition == len(CONDITIONS):
            raise self.fail("a branch with a condition that is not known")
        return signed(self.now & 0xFFFF, 16) if CONDITIONS[condition](value) else 0

    def _step(self, code: Code) -> None:
        match code:
            case Code.MOVE:
                self._set_pair(self._number(48, 2), self.now & (1 << 48) - 1)
            case Code.MOVE32:
                self.registers[self._number(48)] = self.now & WORD_BITS
            case Code.ADD32:
                to, value = self._number(48), self.registers[self._number(40)]
                self.registers[to] = value + self.now & WORD_BITS
            case Code.ADD64:
                to, value = self._number(48, 2), self._pair(self._number(40, 2))
                self._set_pair(to, value + signed(self.now & WORD_BITS, 32))
            case Code.UMIN32:
                to, one, other = (self._number(at) for at in (48, 40, 32))
                self.registers[to] = min(self.registers[one], self.registers[other])
            case Code.LOAD | Code.STORE:
                self._move_words(code)
            case Code.SYNC_ADD32 | Code.SYNC_SET32 | Code.SYNC_ADD64 | Code.SYNC_SET64:
                self._signal(code)
            case Code.SYNC_WAIT32 | Code.SYNC_WAIT64:
                self._wait(code)
            case Code.HEAP_SET:
                self._number(40, 2)

    def _load(self, va: int) -> int:
        if va not in self.stored:
            self.loads.setdefault(va, (self.at, self.now))
        return self.word(va)

    def _store(self, va: int, value: int) -> None:
        self.word(va)  # it must be mapped
        self.stored[va] = value
        self.stores.add(va)

    def _words(self) -> Iterator[int]:
        """Numbers of the registers that a load or store moves, counted from its first."""
        return (number for number in range(16) if self.now >> 16 + number & 1)

    def _move_words(self, code: Code) -> None:
        va = self._pair(self._number(40, 2)) + signed(self.now & 0xFFFF, 16)
        first = self._first()
        for number in self._words():
            if code is Code.LOAD:
                self.registers[first + number] = self._load(va + WORD * number)
            else:
                self._store(va + WORD * number, self.registers[first + number])

    def _first(self) -> int:
        """The first register of a load or store; all that are moved must be there."""
        first = self._number(48)
        if first + max(self._words(), default=0) >= REGISTERS:
            raise self.fail(f"registers from {first} on, of which some are not there")
        return first

    def _operands(self, wide: bool) -> tuple[int, int]:
        """Address and number of a synchronisation."""
        number = self._number(32, 1 + wide)
        return self._pair(self._number(40, 2)), self._pair(number) if wide else self.registers[number]

    def _value(self, va: int, wide: bool) -> int:
        return self._load(va) | (self._load(va + WORD) << 32 if wide else 0)

    def _signal(self, code: Code) -> None:
        wide = code in (Code.SYNC_ADD64, Code.SYNC_SET64)
        va, value = self._operands(wide)
        if code in (Code.SYNC_ADD32, Code.SYNC_ADD64):
            value += self._value(va, wide)
        self._store(va, value & WORD_BITS)
        if wide:
            self._store(va + WORD, value >> 32 & WORD_BITS)

    def _wait(self, code: Code) -> None:
        wide = code is Code.SYNC_WAIT64
        va, limit = self._operands(wide)
        value = self._value(va, wide)
        if (value <= limit) if self.now >> 28 & 1 else (value > limit):
            raise self.fail(f"a wait that would block: the word at {va:#x} is {value}, the limit {limit}")
