# SPDX-License-Identifier: BSD-2-Clause
"""The C headers of structures in memory: what C writes Python reads, and the other way round.

A C program takes the fields of a structure as text, fills the structure and prints its bytes; and prints the
fields of a structure whose bytes it is given. It knows the structures by the generated headers only, Python by
the schema.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tee_replayer.generator.device import Device
from tee_replayer.generator.hostlib import HERE
from tee_replayer.generator.status import CORE
from tests.emulated.test_c_header import COMPILERS, WARNINGS, need
from tests.support.signing_samples import ES256
from tests.support.trace_samples import structures
from trace_format import packing
from trace_format.emit import c_memory, walk
from trace_format.emit.walk import Field, Kind, Structure

SHAPES = {s.name: (group, s) for group in c_memory.MEMORY_FORMATS for s in walk.structures(group)}
NAMES = list(SHAPES)


@pytest.fixture(scope="module")
def include(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the headers as the schema has them now; replayer.h, which one includes, is the core's."""
    folder = tmp_path_factory.mktemp("include")
    for group in c_memory.MEMORY_FORMATS:
        (folder / Path(c_memory.file_of(group)).name).write_text(c_memory.emit(group))
    (folder / "replayer.h").write_text(f'#include "{CORE}/replayer.h"\n')
    return folder


def includes() -> str:
    """Include directives of all headers."""
    return "".join(f'#include "{Path(c_memory.file_of(group)).name}"\n' for group in c_memory.MEMORY_FORMATS)


@pytest.mark.parametrize("name", COMPILERS)
def test_no_compiler_warns(name: str, include: Path, tmp_path: Path) -> None:
    program, options, install = COMPILERS[name]
    need(program, install)
    for group in c_memory.MEMORY_FORMATS:  # each by itself, so that it includes what it needs
        header = Path(c_memory.file_of(group)).name
        (tmp_path / "use.c").write_text(f'#include "{header}"\nextern int unused;\n')
        command = [program, *WARNINGS, *options, f"-I{include}", "-c", "use.c", "-o", "use.o"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", NAMES)
def test_every_offset_is_asserted(name: str, include: Path, tmp_path: Path) -> None:
    """Swapped members, and one too many, do not compile."""
    need("gcc", "apt-get install gcc")
    group, shape = SHAPES[name]
    header = Path(c_memory.file_of(group)).name
    text = (include / header).read_text()
    start = text.index(f"struct {group.prefix}{name} {{\n")
    first, *others = text[start : text.index("};", start)].splitlines()[1:]
    wrong = {"one more": [first, *others, "    uint64_t more;"]}
    if len(shape.fields) > 1:
        wrong["in another order"] = [*others, first]
    for what, members in wrong.items():
        end = text.index("};", start)
        bad = text[:start] + f"struct {group.prefix}{name} {{\n" + "\n".join(members) + "\n" + text[end:]
        (tmp_path / header).write_text(bad)
        (tmp_path / "use.c").write_text(f'#include "{header}"\n')
        command = ["gcc", "-std=c11", f"-I{tmp_path}", f"-I{include}", "-c", "use.c", "-o", "use.o"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert "static assertion failed" in done.stderr, what


# --- exchange with C


def leaves(shape: Structure, path: str = "v->") -> Iterator[tuple[str, Field]]:
    """Members of a structure that hold data, with those of structures in it, as C reaches them."""
    for field in shape.fields:
        if field.kind is Kind.STRUCTURE:
            yield from leaves(SHAPES[field.structure][1], f"{path}{field.name}.")
        else:
            yield f"{path}{field.name}", field


def exchanger() -> str:
    """The program: `write N` reads fields as hexadecimal words, `read N` the bytes as one."""
    cast = "(unsigned long long)"
    lines = [includes(), "#include <stdio.h>", "#include <stdlib.h>", "#include <string.h>"]
    lines += [
        "static uint64_t word(void)",
        "{",
        "    unsigned long long value;",
        '    if (scanf("%llx", &value) != 1) exit(2);',
        "    return value;",
        "}",
    ]
    for name, (group, shape) in SHAPES.items():
        kind = f"struct {group.prefix}{name}"
        lines += [f"static void fill_{name}({kind} *v)", "{"]
        for path, field in leaves(shape):
            if field.kind is Kind.MAGIC:
                owner, of = next(o for o in SHAPES.values() if field in o[1].fields)
                lines.append(f"    {path} = {owner.prefix.upper()}{of.name.upper()}_MAGIC;")
            elif field.kind is Kind.NUMBER:
                lines.append(f"    {path} = (__typeof__({path}))word();")
            elif field.kind is not Kind.RESERVED:
                lines.append(f"    for (size_t i = 0; i < {field.count}; i++)")
                lines.append(f"        {path}[i] = (__typeof__({path}[0]))word();")
        lines += ["}", f"static void show_{name}(const {kind} *v)", "{"]
        for path, field in leaves(shape):
            if field.kind is Kind.NUMBER:
                lines.append(f'    printf("%llx ", {cast}(uint{8 * field.size}_t){path});')
            elif field.kind not in (Kind.MAGIC, Kind.RESERVED):
                lines.append(f"    for (size_t i = 0; i < {field.count}; i++)")
                lines.append(
                    f'        printf("%llx ", (unsigned long long)(uint{8 * field.item_size}_t){path}[i]);'
                )
        lines += ["}"]
    lines += ["int main(int count, char **words)", "{", "    const int n = count == 3 ? atoi(words[2]) : -1;"]
    for index, (name, (group, _)) in enumerate(SHAPES.items()):
        lines += [f"    if (n == {index}) {{", f"        struct {group.prefix}{name} v = {{0}};"]
        lines += ["        uint8_t bytes[sizeof v];", '        if (!strcmp(words[1], "write")) {']
        lines += [f"            fill_{name}(&v);", "            memcpy(bytes, &v, sizeof v);"]
        lines += [
            '            for (size_t i = 0; i < sizeof v; i++) printf("%02x", bytes[i]);',
            "        } else {",
        ]
        lines += ["            for (size_t i = 0; i < sizeof v; i++) bytes[i] = (uint8_t)word();"]
        lines += [
            "            memcpy(&v, bytes, sizeof v);",
            f"            show_{name}(&v);",
            "        }",
            "    }",
        ]
    return "\n".join([*lines, "    return 0;", "}"]) + "\n"


@pytest.fixture(scope="module")
def exchange(include: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program, under the address and undefined behaviour sanitizers."""
    need("gcc", "apt-get install gcc")
    folder = tmp_path_factory.mktemp("exchange")
    (folder / "exchange.c").write_text(exchanger())
    flags = ["-std=gnu11", "-Wall", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{include}"]
    done = subprocess.run(
        ["gcc", *flags, "exchange.c", "-o", "exchange"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "exchange"


def words_of(shape: Structure, values: dict[str, Any]) -> Iterator[int]:
    """The fields as the program takes and prints them, in order."""
    for field in shape.fields:
        if field.kind in (Kind.MAGIC, Kind.RESERVED):
            continue
        value = values[field.name]
        if field.kind is Kind.STRUCTURE:
            yield from words_of(SHAPES[field.structure][1], value)
        elif field.kind is Kind.TEXT:
            yield from value.encode().ljust(field.size, b"\0")
        elif field.kind is Kind.NUMBER:
            yield value
        else:
            yield from value


def run(program: Path, verb: str, name: str, words: list[int]) -> str:
    """What the program prints of these words."""
    feed = " ".join(f"{word:x}" for word in words)
    done = subprocess.run(
        [program, verb, str(NAMES.index(name))], input=feed, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_c_and_python_say_the_same(name: str, exchange: Path, data: st.DataObject) -> None:
    values = data.draw(structures(name))
    words = list(words_of(SHAPES[name][1], values))
    packed = packing.pack(name, values)
    assert run(exchange, "write", name, words) == packed.hex()
    assert [int(word, 16) for word in run(exchange, "read", name, list(packed)).split()] == words


@pytest.mark.parametrize(
    ("flags", "size"),
    [
        ((), 0),
        (("-DGR_CARVEOUT_BYTES=0x10000000",), 0x1000_0000),
        (("-DGR_CARVEOUT_BYTES=0xffffff000",), 0xF_FFFF_F000),
        (("-DGR_CARVEOUT_BYTES=0x10000000", "-DGR_STAGING_BYTES=0x4000000"), 0xC00_0000),
    ],
)
def test_the_devices_constant_in_c_is_the_one_in_python(
    flags: tuple[str, ...], size: int, include: Path, tmp_path: Path
) -> None:
    need("gcc", "apt-get install gcc")
    device = Device("qemu-virt", 0x0123456789ABCDEF, 7, ES256.public, size)
    main = "int main(void) { return fwrite(&gr_device, sizeof gr_device, 1, stdout) != 1; }\n"
    fields = "const uint8_t *key, *key_id; uint32_t min_security_version;"
    policy = f"#define GR_API\nstruct gr_policy {{ {fields} }};\n"
    text = f"#include <stdint.h>\n#include <stdio.h>\n{policy}{device.declaration()}{device.definition()}{main}"
    (tmp_path / "device.c").write_text(text)
    subprocess.run(["gcc", "-std=c11", *flags, "device.c", "-o", "device"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "device"], capture_output=True, check=True)
    assert done.stdout == device.encoded


def test_what_firmware_takes_does_not_grow() -> None:
    """The core's header has the report, and that of trust policies theirs; the amalgamation takes them whole."""
    users = {
        path.name: {
            line.split('"')[1] for line in path.read_text().splitlines() if '#include "gramophone_' in line
        }
        for path in (*CORE.iterdir(), *(HERE / "drivers").iterdir(), *(HERE / "features" / "trust").iterdir())
        if path.suffix in {".c", ".h"}
    }
    assert {name: headers for name, headers in users.items() if headers} == {
        "internal.h": {"gramophone_trace.h"},
        "replayer.h": {"gramophone_report.h"},
        "trust_policy.h": {"gramophone_trust.h"},
    }
