# SPDX-License-Identifier: BSD-2-Clause
"""The generated header of a Mali's descriptors, compiled: each function and number is what Python says."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.gpus.mali import emit
from host_tools.gpus.mali.descriptors import HEADER, TABLE, Descriptor
from host_tools.vgpu import build

NUMBER = re.compile(r"^#define (MALI_\w+) (0x[0-9a-f]+|\d+)u(?: /\*.*\*/)?$", re.MULTILINE)
GETTER = re.compile(r"^static inline \w+ (mali_\w+)\(const uint8_t \*d\)", re.MULTILINE)


def c_name(*words: str) -> str:
    return "_".join(["mali", *words]).replace(" ", "_")


def word_of(number: int, data: bytes) -> int:
    return int.from_bytes(data[4 * number : 4 * number + 4], "little")


def expected(descriptor: Descriptor) -> dict[str, Callable[[bytes], int]]:
    """What each function of a descriptor should give: fields, and whole words."""
    found: dict[str, Callable[[bytes], int]] = {
        c_name(descriptor.name, word): partial(word_of, number) for word, number in descriptor.words.items()
    }
    for name, field in descriptor.fields.items():
        found[c_name(descriptor.name, name)] = field.address if field.kind == "address" else field.number
    return found


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The header's functions, as such that can be called."""
    names = GETTER.findall(emit.header())
    setters = [c_name("set", "job header", name) for name in ("exception status", "first incomplete task")]
    source = tmp_path_factory.mktemp("descriptors") / "descriptors.c"
    lines = ['#include "mali_descriptors.h"']
    lines += [
        f"uint64_t get_{n}(const uint8_t *d);\nuint64_t get_{n}(const uint8_t *d) {{ return {n}(d); }}"
        for n in names
    ]
    for name in setters:
        text = f"void call_{name}(uint8_t *d, uint32_t value)"
        lines.append(f"{text};\n{text} {{ {name}(d, value); }}")
    source.write_text("\n".join(lines) + "\n")
    found = ctypes.CDLL(str(build.shared_object("descriptors", [source])))
    for name in names:
        getattr(found, f"get_{name}").restype = ctypes.c_uint64
    return found


@pytest.mark.parametrize("name", TABLE.descriptors)
@given(st.data())
def test_any_bytes_are_in_c_what_they_are_in_python(library: ctypes.CDLL, name: str, data: st.DataObject) -> None:
    descriptor = TABLE.descriptors[name]
    content = data.draw(st.binary(min_size=descriptor.size, max_size=descriptor.size))
    for function, value in expected(descriptor).items():
        assert getattr(library, f"get_{function}")(content) == value(content), function


def test_there_is_no_other_function() -> None:
    named = {name for descriptor in TABLE.descriptors.values() for name in expected(descriptor)}
    assert set(GETTER.findall(emit.header())) == named


def test_what_the_gpu_writes(library: ctypes.CDLL) -> None:
    content = ctypes.create_string_buffer(b"\xaa" * HEADER.size, HEADER.size)
    library.call_mali_set_job_header_exception_status(content, 0x12345678)
    library.call_mali_set_job_header_first_incomplete_task(content, 0x9ABCDEF0)
    assert content.raw == bytes.fromhex("78563412f0debc9a") + b"\xaa" * (HEADER.size - 8)


def test_numbers() -> None:
    found = {name: int(number, 0) for name, number in NUMBER.findall(emit.header())}
    numbers: dict[str, int] = {}
    for descriptor in TABLE.descriptors.values():
        numbers[c_name(descriptor.name, "bytes")] = descriptor.size
        if descriptor.align > 1:
            numbers[c_name(descriptor.name, "align")] = descriptor.align
        for word, number in descriptor.words.items():
            numbers[c_name(descriptor.name, word, "unnamed")] = descriptor.unnamed(number)
        for name, field in descriptor.fields.items():
            numbers |= {c_name(descriptor.name, name, value): number for value, number in field.values.items()}
            if field.low // 32 in descriptor.words.values():
                numbers[c_name(descriptor.name, name, "mask")] = field.mask >> field.low // 32 * 32
                if field.kind == "number":
                    numbers[c_name(descriptor.name, name, "max")] = (1 << field.width) - 1
    for job in TABLE.jobs.values():
        parts = job.parts.items()
        numbers |= {c_name(job.type, "job", name, "at"): part.offset for name, part in parts if part.offset}
    numbers["mali_job_header_written_bytes"] = 16
    assert found == {name.upper(): number for name, number in numbers.items()}


def test_the_header_that_is_compiled_is_the_committed_one() -> None:
    committed = (Path(emit.__file__).parent / "vgpu" / "mali_descriptors.h").read_text(encoding="utf-8")
    assert committed.endswith(emit.header())
