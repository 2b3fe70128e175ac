# SPDX-License-Identifier: BSD-2-Clause
"""Remakes qpu_golden.txt and qpu_golden71.txt: what Mesa's disassembler says about QPU instruction words.

    apt-get source mesa
    python tests/vgpu/make_qpu_golden.py 42 mesa-22.3.6 [FILE WITH MORE WORDS, one in hexadecimal a line]
    python tests/vgpu/make_qpu_golden.py 71 mesa-25.0.7 [FILE...]

Compiles the QPU part of Mesa's sources with a small main program, and asks it about the words that are in
the file already and those of the other one. Words that Mesa refuses get the text "-".
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
GOLDEN = {"42": HERE / "qpu_golden.txt", "71": HERE / "qpu_golden71.txt"}
# Of the words of a version: what Mesa decodes and has no text for; what it must not be asked, as half precision is
# "pending" there for 7.1.
WORDS = {
    "42": ("instr.sig.small_imm && instr.raddr_b > 47", "0"),
    "71": (
        "(instr.sig.small_imm_a && instr.alu.add.a.raddr > 47)"
        " || (instr.sig.small_imm_b && instr.alu.add.b.raddr > 47)"
        " || (instr.sig.small_imm_c && instr.alu.mul.a.raddr > 47)"
        " || (instr.sig.small_imm_d && instr.alu.mul.b.raddr > 47)"
        " || instr.alu.add.a.unpack > V3D_QPU_UNPACK_SWAP_16 || instr.alu.mul.a.unpack > V3D_QPU_UNPACK_SWAP_16",
        "(word >> 24 & 255) - 176 < 5 || (word >> 58) - 4 < 5",
    ),
}
# Mesa reads names past the end of its table of magic write addresses: ask about 0 to 55 only.
MAIN = r"""
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include "broadcom/common/v3d_device_info.h"
#include "broadcom/qpu/qpu_disasm.h"
#include "broadcom/qpu/qpu_instr.h"
size_t u_printf_length(const char *format, va_list args) /* all that ralloc.c needs of the rest of util */
{
    va_list copy;
    va_copy(copy, args);
    return vsnprintf(NULL, 0, format, copy);
}
int main(void)
{
    struct v3d_device_info device = {.ver = VERSION};
    uint64_t word;
    while (scanf("%" SCNx64, &word) == 1) {
        struct v3d_qpu_instr instr = {0};
        int ok = !(word >> 58 && (UNASKED)) && v3d_qpu_instr_unpack(&device, word, &instr);
        int beyond = instr.type == V3D_QPU_INSTR_TYPE_ALU &&
                     ((instr.alu.add.magic_write && instr.alu.add.waddr > 55) ||
                      (instr.alu.mul.magic_write && instr.alu.mul.waddr > 55) ||
                      (instr.sig_magic && instr.sig_addr > 55) || (BEYOND));
        printf("%016" PRIx64 " %s\n", word, ok && !beyond ? v3d_qpu_decode(&device, &instr) : "-");
    }
}
"""


def oracle(version: str, mesa: Path, words: list[str]) -> list[str]:
    """Mesa's text for each word."""
    beyond, unasked = WORDS[version]
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "main.c", Path(folder) / "oracle"
        source.write_text(MAIN.replace("VERSION", version).replace("BEYOND", beyond).replace("UNASKED", unasked))
        qpu = [mesa / "src/broadcom/qpu" / f"qpu_{part}.c" for part in ("disasm", "instr", "pack")]
        flags = ["-w", "-D_GNU_SOURCE", "-DHAVE_STRUCT_TIMESPEC", "-DHAVE_ENDIAN_H", "-DHAVE_PTHREAD", "-DNDEBUG"]
        flags += ["-DUTIL_ARCH_LITTLE_ENDIAN=1", "-DUTIL_ARCH_BIG_ENDIAN=0"]
        includes = [f"-I{mesa / path}" for path in ("include", "src", "src/broadcom")]
        command = ["cc", *flags, *includes, source, *qpu, mesa / "src/util/ralloc.c", "-lm", "-o", program]
        subprocess.run(list(map(str, command)), check=True)
        run = subprocess.run([program], input="\n".join(words), capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def main() -> None:
    version, mesa, *more = sys.argv[1:]
    golden = GOLDEN[version]
    words = {line.split()[0] for line in golden.read_text().splitlines()} if golden.exists() else set()
    for path in more:
        words |= {f"{int(line, 16):016x}" for line in Path(path).read_text().split()}
    found = oracle(version, Path(mesa), sorted(words))
    lines = [re.sub(r"\s*;\s*", "; ", re.sub(r"\s+", " ", line)).strip() for line in found]
    golden.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
