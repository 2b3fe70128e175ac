# SPDX-License-Identifier: BSD-2-Clause
"""What the firmware of a board has by its sources: system instructions, registers of the driver, other devices."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path

from host_tools.support.sources import BARE_METAL
from tee_replayer import features
from tee_replayer.crypto import SEAMS
from tee_replayer.generator import amalgamate, conditionals
from tee_replayer.generator.boards import Board
from tee_replayer.generator.decryption import HAS_ENCRYPTION
from tee_replayer.generator.status import CORE
from tee_replayer.generator.target import driver_files, register_name
from trace_format.files import read_file_text
from trace_format.profile import Profile
from trace_format.schema.trust import KeyKind

# baremetal/startup.S, port.c and port.h, tee_replayer/crypto/aws_lc_hash.c. Registers are named with the
# instruction that reads or writes them.
_READ = ("mpidr_el1", "id_aa64isar0_el1", "elr_el3", "tpidr_el1", "tpidr_el3", "cntpct_el0", "cntfrq_el0")
_EVERYWHERE = (
    frozenset(f"mrs {name}" for name in _READ)
    | {"msr tpidr_el1", "msr tpidr_el3"}
    | {"msr vbar_el3", "msr cptr_el3", "isb", "dsb sy", "wfe", "wfi"}
)
# baremetal/mmu.S
_OF_MMU = frozenset(
    (
        *("msr mair_el3", "msr tcr_el3", "msr ttbr0_el3", "msr sctlr_el3"),
        *("dc ivac", "dc civac", "ic iallu", "tlbi alle3"),
    )
)
_OF_BOARD = {
    "qemu-virt": frozenset(("hlt #0xf000",)),  # semihosting: leaves the emulator
    "hikey960": frozenset(("msr cntfrq_el0",)),
    # The way to EL2: armstub8.S; the L2 cache's latency: rpi4.c.
    "rpi4": frozenset(
        (
            *("msr cntfrq_el0", "msr cntvoff_el2", "msr sctlr_el2", "msr scr_el3", "msr spsr_el3", "msr elr_el3"),
            *("mrs s3_1_c15_c2_1", "msr s3_1_c15_c2_1", "mrs s3_1_c11_c0_2", "msr s3_1_c11_c0_2", "eret"),
        )
    ),
    # The pseudo-TA's own code; the core has its instructions.
    "optee": frozenset(("isb", "dsb sy", "mrs cntpct_el0", "mrs cntfrq_el0")),
}
# Words of devices that a port uses and its board's description does not name: rpi4.c, armstub8.S.
_OTHER_DEVICES = {
    "rpi4": frozenset((0xFE200004, 0xFF800000, 0xFF800008, 0xFF842004)),
}
# Functions of the core whose every call matters: what is checked, checked again, or wiped.
_STEPS = (
    *("gr_wipe", "gr_unload", "gr_find_register", "gr_fetch_action", "gr_settle", "gr_sha256", "gr_is_same"),
    *("check_signature", "gr_known_answer", "gr_signature_verify", "differences", "gr_stack_excess"),
    "gr_driver_check_write",
    *("gr_caches_drop", "gr_mmu_on", "gr_mmu_off"),
)
# Macros of options, each with a function that only firmware with it has.
OF_FUNCTIONS = {
    HAS_ENCRYPTION: "gr_agree",
    SEAMS[KeyKind.ES256_ML_DSA_44][1]: "gr_ml_dsa_verify",
    SEAMS[KeyKind.ES384][1]: "gr_es384_verify",
    SEAMS[KeyKind.ED25519][1]: "gr_ed25519_verify",
    amalgamate.HAS_NETWORKS: "gr_network_differences",
    amalgamate.HAS_STEPS: "gr_step",
    amalgamate.HAS_SCHEDULE: "move",
}
_LOG_STEPS = ("gr_hmac", "is_hmac_known")  # of firmware with a replay log
_LEFT_OUT = re.compile(r"/\*.*?\*/|^#ifdef GRAMOPHONE_OPERATORS\n.*?^#endif", re.DOTALL | re.MULTILINE)
_WRITES = re.compile(r"\b(gr_port_write32|write64)\(\s*(GR_\w+)")


def system_instructions(platform: str, *, mmu: bool = False) -> frozenset[str]:
    """Those that firmware of a platform may have; of a board of one's own those of all boards.

    Args:
        platform: its name.
        mmu: it turns MMU and caches on.
    """
    found = _OF_BOARD.get(platform, frozenset()) | (frozenset() if platform == "optee" else _EVERYWHERE)
    return found | _OF_MMU if mmu else found


def other_devices(platform: str) -> frozenset[int]:
    """Addresses of registers that the port uses besides those of the board's description."""
    return _OTHER_DEVICES.get(platform, frozenset())


def driver_registers(profile: Profile, on: Collection[str] = ()) -> frozenset[int]:
    """Byte offsets that the nano driver writes by itself, by its source; of repeated blocks in all of them.

    Args:
        profile: the GPU.
        on: macros of options that the firmware has, of OF_FUNCTIONS.
    """
    source = conditionals.resolve("".join(map(read_file_text, driver_files(profile))), OF_FUNCTIONS, on)
    by_name = {
        register_name(register): register.offset for register in (*profile.registers.values(), *profile.others)
    }
    found = set()
    for function, name in _WRITES.findall(source):
        block = (
            re.sub(r"\d+", r"\\d+", re.escape(name), count=1)
            if re.match(r"GR_[A-Z]+0_", name)
            else re.escape(name)
        )
        for other, offset in by_name.items():
            if re.fullmatch(block, other):
                found |= {offset, offset + 4} if function == "write64" else {offset}
    return frozenset(found)


def steps(profile: Profile, board: Board | None, on: Collection[str] = ()) -> dict[str, int]:
    """How often each of some functions is called, by the sources; a firmware need not have those of the log.

    Args:
        profile: the GPU.
        board: where it runs; None: it is not known.
        on: macros of options that it has, of HAS_TRUST and those of OF_FUNCTIONS.
    """
    core = features.sources(on)
    files = [*core, *driver_files(profile)]
    if board is None or not board.runs_optee:
        files += [BARE_METAL / "main.c", BARE_METAL / "port.c"]
        files += [BARE_METAL / "requests.c"] if amalgamate.HAS_SCHEDULE in on else []
    else:
        files.append(CORE.parent / "optee" / "gramophone_pta.c")
    of_log = [features.HERE / "evidence" / "log.c", BARE_METAL / "evidence.c"]
    return {**_calls(files, _STEPS, on), **_calls(of_log, _LOG_STEPS, on)}


def _calls(files: Iterable[Path], names: Iterable[str], on: Collection[str]) -> dict[str, int]:
    # Without comments, and what only some firmware has: calls are expected that all have.
    resolved = [
        conditionals.resolve(read_file_text(path), {amalgamate.HAS_TRUST, *OF_FUNCTIONS}, on) for path in files
    ]
    texts = [re.sub(_LEFT_OUT, "", text) for text in resolved]
    inside = "\n".join(line for text in texts for line in text.splitlines() if line[:1] in (" ", "\t"))
    return {name: count for name in names if (count := len(re.findall(rf"\b{name}\(", inside)))}
