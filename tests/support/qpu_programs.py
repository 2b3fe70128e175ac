# SPDX-License-Identifier: BSD-2-Clause
"""Random QPU programs that load, compute and store: lines between a prologue and an epilogue."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

WORDS = 32  # words of input, of which each has its own label
RESULTS = [20, 21, 22, 23, 24, 25]

# rf20 and rf21: the input; rf10: DATA + 4 * lane, rf11: OUT + 4 * lane; rf12: DATA; rf13: OUT.
ADDRESSES = """
eidx r0; nop; ldunifrf.rf12
shl r0, r0, 2
add rf10, r0, rf12; nop; ldunifrf.rf13
add rf11, r0, rf13
"""
LOADS = """
nop; nop; ldunifrf.r1
nop; mov tmua, rf10
add r2, rf10, r1
nop; mov tmua, r2; ldtmu.rf20
nop; mov rf22, 3; ldtmu.rf21
eidx rf23; mov rf24, 1
nop; mov rf25, 0
nop; mov r1, 0
nop; mov r2, 0
nop; mov r3, 1
nop; mov r4, 1
nop; mov r5, 0
xor.pushz -, rf23, 3
"""
PROLOGUE = ADDRESSES + LOADS
EPILOGUE = "nop; nop; ldunifrf.r0\n" + "".join(
    f"nop; mov tmud, rf{number}\nnop; mov tmua, rf11\nadd rf11, rf11, r0\n" for number in RESULTS
)

registers = st.sampled_from([f"rf{n}" for n in RESULTS] + ["r1", "r2", "r3"])
conditions = st.sampled_from(["", "", ".ifa", ".ifb", ".ifna", ".ifnb"])
pushes = st.sampled_from(["", "", ".pushz", ".pushn", ".andz", ".andnn", ".nornz", ".norn"])
ADD2 = ["add", "sub", "min", "max", "umin", "umax", "shl", "shr", "asr", "ror", "and", "or", "xor", "vadd", "vsub"]
FLAGS2 = ["add", "sub", "and", "xor", "min", "fadd", "shl"]
UNPACKS = ["", "", ".l", ".h", ".abs"]


@st.composite
def plain(draw: st.DrawFn) -> str:
    """An instruction of one ALU, or what brings a value through a queue or a special unit and back."""
    d, a, b = draw(registers), draw(registers), draw(registers)
    cond, push = draw(conditions), draw(pushes)
    x, y = draw(st.sampled_from(UNPACKS)), draw(st.sampled_from(UNPACKS))
    half = draw(st.sampled_from([".l", ".h"]))
    op, flagged = draw(st.sampled_from(ADD2)), draw(st.sampled_from(FLAGS2))
    return draw(
        st.sampled_from(
            [
                f"{op}{cond} {d}, {a}, {b}",
                f"{flagged}{push} {d}, {a}, {b}",
                f"nop; mov{cond} {d}, {a}",
                f"nop; umul24{cond} {d}, {a}, {b}",
                f"nop; smul24 {d}, {a}, {b}",
                f"nop; multop -, {a}, {b}\nnop; umul24 {d}, {a}, {b}",
                f"fadd{cond} {d}, {a}{x}, {b}{y}",
                f"nop; fmul{cond} {d}, {a}{x}, {b}{y}",
                f"fadd {d}{half}, {a}, {b}",
                f"nop; fmov {d}{half}, {a}",
                f"fcmp.pushn -, {a}, {b}",
                f"vfpack {d}, {a}, {b}",
                f"nop; vfmul {d}, {a}, {b}",
                f"not {d}, {a}",
                f"clz {d}, {a}",
                f"itof {d}, {a}",
                f"ftoiz {d}, {a}",
                f"flafirst {d}",
                f"flnafirst {d}",
                f"fcmp{cond} {d}{half}, {a}{x}, {b}",
                f"fdx {d}, {a}",
                f"fdy{cond} {d}, {a}",
                f"vflna {d}",
                f"vflb {d}",
                f"flapush {d}, {a}",
                f"flbpush {d}, {a}",
                f"add {d}, {a}, {b}; mov {a}, {b}",
                f"nop; mov{cond} recip, {a}\nnop; nop\nnop; nop\nnop; mov {d}, r4",
                f"nop; mov{cond} r5, {a}\nnop; mov {d}, r5",
                f"nop; mov{cond} r5rep, {a}\nnop; mov {d}, r5",
                # A load from where the data say; a conditional one.
                f"and r0, {a}, 15\nshl r0, r0, 2\nadd r0, r0, rf12\nnop; mov tmua, r0\nnop; nop; ldtmu.{d}",
                f"nop; mov{cond} tmua, rf10\nnop; nop; ldtmu.{d}",
                # The second uniform stream.
                f"and r0, {a}, 15\nshl r0, r0, 2\nadd r0, r0, rf12\nnop; mov unifa, r0\nnop; nop\nnop; nop\n"
                f"nop; nop; ldunifarf.{d}",
                # Stores that some lanes leave out.
                f"nop; mov tmud, {a}\nnop; mov{cond} tmua, rf11",
                # Lanes that do not count, for the next access, and their return.
                f"setmsf -, {a}\nnop; mov tmud, {b}\nnop; mov tmua, rf11\nmsf {d}\nsetmsf -, rf24",
            ]
        )
    )


@st.composite
def deciding(draw: st.DrawFn) -> str:
    """What leaves no label where nothing is written: a branch over a store, a store to where the data say."""
    a, d, cond = draw(registers), draw(registers), draw(st.sampled_from(["anya", "alla", "a0", "allna"]))
    if draw(st.booleans()):
        return f"and r0, {a}, 15\nshl r0, r0, 2\nadd r0, r0, rf13\nnop; mov tmud, {d}\nnop; mov tmua, r0"
    branch = f"and.pushz -, {a}, 1\nb.{cond} 24\nnop; nop\nnop; nop\nnop; nop\n"
    return branch + f"nop; mov tmud, {d}\nnop; mov tmua, rf11\nnop; mov {d}, {a}"


PER_LANE, REGULAR, SUM = 0xFFFFFF80, 15 << 3, 0 << 3
BYTES, HALVES, WORDS_OF_LANES = 5, 6, 7
# What an access moves: its configuration, and how many words of data it takes.
STORES = [(REGULAR | BYTES, 1), (REGULAR | HALVES, 1), (REGULAR | WORDS_OF_LANES, 1), (SUM | WORDS_OF_LANES, 1)]
STORES += [(REGULAR | count, count) for count in (2, 3, 4)]


@st.composite
def storing(draw: st.DrawFn) -> tuple[str, list[int]]:
    """A store of all lanes or of some, to places that touch, overlap or lie apart, or a load from there, and the
    uniforms that it takes.
    """
    a, d, cond = draw(registers), draw(st.sampled_from(["rf20", "rf21", "rf25"])), draw(conditions)
    if draw(st.integers(0, 3)) == 0:
        return f"nop; mov tmua, rf11\nnop; nop; ldtmu.{d}\n", []
    config, words = draw(st.sampled_from(STORES))
    flags = draw(st.sampled_from(["", "and.pushz -, r0, 3\n", f"and.pushz -, {a}, 1\n", f"setmsf -, {a}\n"]))
    kind = config & 7
    apart = {BYTES: 0, HALVES: 1, WORDS_OF_LANES: draw(st.integers(2, 4))}.get(kind, 4)
    place = f"shl r0, r0, {apart}\nadd r0, r0, rf13\n" + "add r0, r0, 8\n" * draw(st.integers(0, 4))
    if kind in (BYTES, HALVES):  # of a word, a part
        place += f"add r0, r0, {2 * draw(st.integers(0, 7))}\n"
    lines = "eidx r0\n" + flags + place + f"nop; mov tmud, {a}\n" * words + f"nop; mov{cond} tmuau, r0\n"
    if config & ~PER_LANE < REGULAR:  # the sum of before comes back
        lines += f"nop; nop; ldtmu.{d}\n"
    return lines + "setmsf -, rf24\n", [PER_LANE | config]


inputs = st.lists(
    st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 0x3F800000, 0xBF800000, 0x7FC00000])),
    min_size=WORDS, max_size=WORDS,
).map(lambda values: np.array(values, np.uint32))  # fmt: skip
