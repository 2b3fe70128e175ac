# SPDX-License-Identifier: BSD-2-Clause
"""The C header: clean under every compiler's warnings, and it decodes and refuses exactly what the schema does.

A C program decodes random and damaged structures; what it prints is compared with what `construct` parses. It
runs under the address sanitizer with each structure in a block of its exact size, so that a load past the end is
caught.
"""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from construct import ConstError, StreamError

from trace_format.actions import ACTIONS, Op
from trace_format.emit import c_header
from trace_format.schema import (
    DTYPE_BYTES,
    HEADER_FLAG_ENCRYPTED,
    HEADER_FLAG_JOINT,
    HEADER_FLAG_RAW,
    HEADER_FLAG_STREAMED,
    NETWORK_FLAG_EXCLUSIVE,
    PIECE_FLAG_RESIDENT,
    SECTION_FLAG_OPTIONAL,
    SIGNED_MAGIC,
    SLOT_FLAG_BOUND,
    STRUCTURES,
    TRACE_MAGIC,
)

NAMES = list(STRUCTURES)
FLAGS = {
    "header": HEADER_FLAG_RAW | HEADER_FLAG_ENCRYPTED | HEADER_FLAG_JOINT | HEADER_FLAG_STREAMED,
    "section": SECTION_FLAG_OPTIONAL,
    "slot": SLOT_FLAG_BOUND,
    "network": NETWORK_FLAG_EXCLUSIVE,
    "piece": PIECE_FLAG_RESIDENT,
}
MAGICS = {"header": TRACE_MAGIC, "signed_header": SIGNED_MAGIC}
WARNINGS = [
    "-std=c11",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wshadow",
    "-Werror",
]
COMPILERS = {
    "gcc": ("gcc", [], "apt-get install gcc"),
    "gcc -O2": ("gcc", ["-O2"], "apt-get install gcc"),
    "clang": ("clang", ["-Os"], "apt-get install clang"),
    "aarch64": (
        "aarch64-linux-gnu-gcc",
        ["-Os", "-ffreestanding", "-mstrict-align", "-mgeneral-regs-only"],
        "apt-get install gcc-aarch64-linux-gnu",
    ),
}


@pytest.fixture(scope="module")
def include(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the header as the schema has it now."""
    folder = tmp_path_factory.mktemp("include")
    (folder / "gramophone_trace.h").write_text(c_header.emit())
    return folder


def need(program: str, install: str) -> None:
    """Skip where a program is missing."""
    if not shutil.which(program):
        pytest.skip(f"{program} is missing: {install}")


def every_load() -> str:
    """A C file that uses every function of the header with external linkage."""
    lines = ['#include "gramophone_trace.h"']
    for name in NAMES:
        head = f"bool use_{name}(struct gr_{name} *out, const uint8_t *p, size_t n)"
        lines += [f"{head};", f"{head}", "{", f"    return gr_{name}_load(out, p, n);", "}"]
    head = "uint64_t use_action_va(const struct gr_action *a)"
    lines += [f"{head};", head, "{", "    return gr_action_va_page(a) + gr_action_address_space(a);", "}"]
    head = "uint32_t use_dtype(uint8_t dtype)"
    lines += [f"{head};", head, "{", "    return gr_dtype_bytes(dtype);", "}"]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", COMPILERS)
def test_no_compiler_warns(name: str, include: Path, tmp_path: Path) -> None:
    program, options, install = COMPILERS[name]
    need(program, install)
    source = tmp_path / "use.c"
    source.write_text(every_load())
    command = [program, *WARNINGS, *options, f"-I{include}", "-c", str(source), "-o", str(tmp_path / "use.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_freestanding_code_calls_nothing(include: Path, tmp_path: Path) -> None:
    """No libc: at -Os gcc may call memcpy and the like, but for what the header does it has no reason to."""
    program, options, install = COMPILERS["aarch64"]
    need(program, install)
    source, target = tmp_path / "use.c", tmp_path / "use.o"
    source.write_text(every_load())
    subprocess.run([program, *WARNINGS, *options, f"-I{include}", "-c", source, "-o", target], check=True)
    symbols = subprocess.run(["aarch64-linux-gnu-nm", "-u", target], capture_output=True, text=True, check=True)
    assert set(symbols.stdout.split()) <= {"U", "memcpy", "memset"}


def test_assertions_notice_a_wrong_offset(include: Path, tmp_path: Path) -> None:
    need("gcc", "apt-get install gcc")
    good = (include / "gramophone_trace.h").read_text()
    for right, wrong in (
        ("#define GR_SLOT_AT_DIMS 48u", "#define GR_SLOT_AT_DIMS 52u"),
        ("#define GR_MANIFEST_BYTES 512u", "#define GR_MANIFEST_BYTES 520u"),
        ("GR_OP_REPLAY_START = 0x41", "GR_OP_REPLAY_START = 0x141"),
    ):
        assert good.count(right) == 1
        (tmp_path / "gramophone_trace.h").write_text(good.replace(right, wrong))
        (tmp_path / "use.c").write_text('#include "gramophone_trace.h"\n')
        done = subprocess.run(
            ["gcc", "-std=c11", f"-I{tmp_path}", "-c", tmp_path / "use.c", "-o", tmp_path / "use.o"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 0
        assert "static assertion failed" in done.stderr


# --- decoding


def dumper() -> str:
    """A C program: for each (structure number, size, bytes) on standard input, prints the fields or `refused`."""
    lines = [
        '#include "gramophone_trace.h"',
        "#include <inttypes.h>",
        "#include <stdio.h>",
        "#include <stdlib.h>",
        "#include <string.h>",
        "static void hex(const void *data, size_t n)",
        "{",
        "    for (size_t i = 0; i < n; i++)",
        '        printf("%02x", ((const uint8_t *)data)[i]);',
        '    printf(" ");',
        "}",
    ]
    for name in NAMES:
        lines += [f"static void dump_{name}(const uint8_t *p, size_t n)", "{"]
        lines += [f"    struct gr_{name} v, before;"]
        lines += ["    memset(&v, 0xa5, sizeof v);", "    memset(&before, 0xa5, sizeof v);"]
        lines += [f"    if (!gr_{name}_load(&v, p, n)) {{"]
        lines += ['        puts(memcmp(&v, &before, sizeof v) ? "refused but changed" : "refused");']
        lines += ["        return;", "    }"]
        lines += [f"    {line}" for line in prints(name)]
        lines += ['    puts("");', "}"]
    lines += ["int main(void)", "{", "    uint8_t head[3];", "    while (fread(head, 1, 3, stdin) == 3) {"]
    lines += ["        size_t n = gr_load16(head + 1);", "        uint8_t *p = malloc(n);"]
    lines += ["        if (fread(p, 1, n, stdin) != n)", "            return 1;", "        switch (head[0]) {"]
    lines += [f"        case {i}: dump_{name}(p, n); break;" for i, name in enumerate(NAMES)]
    lines += ["        default: return 1;", "        }", "        free(p);", "    }", "    return 0;", "}"]
    return "\n".join(lines) + "\n"


def kinds(name: str) -> Iterator[tuple[str, str, int]]:
    """(field, kind, bytes) of a structure, straight from construct's objects."""
    for item in STRUCTURES[name][0].subcons:
        inner = item
        while type(inner).__name__ == "Renamed":
            inner = inner.subcon
        yield item.name, type(inner).__name__, item.sizeof()


def prints(name: str) -> Iterator[str]:
    """C statements that print the fields of `v` as `expected` writes them."""
    for field, kind, size in kinds(name):
        if kind == "FormatField":
            yield f'printf("%" PRIu64 " ", (uint64_t)v.{field});'
        elif kind == "List":
            yield f'for (size_t i = 0; i < {size // 4}; i++) printf("%" PRIu32 " ", v.{field}[i]);'
        elif kind == "Text":
            yield f"hex(v.{field}, strlen(v.{field}));"
        elif kind == "Blob":
            yield f"hex(v.{field}, {size});"


def expected(name: str, data: bytes) -> str:
    """What the C program must print, by construct."""
    shape = STRUCTURES[name][0]
    try:
        values = shape.parse(data)
    except (ConstError, StreamError):
        return "refused"
    if "flags" in values and name != "action" and values["flags"] & ~FLAGS[name]:
        return "refused"
    if name == "action" and not allowed(values):
        return "refused"
    words: list[str] = []
    for field, kind, _ in kinds(name):
        value = values[field]
        if kind == "FormatField":
            words.append(str(value))
        elif kind == "List":
            words += [str(v) for v in value]
        elif kind == "Text":
            text = value.rstrip(b"\0")
            if b"\0" in text:
                return "refused"
            words.append(text.hex())
        elif kind == "Blob":
            words.append(value.hex())
    return "".join(word + " " for word in words)


def allowed(values: Any) -> bool:
    """Whether an action has an opcode that replayers know, and zero in all that the opcode does not use."""
    if values["op"] not in list(Op) or ACTIONS[Op(values["op"])].macro is None:
        return False
    row = ACTIONS[Op(values["op"])]
    unused = [f for f in ("arg", "value", "a", "b") if f not in row.fields]
    return not values["flags"] & ~sum(row.flags) and not any(values[f] for f in unused)


def random_structure(name: str, rng: random.Random) -> bytes:
    """A structure of random values: valid, or with one thing wrong, or cut short."""
    data = b""
    for field, kind, size in kinds(name):
        if kind == "Reserved":
            data += bytes(size)
        elif kind == "Const":
            data += MAGICS[name]
        elif kind == "Text":
            length = rng.choice([0, 1, size - 1, size])
            data += bytes(rng.randrange(1, 256) for _ in range(length)).ljust(size, b"\0")
        elif field == "flags" and name in FLAGS:
            data += rng.choice([0, FLAGS[name]]).to_bytes(size, "little")
        else:
            data += rng.randbytes(size)
    if name == "action":
        row = ACTIONS[rng.choice(list(Op))]
        used = [rng.getrandbits(32) if f in row.fields else 0 for f in ("arg", "value", "a", "b")]
        data = struct.pack("<BBHIII", row.op, rng.getrandbits(8) & sum(row.flags), used[0] & 0xFFFF, *used[1:])
    match rng.randrange(4):
        case 0:
            return data[: rng.randrange(len(data))]
        case 1:
            at = rng.randrange(len(data))
            return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        case 2:
            at = rng.randrange(8 * len(data))
            flipped = int.from_bytes(data, "little") ^ 1 << at
            return flipped.to_bytes(len(data), "little")
        case _:
            return data


@pytest.fixture(scope="module")
def dump(include: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program, under the address and undefined behaviour sanitizers."""
    need("gcc", "apt-get install gcc")
    folder = tmp_path_factory.mktemp("dump")
    (folder / "dump.c").write_text(dumper())
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
    command = [
        "gcc",
        "-std=c11",
        "-Wall",
        *sanitizers,
        *(f"-D{row.macro}" for row in ACTIONS.values() if row.macro),
        f"-I{include}",
        str(folder / "dump.c"),
        "-o",
        str(folder / "dump"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "dump"


def run(dump: Path, cases: list[tuple[str, bytes]]) -> list[str]:
    """The program's answer to each case."""
    feed = b"".join(struct.pack("<BH", NAMES.index(name), len(data)) + data for name, data in cases)
    done = subprocess.run([dump], input=feed, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


def test_c_decodes_what_construct_decodes(dump: Path) -> None:
    rng = random.Random(20260101)
    cases = [(name, random_structure(name, rng)) for name in NAMES for _ in range(1500)]
    answers = run(dump, cases)
    wanted = [expected(name, data) for name, data in cases]
    assert len(answers) == len(wanted)
    for (name, data), answer, want in zip(cases, answers, wanted, strict=True):
        assert answer == want, f"{name} {data.hex()}"
    for name in NAMES:  # the sample has plenty of both
        refused = [w == "refused" for (n, _), w in zip(cases, wanted, strict=True) if n == name]
        assert 200 < sum(refused) < 1300


@pytest.mark.parametrize("name", NAMES)
def test_truncated_structures_are_refused_without_a_read_past_the_end(name: str, dump: Path) -> None:
    rng = random.Random(name)
    size = STRUCTURES[name][0].sizeof()
    valid = next(d for d in iter(lambda: random_structure(name, rng), b"") if expected(name, d) != "refused")
    answers = run(dump, [(name, valid[:n]) for n in range(size + 1)])
    assert answers[:size] == ["refused"] * size
    assert answers[size] == expected(name, valid)


def test_every_opcode(dump: Path) -> None:
    """All 256 opcodes with each field and flag bit set on its own."""
    cases = []
    for op in range(256):
        for position in range(-1, 120):
            value = op | (1 << (8 + position) if position >= 0 else 0)
            cases.append(("action", value.to_bytes(16, "little")))
    assert run(dump, cases) == [expected(name, data) for name, data in cases]


def test_sizes_of_element_types(include: Path, tmp_path: Path) -> None:
    need("gcc", "apt-get install gcc")
    (tmp_path / "t.c").write_text(
        '#include "gramophone_trace.h"\n#include <stdio.h>\nint main(void)\n{\n'
        '    for (unsigned i = 0; i < 256; i++)\n        printf("%u\\n", gr_dtype_bytes((uint8_t)i));\n'
        "    return 0;\n}\n"
    )
    subprocess.run(["gcc", "-std=c11", f"-I{include}", tmp_path / "t.c", "-o", tmp_path / "t"], check=True)
    done = subprocess.run([tmp_path / "t"], capture_output=True, text=True, check=True)
    sizes = {int(dtype): size for dtype, size in DTYPE_BYTES.items()}
    assert [int(line) for line in done.stdout.split()] == [sizes.get(i, 0) for i in range(256)]
