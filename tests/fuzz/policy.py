# SPDX-License-Identifier: BSD-2-Clause
"""What a fuzzed core may do to a GPU's registers, as a C header: read from the profile's text, by code of its own.

The device's table comes from trace_format.profile and tee_replayer.generator.target. A mistake there would be in
the oracle too if the oracle used them, so nothing of theirs is used: only the profile's TOML.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import trace_format

GPUS = Path(trace_format.__file__).parent / "gpus"
PHYS = 0x1_0000_0000
ALL = 0xFFFFFFFF


class Place:
    """Offsets of a profile's registers."""

    def __init__(self, profile: dict[str, Any]) -> None:
        self.profile = profile

    def every(self, name: str) -> list[int]:
        """Byte offsets of `block.NAME`, of all blocks where they are repeated."""
        block, register = name.split(".")
        where = self.profile["blocks"][block]
        first = where["base"] + self.profile["registers"][block][register]["offset"]
        return [first + where["bytes"] * number for number in range(where.get("count", 1))]

    def __call__(self, name: str) -> int:
        return self.every(name)[0]


def registers(profile: dict[str, Any]) -> list[str]:
    """A row for each register of the window: offset, readable, writable by a trace, bits, bits to set, idle."""
    place, found = Place(profile), []
    for block, names in profile["registers"].items():
        if "board" in profile["blocks"][block]:
            continue
        for name, register in names.items():
            replay = register.get("replay")
            rule = replay if isinstance(replay, dict) else {}
            readable = "r" in register["access"] and replay != "none"
            row = (int(readable), int(bool(rule)), rule.get("bits", 0), rule.get("set", 0), int("idle" in rule))
            found += [(offset, *row) for offset in place.every(f"{block}.{name}")]
    return ["{" + ", ".join(f"{value:#x}u" for value in row) + "}" for row in sorted(found)]


def v3d(profile: dict[str, Any]) -> tuple[dict[str, int], dict[str, list[tuple[int, ...]]]]:
    """Numbers and tables of the V3D: Linux 6.1 drivers/gpu/drm/v3d, v3d_mmu.c and v3d_gem.c."""
    place = Place(profile)
    registers = profile["registers"]["hub"]
    on = registers["MMU_CTL"]["replay"]["set"]
    l2t = place("core0.CTL_L2TCACTL")
    numbers = {
        "IS_MALI": 0,
        "VA_PAGES": 64,
        "TABLE": place("hub.MMU_PT_PA_BASE"),
        "ADDR_CAP": place("hub.MMU_ADDR_CAP"),
        "ILLEGAL_ADDR": place("hub.MMU_ILLEGAL_ADDR"),
        "MMU_CTL": place("hub.MMU_CTL"),
        "MMU_ON": on,
        "CODE_ADDRESS": place("core0.CSD_QUEUED_CFG5"),
        "JOB_START": place("core0.CSD_QUEUED_CFG0"),
        "SMALL_FROM": place("core0.CSD_QUEUED_CFG1"),
        "SMALL_TO": place("core0.CSD_QUEUED_CFG4"),
    }
    reset = place("bridge.SW_INIT_1")
    return numbers, {
        # Those after the first line are of a change of page tables (v3d_mmu_flush_all, v3d_clean_caches).
        "driver_writes": [
            *((reset, 1), (reset, 0), (place("hub.MMU_CTL"), on)),
            *((place("hub.MMUC_CONTROL"), 3), (place("hub.MMU_CTL"), on | 4)),
            *((place("core0.CTL_L2TFLSTA"), 0), (place("core0.CTL_L2TFLEND"), ALL)),
            *((l2t, 0x100), (l2t, 1), (place("core0.CTL_SLCACTL"), 0x0F0F0F0F)),
        ],
        "busy": [
            *((place(f"hub.{name}"), registers[name]["busy"]) for name in ("MMUC_CONTROL", "MMU_CTL")),
            (l2t, profile["registers"]["core0"]["CTL_L2TCACTL"]["busy"]),
        ],
        "reads": [(place("hub.IDENT1"), 0x124), (place("hub.IDENT3"), 0xE00)],
        "idle": [(0, 0, 0, 1)],  # no register of this GPU has to wait
    }


def mali(profile: dict[str, Any]) -> tuple[dict[str, int], dict[str, list[tuple[int, ...]]]]:
    """Numbers and tables of the Mali: Linux 6.1 drivers/gpu/drm/panfrost, panfrost_gpu.c and panfrost_mmu.c."""
    place, mmu = Place(profile), profile["mmu"]
    numbers = {
        "IS_MALI": 1,
        "VA_PAGES": 1 << 20,
        "TRANSTAB_LO": place("as.TRANSTAB_LO"),
        "SPACE_BYTES": profile["blocks"]["as"]["bytes"],
        "JOB_START": place("js.COMMAND_NEXT"),
        "SMALL_FROM": 1,  # no register
        "SMALL_TO": 0,
    }
    clear = "IRQ_CLEAR"
    writes = [(place(f"{block}.IRQ_MASK"), 0) for block in ("gpu", "job", "mmu")]
    writes += [(place(f"gpu.{clear}"), 0x100), (place(f"job.{clear}"), ALL), (place(f"mmu.{clear}"), ALL)]
    writes += [(place("gpu.COMMAND"), command) for command in (1, 2)]
    for name, values in (
        ("TRANSCFG_LO", (1, mmu["config"] & ALL)),
        ("TRANSCFG_HI", (mmu["config"] >> 32,)),
        ("MEMATTR_LO", (mmu["attributes"] & ALL,)),
        ("MEMATTR_HI", (mmu["attributes"] >> 32,)),
        ("COMMAND", (1,)),
    ):
        writes += [(offset, value) for offset in place.every(f"as.{name}") for value in values]
    idle = [(offset, ALL, 8, 0) for offset in place.every("js.STATUS")]
    idle += [(offset, ALL, 0, 1) for offset in place.every("js.COMMAND_NEXT")]
    for name, mask in (("mmu", ALL), ("job", 0xFFFF0000), ("gpu", 0x81)):
        idle.append((place(f"{name}.IRQ_RAWSTAT"), mask, 0, 1))
    reads = [(place("gpu.GPU_ID"), 0x60A00002), (place("gpu.SHADER_PRESENT_LO"), 0xFF)]
    reads += [(place("gpu.IRQ_RAWSTAT"), 0x100)]
    reads += [(offset, 0) for offset in place.every("js.COMMAND_NEXT")]
    # No register of this GPU has bits that a trace or the driver sets and waits for.
    return numbers, {"driver_writes": [*writes], "busy": [(0, 0)], "reads": [*reads], "idle": [*idle]}


FAMILIES = {"v3d42": v3d, "mali_g71": mali}
FIELDS = {
    "driver_writes": "offset, value",
    "busy": "offset, bits",
    "reads": "offset, value",
    "idle": "offset, mask, value, equal",
}


def header(gpu: str) -> str:
    """The text of fuzz_policy.h for a GPU that has a nano driver."""
    profile = tomllib.loads((GPUS / f"{gpu}.toml").read_text())
    numbers, tables = FAMILIES[gpu](profile)
    rows = registers(profile)
    lines = [
        "#include <stdint.h>",
        f"#define FUZZ_WINDOW_BYTES {profile['window_bytes']:#x}u",
        f"#define FUZZ_PHYS UINT64_C({PHYS:#x})",
        f"#define FUZZ_REGISTERS {len(rows)}u",
        *(f"#define FUZZ_{name} {value:#x}u" for name, value in numbers.items()),
        "static const struct fuzz_register { uint32_t offset, readable, writable, bits, set, idle; }",
        "    fuzz_registers[] __attribute__((unused)) = {",
        *(f"    {row}," for row in rows),
        "};",
    ]
    for name, values in tables.items():
        lines.append(
            f"static const struct {{ uint32_t {FIELDS[name]}; }} fuzz_{name}[] __attribute__((unused)) = {{"
        )
        lines += ["    {" + ", ".join(f"{value:#x}u" for value in row) + "}," for row in values]
        lines.append("};")
    return "\n".join(["#pragma once", *lines, ""])
