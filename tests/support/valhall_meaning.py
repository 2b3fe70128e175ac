# SPDX-License-Identifier: BSD-2-Clause
"""What Valhall's instructions do, in NumPy: written from the meaning that Mesa 25.0.7 gives them
(src/panfrost/compiler/valhall: ISA.xml, va_lower_isel.c; ../bifrost_compile.c), not from the interpreter.

Numbers, roundings and functions are as in bifrost_meaning.py and those beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.gpus.mali.valhall import MODIFIERS, NUMBERS, Instruction, Source, instruction
from host_tools.gpus.mali.valhall_values import CONSTANTS, VALUES
from tests.support.bifrost_conversions import nearest, parts, power_of_two, sine, slope, to_half, to_integer
from tests.support.bifrost_halves import both, finished, fused, limited
from tests.support.bifrost_integers import bits_of, from_bits, wide
from tests.support.bifrost_meaning import COMPARE, Words, clamped, exactly, f32, floats, largest, truth, words
from tests.support.bifrost_narrow import packed

CONDITIONS = VALUES["condition"][:6]
Ints = list[NDArray[np.int64]]


class Operands:
    """An instruction and its sources, of which r0 to r3 are given."""

    def __init__(self, word: int, registers: NDArray[np.uint32]) -> None:
        row = instruction(word)
        assert row is not None
        self.row: Instruction = row
        self.word = word
        self.registers = registers

    def field(self, name: str) -> int:
        """The value of a modifier, or of a number by its name with #."""
        return (NUMBERS[name] if name.startswith("#") else MODIFIERS[name]).of(self.word)

    def text(self, name: str) -> str:
        return VALUES[name][self.field(name)]

    def raw(self, number: int) -> Words:
        """A source's word."""
        code = self.word >> 8 * number & 0xFF
        if code >= 0xC0:
            return np.full(len(self.registers), CONSTANTS[code & 31], np.uint32)
        return self.registers[:, code & 63].copy()

    def pair(self, number: int) -> NDArray[np.uint64]:
        code = self.word >> 8 * number & 0xFF
        return wide(self.registers[:, code], self.registers[:, code + 1])

    def part(self, number: int) -> str:
        field = self.row.sources[number].part
        return VALUES[field.name][field.of(self.word)] if field else ""

    def _signed(self, number: int, x: NDArray[Any]) -> NDArray[Any]:
        source: Source = self.row.sources[number]
        if source.absolute >= 0 and self.word >> source.absolute & 1:
            x = np.abs(x)
        return -x if source.negate >= 0 and self.word >> source.negate & 1 else x

    def float(self, number: int) -> NDArray[np.float32]:
        x, part = self.raw(number), self.part(number)
        wide_ = halves_of(x)[int(part[1])].astype(np.float32) if part else f32(x)
        return self._signed(number, wide_)

    def half(self, number: int) -> list[NDArray[np.float64]]:
        """Two numbers."""
        x = halves_of(self.raw(number))
        places = self.part(number) or "h01"
        return [self._signed(number, x[int(place)]).astype(np.float64) for place in places[1:]]

    def ints(self, number: int, bits: int, signed: bool = False) -> Ints:
        """The elements of `bits` bits; parts of words are extended."""
        x, part = self.raw(number), self.part(number)
        if bits == 32 and part:
            return elements(x, 16 if part[0] == "h" else 8, part[1:], signed)
        if not part:
            return elements(x, bits, "0123"[: 32 // bits], signed)
        return elements(x, 16 if part[0] == "h" else 8, part[1:], signed)


def halves_of(x: Words) -> list[NDArray[np.float16]]:
    return [x.view(np.float16)[high::2] for high in (0, 1)]


def elements(x: Words, bits: int, places: str, signed: bool) -> Ints:
    kind = np.dtype(f"{'i' if signed else 'u'}{bits // 8}")
    parts_ = x.view(kind).reshape(-1, 32 // bits)
    return [parts_[:, int(place)].astype(np.int64) for place in places]


def joined(found: list[Any]) -> Words:
    bits = 32 // len(found)
    return words(found[0]) if bits == 32 else packed(found, bits)


# ---- by kind ----


def per_int(bits: int, signed: bool, f: Callable[..., Any], count: int = 2) -> Callable[[Operands], Words]:
    return lambda o: joined([f(o, *x) for x in zip(*(o.ints(i, bits, signed) for i in range(count)), strict=True)])


def saturated(bits: int, signed: bool, f: Callable[[Any, Any], Any]) -> Callable[[Operands], Words]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return per_int(bits, signed, lambda o, x, y: np.clip(f(x, y), low, high) if o.field("saturate") else f(x, y))


def float_of(f: Callable[..., Any], count: int) -> Callable[[Operands], Words]:
    return lambda o: floats(clamped(f32(f(*(o.float(i) for i in range(count)))), o.field("clamp")))


def halves_by(f: Callable[..., Any], count: int) -> Callable[[Operands], Words]:
    """An exact result of two elements, rounded and clamped."""
    return lambda o: both(lambda e: finished(f(*(o.half(i)[e] for i in range(count))), 0, o.field("clamp")))


def add32(x: NDArray[np.float32], y: NDArray[np.float32]) -> Words:
    return floats(x + y)


def shift(bits: int, left: bool, logic: Callable[[Any, Any], Any]) -> Callable[[Operands], Words]:
    def result(o: Operands) -> Words:
        number = int(o.part(1)[1])
        signed = not left and bool(o.field("signed"))
        amount = elements(o.raw(1), 8, str(number), False)[0] & (bits - 1)
        moved = [x << amount if left else x >> amount for x in o.ints(0, bits, signed)]
        other = o.raw(2)
        if o.word >> 35 & 1:
            other = ~other
        found: Words = logic(joined(moved), other)
        return ~found if o.field("not_result") else found

    return result


def true_of(o: Operands, bits: int) -> int:
    one = {32: 0x3F800000, 16: 0x3C00}.get(bits, 0)
    return {"i1": 1, "f1": one, "m1": (1 << bits) - 1}[o.text("result")]


def compared(bits: int, signed: bool, and_: bool) -> Callable[[Operands], Words]:
    def result(o: Operands) -> Words:
        holds = COMPARE[o.text("condition")]
        pairs = zip(o.ints(0, bits, signed), o.ints(1, bits, signed), strict=True)
        found = joined([truth(holds(x, y), true_of(o, bits)) for x, y in pairs])
        return found & o.raw(2) if and_ else found | o.raw(2)

    return result


def compared_floats(bits: int, and_: bool) -> Callable[[Operands], Words]:
    def result(o: Operands) -> Words:
        holds = COMPARE[o.text("condition")]
        operands = [[o.float(i)] if bits == 32 else o.half(i) for i in (0, 1)]
        found = joined([truth(holds(x, y), true_of(o, bits)) for x, y in zip(*operands, strict=True)])
        return found & o.raw(2) if and_ else found | o.raw(2)

    return result


def compared_pairs(signed: bool) -> Callable[[Operands], Words]:
    """Words of 64 bits in two steps: of the low words, then of the high words and what the low ones gave."""

    def result(o: Operands) -> Words:
        name = o.text("condition")
        if o.text("result") == "u1":
            return truth(COMPARE[name](*(o.ints(i, 32, signed)[0] & 0xFFFFFFFF for i in (0, 1))), 1)
        x, y = (o.ints(i, 32, signed)[0] for i in (0, 1))
        below = (o.raw(2) & np.uint32(1)).astype(bool)
        return truth(np.where(x != y, COMPARE[name](x, y), below), true_of(o, 32))

    return result


def chosen(kind: str, bits: int, signed: bool = False) -> Callable[[Operands], Words]:
    def result(o: Operands) -> Words:
        if kind == "float":
            first, second = ([f32(o.raw(i))] if bits == 32 else list(halves_of(o.raw(i))) for i in (0, 1))
        else:
            first, second = (o.ints(i, bits, signed) for i in (0, 1))  # type: ignore[assignment]
        c, d = (elements(o.raw(i), bits, "01"[: 32 // bits], False) for i in (2, 3))
        holds = COMPARE[o.text("condition")]
        return joined([np.where(holds(x, y), *z) for x, y, *z in zip(first, second, c, d, strict=True)])

    return result


def muxed(bits: int) -> Callable[[Operands], Words]:
    def result(o: Operands) -> Words:
        found = []
        for x, y, z in zip(*(o.ints(i, bits) for i in range(3)), strict=True):
            top, magnitude = z >> bits - 1 & 1, z & (1 << bits - 1) - 1
            by = {"neg": top != 0, "": z != 0, "fp_zero": magnitude != 0}
            how = o.text("mux")
            found.append((x & z) | (y & ~z) if how == "bit" else np.where(by[how], y, x))
        return joined(found)

    return result


def pair_sum(f: Callable[[Any, Any], Any], signed: bool) -> Callable[[Operands], Words]:
    """uint32 (n, 2)."""

    def result(o: Operands) -> Words:
        part = o.part(1)
        if part == "":
            other = o.pair(1)
        else:
            x = [o.raw(1).view(np.int32 if signed else np.uint32).astype(np.int64)]
            other = (x if part == "w0" else o.ints(1, 32, signed))[0].astype(np.uint64)
        shift_ = np.uint64(o.field("#shift") if "SHADDX" in o.row.name else 0)
        total = f(o.pair(0), other << shift_)
        return np.stack([(total & np.uint64(0xFFFFFFFF)), total >> np.uint64(32)], 1).astype(np.uint32)

    return result


def integer_of(o: Operands, bits: int, signed: bool) -> NDArray[np.int64]:
    """The one byte or half that a conversion takes."""
    part = o.part(0) or "h01"
    return elements(o.raw(0), bits, part[1], signed)[0]


def exchanged(o: Operands) -> Words:
    size = int((o.text("subgroup") or "subgroup16")[8:])
    lane = np.arange(len(o.registers)) % 16
    wanted = elements(o.raw(1), 8, o.part(1)[1], False)[0]
    number = lane ^ wanted if o.text("lane_op") == "xor" else wanted
    return o.raw(0)[np.arange(len(lane)) - lane % size + number % size]


def masked(o: Operands) -> Words:
    size = int((o.text("subgroup") or "subgroup16")[8:])
    holds = (o.raw(0) != 0).reshape(-1, size)
    return np.repeat((holds << np.arange(size)).sum(1), size).astype(np.uint32)


def rscale(zero: bool) -> Callable[[Operands], Words]:
    return lambda o: floats(
        clamped(f32(exactly(o.float(0), o.float(1), o.float(2), 0, o.raw(3), zero)), o.field("clamp"))
    )


def frexp(which: int) -> Callable[[Operands], Words]:
    def result(o: Operands) -> Words:
        found = parts(o.float(0), "log" if o.field("log") else "sqrt" if o.field("sqrt") else "")[which]
        return words(found) if which else floats(found)

    return result


def fma16(x: Any, y: Any, z: Any) -> Any:
    return fused(x, y, z, 0)


def extreme16(smallest: bool) -> Callable[[Operands], Words]:
    return lambda o: both(
        lambda e: to_half(
            f32(largest(o.half(0)[e].astype(np.float32), o.half(1)[e].astype(np.float32), 0, smallest)), 0
        )
    )


def _zeros(x: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    return np.array([bits - int(one).bit_length() for one in x])


MEANINGS: dict[str, Callable[[Operands], Words]] = {
    "MOV.i32": lambda o: o.raw(0),
    "BITREV.i32": lambda o: from_bits(bits_of(o.raw(0))[:, ::-1]),
    "POPCOUNT.i32": lambda o: words(bits_of(o.raw(0)).sum(1)),
    "CLPER.i32": exchanged,
    "WMASK": masked,
    "F32_TO_S32": lambda o: to_integer(o.float(0).view(np.uint32), o.field("round"), True),
    "F32_TO_U32": lambda o: to_integer(o.float(0).view(np.uint32), o.field("round"), False),
    "F16_TO_S32": lambda o: to_integer(o.half(0)[0].astype(np.float32).view(np.uint32), o.field("round"), True),
    "F16_TO_U32": lambda o: to_integer(o.half(0)[0].astype(np.float32).view(np.uint32), o.field("round"), False),
    "F16_TO_F32": lambda o: floats(o.float(0)),
    "S32_TO_F32": lambda o: floats(o.ints(0, 32, True)[0].astype(np.float32)),
    "U32_TO_F32": lambda o: floats(o.ints(0, 32)[0].astype(np.float32)),
    "V2F16_TO_V2S16": lambda o: both(
        lambda e: limited(nearest(o.half(0)[e], o.field("round")), -(2**15), 2**15 - 1)
    ),
    "V2F16_TO_V2U16": lambda o: both(lambda e: limited(nearest(o.half(0)[e], o.field("round")), 0, 2**16 - 1)),
    "V2S16_TO_V2F16": lambda o: both(
        lambda e: to_half(o.ints(0, 16, True)[e].astype(np.float64), o.field("round"))
    ),
    "V2U16_TO_V2F16": lambda o: both(lambda e: to_half(o.ints(0, 16)[e].astype(np.float64), o.field("round"))),
    "FROUND.f32": lambda o: floats(nearest(o.float(0), o.field("round"))),
    "FROUND.v2f16": lambda o: both(lambda e: to_half(nearest(o.half(0)[e], o.field("round")), 0)),
    "FREXPM.f32": frexp(0),
    "FREXPE.f32": frexp(1),
    "FRCP.f32": lambda o: floats(1 / o.float(0).astype(np.float64)),
    "FRSQ.f32": lambda o: floats(1 / np.sqrt(o.float(0).astype(np.float64))),
    "FRCP.f16": lambda o: to_half(1 / o.half(0)[0], 0),
    "FRSQ.f16": lambda o: to_half(1 / np.sqrt(o.half(0)[0]), 0),
    "FLOGD.f32": lambda o: slope(o.float(0)),
    "FSIN_TABLE.u6": lambda o: sine(o.raw(0)),
    "FCOS_TABLE.u6": lambda o: sine(o.raw(0) + np.uint32(16)),
    "FEXP.f32": lambda o: floats(
        clamped(f32(power_of_two(o.raw(0).view(np.int32), o.float(1))), o.field("clamp"))
    ),
    "FADD_LSCALE.f32": float_of(lambda x, y: floats(x + f32(floats(parts(y, "log")[0]))), 2),
    "FADD.f32": float_of(add32, 2),
    "FMA.f32": float_of(exactly, 3),
    "FMIN.f32": float_of(lambda x, y: largest(x, y, 0, True), 2),
    "FMAX.f32": float_of(lambda x, y: largest(x, y, 0, False), 2),
    "FADD.v2f16": halves_by(np.add, 2),
    "FMA.v2f16": halves_by(fma16, 3),
    "FMIN.v2f16": extreme16(True),
    "FMAX.v2f16": extreme16(False),
    "FMA_RSCALE.f32": rscale(False),
    "FMA_RSCALE_N.f32": rscale(True),
    "FMA_RSCALE_LEFT.f32": rscale(True),
    "V2F32_TO_V2F16": lambda o: both(lambda e: to_half(o.float(e).astype(np.float64), o.field("round"))),
    "LDEXP.f32": lambda o: exactly(
        o.float(0),
        np.ones(len(o.registers), np.float32),
        np.full(len(o.registers), -0.0, np.float32),
        o.field("round"),
        o.raw(1),
    ),
    "LDEXP.v2f16": lambda o: both(
        lambda e: to_half(
            np.ldexp(o.half(0)[e], np.clip(elements(o.raw(1), 16, str(e), True)[0], -100, 100)), o.field("round")
        )
    ),
    "FADD_IMM.f32": lambda o: floats(
        f32(o.raw(0)) + np.full(len(o.registers), o.field("#constant"), np.uint32).view(np.float32)
    ),
    "FADD_IMM.v2f16": lambda o: both(
        lambda e: finished(
            halves_of(o.raw(0))[e].astype(np.float64)
            + halves_of(np.full(len(o.registers), o.field("#constant"), np.uint32))[e]
        )
    ),
    "MKVEC.v2i16": lambda o: joined([elements(o.raw(i), 16, (o.part(i) or "h01")[1], False)[0] for i in (0, 1)]),
    "MKVEC.v2i8": lambda o: joined(
        [elements(o.raw(i), 8, o.part(i)[1], False)[0] for i in (0, 1)] + [o.raw(2) & 0xFF, o.raw(2) >> 8]
    ),
    "IADD.u64": pair_sum(np.add, False),
    "IADD.s64": pair_sum(np.add, True),
    "ISUB.u64": pair_sum(np.subtract, False),
    "ISUB.s64": pair_sum(np.subtract, True),
    "SHADDX.u64": pair_sum(np.add, False),
    "SHADDX.s64": pair_sum(np.add, True),
    "ICMP_MULTI.u32": compared_pairs(False),
    "ICMP_MULTI.s32": compared_pairs(True),
}
for _bits in (32, 16, 8):
    _name = f"v{32 // _bits}" if _bits < 32 else ""
    for _sign, _signed in (("s", True), ("u", False)):
        _of = f"{_name}{_sign}{_bits}"
        MEANINGS[f"IADD.{_of}"] = saturated(_bits, _signed, np.add)
        MEANINGS[f"ISUB.{_of}"] = saturated(_bits, _signed, np.subtract)
        MEANINGS[f"HADD.{_of}"] = per_int(_bits, _signed, lambda o, x, y: x + y + o.field("rhadd") >> 1)
        MEANINGS[f"IMUL.{_name}{'s' if _signed else 'i'}{_bits}"] = per_int(
            _bits, _signed, lambda o, x, y: (x.astype(np.uint64) * y.astype(np.uint64)).astype(np.int64)
        )
        for _and in (True, False):
            MEANINGS[f"ICMP_{'AND' if _and else 'OR'}.{_of}"] = compared(_bits, _signed, _and)
        if _bits > 8:
            MEANINGS[f"CSEL.{_of}"] = chosen("int", _bits, _signed)
    MEANINGS[f"MUX.{_name}i{_bits}"] = muxed(_bits)
    MEANINGS[f"IADD_IMM.{_name}i{_bits}"] = (
        lambda o, b=_bits: joined(  # type: ignore[misc]
            [
                x + y
                for x, y in zip(
                    o.ints(0, b),
                    elements(
                        np.full(len(o.registers), o.field("#constant"), np.uint32), b, "0123"[: 32 // b], False
                    ),
                    strict=True,
                )
            ]
        )
    )
    for _logic, _f in (("AND", np.bitwise_and), ("OR", np.bitwise_or), ("XOR", np.bitwise_xor)):
        MEANINGS[f"LSHIFT_{_logic}.{_name}i{_bits}"] = shift(_bits, True, _f)
        MEANINGS[f"RSHIFT_{_logic}.{_name}i{_bits}"] = shift(_bits, False, _f)
    MEANINGS[f"CLZ.{_name}u{_bits}"] = per_int(_bits, False, lambda o, x, b=_bits: _zeros(x, b), 1)
    MEANINGS[f"IABS.{_name}s{_bits}"] = per_int(_bits, True, lambda o, x: np.abs(x), 1)
for _bits, _of in ((32, "f32"), (16, "v2f16")):
    MEANINGS[f"CSEL.{_of}"] = chosen("float", _bits)
    for _and in (True, False):
        MEANINGS[f"FCMP_{'AND' if _and else 'OR'}.{_of}"] = compared_floats(_bits, _and)
for _bits in (16, 8):
    for _sign, _signed in (("S", True), ("U", False)):
        MEANINGS[f"{_sign}{_bits}_TO_{_sign}32"] = lambda o, b=_bits, s=_signed: words(integer_of(o, b, s))  # type: ignore[misc]
        MEANINGS[f"{_sign}{_bits}_TO_F32"] = lambda o, b=_bits, s=_signed: floats(  # type: ignore[misc]
            integer_of(o, b, s).astype(np.float32)
        )
for _sign, _signed in (("S", True), ("U", False)):
    MEANINGS[f"V2{_sign}8_TO_V2{_sign}16"] = (
        lambda o, s=_signed: joined(  # type: ignore[misc]
            elements(o.raw(0), 8, o.part(0)[1:], s)
        )
    )
    MEANINGS[f"V2{_sign}8_TO_V2F16"] = (
        lambda o, s=_signed: both(  # type: ignore[misc]
            lambda e: to_half(elements(o.raw(0), 8, o.part(0)[1:], s)[e].astype(np.float64), 0)
        )
    )


def extended(name: str) -> tuple[str, ...]:
    """How parts of a source begin that are extended."""
    return ("h", "b") if name.endswith(".i32") else ("b",) if name.endswith("i16") else ()


def refused(row: Instruction, fields: Mapping[str, str]) -> bool:
    """Whether the interpreter refuses an instruction by what its fields say, because it does not model that."""
    name, root = row.name, row.name.partition(".")[0]
    result, part1 = fields.get("result"), fields.get("part1", "")
    return (
        ("reserved" in fields.values())
        or fields.get("condition") in ("gtlt", "total")
        or (name in ("S32_TO_F32", "U32_TO_F32") and fields["round"] != "")
        or (name in ("V2F32_TO_V2F16", "FMIN.v2f16", "FMAX.v2f16") and fields["clamp"] != "")
        or (root == "IMUL" and fields["saturate"] != "")
        or (name.endswith("64") and fields.get("saturate", "") != "")
        or (root.startswith("RSHIFT") and fields["signed"] != "" and fields["part0"][:1] in extended(name))
        or (root == "ISUB" and name.endswith("64") and part1 != "")
        or (result == "u1" and root != "ICMP_MULTI")
        or (result == "f1" and name.endswith("8"))
        or (name == "MUX.v4i8" and fields["mux"] in ("fp_zero", "bit"))
        or ((root == "FREXPM" or root == "FREXPE") and fields["sqrt"] != "" and fields["log"] != "")
        or (root == "CLPER" and (fields["lane_op"] not in ("", "xor") or fields["inactive"] != ""))
    )
