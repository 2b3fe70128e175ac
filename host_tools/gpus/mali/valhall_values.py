# SPDX-License-Identifier: BSD-2-Clause
"""What fields of Valhall's instructions say: names of values, constants and special values that sources can be.

Source: Mesa 25.0.7 src/panfrost/compiler/valhall/ISA.xml.
"""

CONSTANTS = (
    *(0, 0xFFFFFFFF, 0x7FFFFFFF, 0xFAFCFDFE, 0x01000000, 0x80002000, 0x70605030, 0xC0B0A090),
    *(0x03020100 + 0x04040404 * step for step in range(8)),
    *(0x3F800000, 0x3DCCCCCD, 0x3EA2F983, 0x3F317218, 0x40490FDB, 0, 0x477FFF00, 0x5C005BF8),
    *(0x2E660000, 0x34000000, 0x38000000, 0x3C000000, 0x40000000, 0x44000000, 0x48000000, 0x42480000),
)
# What source bytes from 0xe0 on are: page and number -> name.
SPECIALS = {
    (0, 2): "warp_id",
    (1, 1): "thread_local_pointer",
    (1, 3): "workgroup_local_pointer",
    (1, 7): "resource_table_pointer",
    (3, 1): "lane_id",
    (3, 3): "core_id",
    (3, 15): "program_counter",
}

_RESERVED = "reserved"
_BYTES = [f"b{low}{high}" for high in range(4) for low in range(4)]
_WORD = ["", _RESERVED, "h0", "h1", "b0", "b1", "b2", "b3"]
_HALVES = ["h00", "h10", "", "h11"]
# Values of a field, by the name that rows use; "" is the one that is not printed.
VALUES = {
    "flow": [
        *(
            "",
            "wait0",
            "wait1",
            "wait01",
            "wait2",
            "wait02",
            "wait12",
            "wait012",
            "wait0126",
            "wait",
            "reconverge",
        ),
        *(_RESERVED, _RESERVED, "discard", _RESERVED, "end"),
    ],
    "round": ["", "rtp", "rtn", "rtz"],
    "clamp": ["", "clamp_0_inf", "clamp_m1_1", "clamp_0_1"],
    "result": ["i1", "f1", "m1", "u1"],
    "condition": ["eq", "gt", "ge", "ne", "lt", "le", "gtlt", "total"],
    "slot": ["slot0", "slot1", "slot2", *[_RESERVED] * 4, "slot7"],
    "access": ["", "istream", "estream", "force"],
    "mux": ["neg", "", "fp_zero", "bit"],
    "subgroup": ["subgroup2", "subgroup4", "subgroup8", "", *[_RESERVED] * 12],
    "lane_op": ["", "xor", "accumulate", "shift"],
    "inactive": [
        *("", "umax", "i1", "v2i1", "smin", "smax", "v2smin", "v2smax", "v4smin", "v4smax", "f1", "v2f1"),
        *("infn", "inf", "v2infn", "v2inf"),
    ],
    "atomic": [
        *(_RESERVED, _RESERVED, "aadd", *[_RESERVED] * 5, "asmin", "asmax", "aumin", "aumax"),
        *("aand", "aor", "axor", "axchg"),
    ],
    "atomic1": ["ainc", "adec", "aumax1", "asmax1", "aor1", *[_RESERVED] * 11],
    "lane8": ["", "b1", "b2", "b3", "h0", "h1", "w0", "d0"],
    "lane16": ["", "h1", "w0", "d0", *[_RESERVED] * 4],
    "lane32": ["", "d0", *[_RESERVED] * 6],
    # of sources
    "float": ["", "h0", "h1", _RESERVED],
    "halves": _HALVES,
    "words": [*_WORD, *[_RESERVED] * 8],
    "halfwords": [
        *(*_HALVES, "b00", "b20", "b02", "b22", "b11", "b31", "b13", "b33", "b01", "b23"),
        *[_RESERVED] * 2,
    ],
    "bytes": [
        *("", "b3210", "b0101", "b2323", "b0000", "b1111", "b2222", "b3333", "b2301", "b1032", "b0011", "b2233"),
        *[_RESERVED] * 4,
    ],
    "doubles": [*_WORD, "w0", *[_RESERVED] * 7],
    "lanes": [*[_RESERVED] * 4, "b00", "b11", "b22", "b33", *[_RESERVED] * 8],
    "pairs": _BYTES,
    "combine": ["", "h0", "h1", "and", "lowbits", *[_RESERVED] * 3],
    "byte": ["b0", "b1", "b2", "b3"],
    "half": ["h0", "h1"],
}
