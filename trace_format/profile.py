# SPDX-License-Identifier: BSD-2-Clause
"""GPU profiles: registers (registers.py), MMU format and interrupts, read from `gpus/NAME.toml`.

`gpus/NAME.toml` is the one description of a GPU's registers. From it come the allow list that a device enforces
(tee_replayer.generator.target), the tables of the virtual GPU and docs/REGISTERS.md (both: trace_format.emit).
What its keys mean is said at the head of v3d42.toml.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from dataclasses import dataclass
from importlib import resources
from typing import Any

from trace_format.errors import ProfileError
from trace_format.faults import FaultBits, fault_bits
from trace_format.register_bits import bit_names, bits_like
from trace_format.registers import NO_TRACE, NOT_FOR_TRACES, Register, read_registers
from trace_format.schema import Gpu
from trace_format.stream_rules import StreamRules, stream_rules
from trace_format.toml_table import loads, over


@dataclass(frozen=True)
class Field:
    """A field of a register: `(value >> shift) & ((1 << bits) - 1)`."""

    register: Register
    shift: int
    bits: int


@dataclass(frozen=True)
class Block:
    """Where registers lie: the same ones `count` times, `bytes` apart, starting at `base`.

    A block of a `board` is not the GPU's own: it follows the register window in the virtual GPU of that board, and
    no trace can reach it.
    """

    base: int
    bytes: int
    count: int
    board: str = ""


@dataclass(frozen=True)
class Job:
    """How a kind of job is started and its end is seen."""

    kind: str
    start: Register
    line: int
    done: Register
    done_bits: int


@dataclass(frozen=True)
class Profile:
    """A GPU, as far as traces and replayers need to know it.

    Attributes:
        like: name of the GPU whose profile it completes; "" otherwise.
        registers: those that a trace may touch, by name; `by_offset` has the same ones.
        others: those that no trace may touch, which the virtual GPU has or refuses by name.
        sources: where the facts come from: "registers", "reset".
        bit_names: of a register `block.NAME`, a repeated block without its number: what bits are called, as masks.
        faults: where its nano driver looks for faults, in that order.
        bits_like: of further registers, named in the same way: the one of `bit_names` whose bits they have.
        cores: shader cores that there are: their number, or a bit for each where `cores_are_mask`.
        register_map: of its virtual GPU: C header, prefix of the names of places there, and one of the names of
            registers, "" where no other map is beside it; None: it has none.
        driver: name of its nano driver, if there is one: usually its own.
        streams: instructions that command streams of a trace may have; None: the GPU has no such streams.
        mmu: page table format and its constants; `address_spaces` only where there are several.
    """

    name: str
    like: str
    title: str
    gpu: Gpu
    window_bytes: int
    interrupts: tuple[str, ...]
    blocks: dict[str, Block]
    registers: dict[str, Register]
    by_offset: dict[int, Register]
    others: tuple[Register, ...]
    sources: dict[str, str]
    bit_names: dict[str, dict[str, int]]
    bits_like: dict[str, str]
    identity: Register
    identity_mask: int
    identity_value: int
    cores: Field
    cores_are_mask: bool
    revision: Field
    mmu: dict[str, Any]
    jobs: tuple[Job, ...]
    profile_id: int
    register_map: tuple[str, str, str] | None
    driver: str
    faults: tuple[FaultBits, ...] = ()
    streams: StreamRules | None = None

    @property
    def forbids_execution(self) -> bool:
        """Whether page tables say what may be executed."""
        return bool(self.mmu.get("execution", False))

    @property
    def address_spaces(self) -> int:
        """How many address spaces the GPU has."""
        return int(self.mmu.get("address_spaces", 1))

    def register(self, name: str) -> Register:
        """The register called `block.NAME`; ProfileError when there is none."""
        try:
            return self.registers[name]
        except KeyError:
            raise ProfileError(
                f"GPU profile {self.name} has no register {name}", file=f"{self.name}.toml"
            ) from None

    def bits_of(self, offset: int) -> dict[str, int]:
        """What the bits of the register at a byte offset are called, as masks; empty where nothing is known."""
        register = self.by_offset.get(offset)
        if register is None:
            return {}
        block, _, name = register.name.partition(".")
        for repeated, where in self.blocks.items():
            if where.count > 1 and re.fullmatch(rf"{repeated}\d+", block):
                block = repeated
        full = f"{block}.{name}"
        return self.bit_names.get(self.bits_like.get(full, full), {})

    def describe(self, offset: int) -> str:
        """Name of the register at a byte offset, or the offset where it has none."""
        register = self.by_offset.get(offset)
        return register.name if register else f"{offset:#06x}"


def names() -> list[str]:
    """Names of all GPUs that have a profile."""
    folder = resources.files("trace_format") / "gpus"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


@functools.cache
def load(name: str) -> Profile:
    """The profile of GPU `name`; ProfileError when there is none or it contradicts itself."""
    if name not in names():
        raise ProfileError(f"no profile for GPU {name!r}; there are: {', '.join(names())}")
    return _parse(f"{name}.toml", _text(name))


def _text(name: str) -> bytes:
    return (resources.files("trace_format") / "gpus" / f"{name}.toml").read_bytes()


def for_gpu(gpu: int) -> Profile:
    """The profile of the GPU with this number in a manifest; ProfileError when there is none."""
    likely = Gpu(gpu).name.lower() if gpu in list(Gpu) else ""
    for name in sorted(names(), key=lambda name: name != likely):  # the one that it is, as a rule, alone
        profile = load(name)
        if profile.gpu == gpu:
            return profile
    raise ProfileError(f"no profile for GPU number {gpu}")


def _profile_id(data: dict[str, Any]) -> int:
    """Of what the profile says of traces, as canonical JSON.

    Its comments and its layout do not make traces invalid, nor does what is said only for the virtual GPU and for
    the documents: sources, reset values, registers that no trace may touch.
    """
    canonical = json.dumps(_for_traces(data), sort_keys=True, separators=(",", ":")).encode()
    return int.from_bytes(hashlib.sha256(canonical).digest()[:8], "little")


def _for_traces(data: dict[str, Any]) -> dict[str, Any]:
    blocks = {name: where for name, where in data["blocks"].items() if "board" not in where}
    registers = {
        block: {
            name: {key: value for key, value in row.items() if key not in NOT_FOR_TRACES}
            for name, row in rows.items()
            if row.get("replay") != NO_TRACE
        }
        for block, rows in data["registers"].items()
        if block in blocks
    }
    rest = {
        key: value for key, value in data.items() if key not in ("sources", "bits", "model", "driver", "faults")
    }
    return rest | {"blocks": blocks, "registers": registers}


def _data(file: str, text: bytes) -> tuple[str, dict[str, Any]]:
    """What a profile says; one that is `like` another says only what differs. And that other's name, or "".

    What the other one has and this GPU lacks, it names as `without`, by the path of keys with dots in between.
    """
    data = loads(text, ProfileError, file)
    like = data.pop("like", "")
    if not like:
        return "", data
    gone = [path.split(".") for path in data.pop("without", [])]
    if like not in names():
        raise ProfileError(f"it is like {like!r}, which has none; there are: {', '.join(names())}", file=file)
    base = loads(_text(like), ProfileError, f"{like}.toml")
    if "like" in base:
        raise ProfileError(f"it is like {like}, which is like another one itself", file=file)
    for *tables, key in [*gone, ["driver"], ["model"]]:  # a driver and a model of its own, or none
        functools.reduce(dict.__getitem__, tables, base).pop(key, None)
    return like, over(base, data)


def _parse(file: str, text: bytes) -> Profile:
    try:
        like, data = _data(file, text)
        found = read_registers(file, data)
        registers = {register.name: register for register in found if not register.hidden}
        names = bit_names(file, data)
        interrupts = tuple(data["interrupts"])
        identity = data["identity"]
        return Profile(
            name=data["name"],
            like=like,
            title=data["title"],
            gpu=Gpu[data["gpu"]],
            window_bytes=data["window_bytes"],
            interrupts=interrupts,
            blocks={
                name: Block(where["base"], where["bytes"], where.get("count", 1), where.get("board", ""))
                for name, where in data["blocks"].items()
            },
            registers=registers,
            by_offset={register.offset: register for register in registers.values()},
            others=tuple(register for register in found if register.hidden),
            sources=data.get("sources", {}),
            bit_names=names,
            bits_like=bits_like(file, data),
            identity=registers[identity["register"]],
            identity_mask=identity["id_mask"],
            identity_value=identity["id"],
            cores=_field(registers, identity["cores"]),
            cores_are_mask=identity["cores"].get("is_mask", False),
            revision=_field(registers, identity["revision"]),
            mmu=data["mmu"],
            jobs=tuple(
                Job(
                    kind,
                    registers[j["start"]],
                    interrupts.index(j["done_line"]),
                    registers[j["done"]],
                    j["done_bits"],
                )
                for kind, j in data["jobs"].items()
            ),
            profile_id=_profile_id(data),
            register_map=_register_map(data),
            driver=data.get("driver", data["name"]),
            faults=fault_bits(data, registers, names),
            streams=stream_rules(data),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise ProfileError(f"malformed GPU profile: {error!r}", file=file) from error


def _register_map(data: dict[str, Any]) -> tuple[str, str, str] | None:
    model = data.get("model")
    return (model["register_map"], model["prefix"], model.get("names", "")) if model else None


def _field(registers: dict[str, Register], row: dict[str, Any]) -> Field:
    return Field(registers[row["register"]], row["shift"], row["bits"])
