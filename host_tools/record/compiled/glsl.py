# SPDX-License-Identifier: BSD-2-Clause
"""tinygrad's kernels as compute shaders of GLSL 4.5 for Vulkan 1.1.

What a V3D's and a Mali's driver in Mesa 25 offer is 32-bit arithmetic, and storage of 8 and 16 bits. So integers
of fewer bits are kept in registers of 32, and wrapped after each operation. Halves, 64-bit integers and bfloat16
are tinygrad's own decompositions into these: a half is rounded where it is stored, not after each operation.
"""

from __future__ import annotations

from typing import Any, ClassVar

from tinygrad.dtype import AddrSpace, DType, dtypes, truncate
from tinygrad.helpers import Target, strip_parens
from tinygrad.renderer.cstyle import CStyleLanguage, base_rewrite
from tinygrad.uop.ops import GroupOp, Ops, PatternMatcher, UOp, UPat

MAX_BINDINGS = 8  # storage buffers of a stage: V3DV has no more, which is Vulkan's own least but for 4
MAX_GROUP = 256  # items of a workgroup, V3DV
SHARED_BYTES = 16384  # V3DV's and PanVK's maxComputeSharedMemorySize, Vulkan's least
MAX_GROUPS = 65535  # of a dimension, Vulkan's least

REGISTER = {
    dtypes.float: "float",
    dtypes.int32: "int",
    dtypes.uint32: "uint",
    dtypes.bool: "bool",
    dtypes.char: "int",
    dtypes.short: "int",
    dtypes.uchar: "uint",
    dtypes.ushort: "uint",
}
STORED = {
    dtypes.bool: "uint8_t",
    dtypes.char: "int8_t",
    dtypes.uchar: "uint8_t",
    dtypes.short: "int16_t",
    dtypes.ushort: "uint16_t",
}
NARROW = (dtypes.char, dtypes.uchar, dtypes.short, dtypes.ushort)
SIGNED = (dtypes.char, dtypes.short, dtypes.int32)
VECTORS = {dtypes.float: "vec", dtypes.int32: "ivec", dtypes.uint32: "uvec"}


def _wrapped(value: str, dtype: DType) -> str:
    """A register's value as one of fewer bits has it."""
    if dtype not in NARROW:
        return value
    if dtype in SIGNED:
        return f"(({value}<<{32 - dtype.bitsize})>>{32 - dtype.bitsize})"
    return f"({value}&{(1 << dtype.bitsize) - 1}u)"


def _literal(value: int, dtype: DType) -> str:
    value = int(truncate[dtype](value))
    if dtype not in SIGNED:
        return f"{value}u"
    return "int(0x80000000u)" if value == -(1 << 31) else f"({value})" if value < 0 else str(value)


def _bits(ctx: Any, x: UOp) -> str:
    """The same bits as another type of the same size."""
    value, of = ctx[x.src[0]], x.src[0].dtype
    if dtypes.float in (of, x.dtype) and of != x.dtype:
        other = x.dtype if of == dtypes.float else of
        kind = "Int" if other in SIGNED else "Uint"
        return f"floatBitsTo{kind}({value})" if of == dtypes.float else f"{kind.lower()}BitsToFloat({value})"
    return _wrapped(f"{REGISTER[x.dtype]}({value})", x.dtype)


def _operation(ctx: Any, x: UOp) -> str | None:
    """An operation on narrow integers, wrapped, or on what GLSL defines otherwise than C."""
    a, *rest = (ctx[value] for value in x.src)
    kind = x.src[0].dtype
    if kind == dtypes.bool:
        own = {Ops.AND: "&&", Ops.OR: "||", Ops.XOR: "^^", Ops.MUL: "&&", Ops.ADD: "||", Ops.MAX: "||"}
        if x.op in own:
            return f"({a}{own[x.op]}{rest[0]})"
        if x.op is Ops.CMPLT:
            return f"(!{a}&&{rest[0]})"
    if x.op is Ops.ADD and kind == dtypes.float:
        # A loop's terms are added to each other first, then to its sum, which loses less. tinygrad's own text
        # leaves these brackets out, and would add one term after the other to the sum.
        return f"({strip_parens(a) if x.src[0].op is Ops.ADD else a}+{rest[0]})"
    if x.op is Ops.CMOD:  # of negative operands, GLSL's % is not defined
        return f"({a}-({a}/{rest[0]})*{rest[0]})"
    if x.op in GroupOp.Comparison or x.op is Ops.WHERE or x.dtype not in NARROW:
        return None
    return _wrapped(str(ctx.code_for_op[x.op](a, *rest, x.dtype)), x.dtype)


def _is_number(x: UOp) -> bool:
    return bool(x.op is Ops.CAST and x.src[0].op is Ops.CONST)


def _shared(x: UOp) -> bool:
    return bool(x.addrspace == AddrSpace.LOCAL)


# A V3D's own sine is good for small angles only. Multiples of pi are taken off in three parts, the first of 8
# bits; the polynomial is Abramowitz and Stegun's 4.3.97, within 2e-9 up to pi / 2.
SINE = """float sine(float x) {
  precise float n = floor(x * 0.318309886 + 0.5);
  precise float r = x - n * 3.140625;
  r = r - n * 9.67502593994140625e-4;
  r = r - n * 1.509957990978376e-7;
  float q = r * r;
  float p = 0.0083333315 + q * (-0.0001984090 + q * (0.0000027526 - q * 0.0000000239));
  float s = r + r * q * (-0.1666666664 + q * p);
  return (int(n) & 1) != 0 ? -s : s;
}"""


class Glsl(CStyleLanguage):  # type: ignore[misc]  # tinygrad's types are not followed
    """The renderer; see tinygrad's `CStyleLanguage` for what the attributes mean."""

    global_max = (MAX_GROUPS,) * 3
    local_max = (MAX_GROUP, MAX_GROUP, 64)
    shared_max = SHARED_BYTES
    supports_float4 = False
    barrier = "memoryBarrierShared(); barrier();"
    infinity = "uintBitsToFloat(0x7f800000u)"
    nan = "uintBitsToFloat(0x7fc00000u)"
    code_for_workitem: ClassVar[Any] = {
        "g": lambda x: f"int(gl_WorkGroupID.{'xyz'[int(x)]})",
        "l": lambda x: f"int(gl_LocalInvocationID.{'xyz'[int(x)]})",
    }
    code_for_op: ClassVar[Any] = {
        **CStyleLanguage.code_for_op,
        Ops.SIN: lambda x, dtype: f"sine({x})",
        Ops.RECIPROCAL: lambda x, dtype: f"(1.0/{x})",
    }
    string_rewrite = (
        PatternMatcher(
            [
                (UPat.cvar("c").cast(dtypes.bool), lambda c: "true" if c.val else "false"),
                (
                    UPat.cvar("c").cast((*NARROW, dtypes.int32, dtypes.uint32), name="x"),
                    lambda x, c: _literal(c.val, x.dtype),
                ),
                (UPat(Ops.BUFFER, name="x"), lambda ctx, x: ctx.declared(x)),
                (UPat(Ops.BITCAST, name="x"), _bits),
                (
                    UPat(Ops.CAST, NARROW, (UPat.var("a"),), name="x"),
                    lambda ctx, x, a: _wrapped(f"{REGISTER[x.dtype]}({ctx[a]})", x.dtype),
                ),
                (UPat(Ops.INDEX, src=(UPat.var("b"), UPat.var("at"))), lambda ctx, b, at: ctx.element(b, at)),
                (UPat(Ops.SHRINK, name="x"), lambda ctx, x: ctx.run(x)),
                (UPat(Ops.STACK, name="x"), lambda ctx, x: ctx.vector([ctx[of] for of in x.src], x.dtype)),
                (
                    UPat(Ops.LOAD, src=(UPat.var("b"), UPat.var("v"), UPat.var("gate"))),
                    lambda ctx, b, v, gate: ctx.loaded_if(b, ctx[v], ctx[gate]),
                ),
                (UPat(Ops.LOAD, src=(UPat.var("b"),)), lambda ctx, b: ctx.loaded(b)),
                (UPat(Ops.STORE, src=(UPat.var("b"), UPat.var("v"))), lambda ctx, b, v: ctx.stored(b, v)),
                (UPat(GroupOp.ALU, name="x"), _operation),
            ]
        )
        + base_rewrite
    )

    def __init__(self, wide: bool = False) -> None:
        """`wide`: loads and stores of two or four elements side by side are one."""
        super().__init__(Target("VULKAN", "", "vectors" if wide else ""))  # programs are kept by it
        self.wide = self.supports_float4 = wide

    def supported_dtypes(self) -> set[DType]:
        return set(REGISTER)

    def _render_dtype(self, dtype: DType, sz: int = 1, *_: Any, **__: Any) -> str:
        return REGISTER[dtype] if sz == 1 else f"{VECTORS[dtype]}{sz}"

    def render_cast(self, u: UOp, val: str) -> str:
        return f"{REGISTER[u.dtype]}({val})"

    def declared(self, x: UOp) -> str:
        """An array of a workgroup or of an item; of bool, both are of bool."""
        return f"{'shared ' if _shared(x) else ''}{REGISTER[x.dtype]} {self[x]}[{x.max_numel()}];"

    def element(self, buffer: UOp, at: UOp) -> str:
        if buffer.addrspace == AddrSpace.ALU:  # of a vector
            return f"{self[buffer]}.{'xyzw'[at.src[0].val]}"
        return f"{self[buffer]}[{strip_parens(self[at]) if at.op is Ops.ADD else self[at]}]"

    def run(self, x: UOp) -> str:
        """Elements side by side: one of a second array, of vectors, at the same binding. A workgroup's own array
        has no second one."""
        buffer, at, _ = x.src
        if _shared(buffer):
            return self.vector(self.apart(x), x.dtype)
        return f"{self[buffer]}v{x.max_numel()}[{strip_parens(self.divided(at, x.max_numel()))}]"

    def apart(self, x: UOp) -> list[str]:
        """The same elements one by one."""
        buffer, at, _ = x.src
        return [f"{self[buffer]}[{self[at]}+{more}]" for more in range(x.max_numel())]

    def divided(self, x: UOp, by: int) -> str:
        """An index that is known to be a multiple of 2 or 4, divided by it: nothing is shifted where its terms say
        that they are multiples."""
        parts = self._divided(x, by)
        return f"({self[x]}>>{by.bit_length() - 1})" if parts is None else parts

    def _divided(self, x: UOp, by: int) -> str | None:
        if _is_number(x):
            number = int(x.src[0].val)
            return None if number % by else str(number // by)
        if x.op is Ops.ADD:
            terms = [self._divided(term, by) for term in x.src]
            return None if None in terms else f"({'+'.join(map(str, terms))})"
        if (
            x.op is Ops.SHL
            and _is_number(x.src[1])
            and (left := int(x.src[1].src[0].val) - by.bit_length() + 1) >= 0
        ):
            return f"({self[x.src[0]]}<<{left})" if left else str(self[x.src[0]])
        if x.op is Ops.MUL:
            for one, other in (x.src, x.src[::-1]):
                if (part := self._divided(one, by)) is not None:
                    return f"({part}*{self[other]})"
        return None

    def vector(self, elements: list[str], dtype: DType) -> str:
        return f"{VECTORS[dtype]}{len(elements)}({','.join(elements)})"

    def loaded(self, x: UOp) -> str:
        return self.typed(x, str(self[x]))

    def typed(self, x: UOp, element: str) -> str:
        """An element of a buffer as a register's value."""
        packed = x.addrspace == AddrSpace.GLOBAL and x.dtype in STORED
        return f"{REGISTER[x.dtype]}({element})" if packed else element

    def loaded_if(self, x: UOp, otherwise: str, gate: str) -> str:
        """A load of what is there, or another value. All items load, those without at index 0: a branch costs
        more, and to whom judges the code, what another job left in a register could be its result."""
        buffer, at, *count = x.src
        if count:
            there = f"{self[buffer]}v{x.max_numel()}[mix(0,{self.divided(at, x.max_numel())},{gate})]"
            return f"mix({otherwise},{there},bvec{x.max_numel()}({gate}))"
        return f"mix({otherwise},{self.typed(x, f'{self[buffer]}[mix(0,{self[at]},{gate})]')},{gate})"

    def stored(self, x: UOp, value: UOp) -> str:
        text = self[value]
        if x.op is Ops.SHRINK and _shared(x.src[0]):
            return "\n".join(f"{at} = {text}.{part};" for at, part in zip(self.apart(x), "xyzw", strict=False))
        if x.addrspace == AddrSpace.GLOBAL and x.dtype in STORED:
            text = f"{STORED[x.dtype]}({f'uint({text})' if x.dtype == dtypes.bool else text})"
        return f"{self[x]} = {text};"

    def render_kernel(
        self, function_name: str, kernel: list[str], bufs: Any, uops: list[UOp], prefix: Any = None
    ) -> str:
        read, written = ({u.src[0].src[0] for u in uops if u.op is op} for op in (Ops.LOAD, Ops.STORE))
        if any(u.op is Ops.SHRINK and u.src[0] in read & written for u in uops):
            # The compiler does not know that both arrays are one.
            raise NotImplementedError(f"kernel {function_name} reads what it writes, in vectors")
        items = {u.arg: u.src[0].ssimplify() for u in uops if u.op is Ops.SPECIAL and u.arg[0] == "l"}
        size = ", ".join(f"local_size_{axis} = {items.get(f'lidx{at}', 1)}" for at, axis in enumerate("xyz"))
        lines = [
            "#version 450",
            "#extension GL_EXT_shader_8bit_storage : require",
            "#extension GL_EXT_shader_16bit_storage : require",
            "#extension GL_EXT_shader_explicit_arithmetic_types : require",
            f"layout({size}) in;",
        ]
        for at, (name, (u, _)) in enumerate(bufs):
            kind = STORED.get(u.dtype, REGISTER[u.dtype])
            lines.append(f"layout(std430, binding = {at}) buffer B{at} {{ {kind} {name}[]; }};")
            for count in sorted({run.max_numel() for run in uops if run.op is Ops.SHRINK and run.src[0] is u}):
                vectors = f"{VECTORS[u.dtype]}{count} {name}v{count}[]"
                lines.append(f"layout(std430, binding = {at}) buffer B{at}v{count} {{ {vectors}; }};")
        shared = [line.strip() for line in kernel if line.lstrip().startswith("shared ")]
        body = [line for line in kernel if not line.lstrip().startswith("shared ")]
        if any(u.op is Ops.SIN for u in uops):
            lines.append(SINE)
        return "\n".join([*lines, *shared, f"void main() {{ // {function_name}", *body, "}", ""])
