# SPDX-License-Identifier: BSD-2-Clause
"""Remakes bifrost_golden.txt: what another program, Mesa's disassembler, says about Bifrost operations.

    apt-get source mesa
    pip install mako
    python tests/unit/make_bifrost_golden.py mesa-22.3.6 [FILE WITH MORE OPERATIONS]

Compiles Mesa's disassembler with a small main program, and asks it about the operations that are in
bifrost_golden.txt already and those of the file: a line each, "*" (FMA) or "+" (ADD) and the encoding in
hexadecimal. Those that Mesa calls invalid or reserved are left out; so are destinations and staging registers,
which are not in an operation's encoding.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

GOLDEN = Path(__file__).with_name("bifrost_golden.txt")
# Ports 0 to 2 are r1 to r3, the FAU port brings uniform 0.
MAIN = r"""
#include <stdbool.h>
#include <stdio.h>
#include "disassemble.h"
const char *bi_flow_control_name(int name) { return ""; } /* of clauses, which are not asked about */
const char *bi_message_type_name(int name) { return ""; }
int main(void)
{
    struct bifrost_regs regs = {.ctrl = 6, .reg0 = 1, .reg1 = 2, .reg2 = 3, .reg3 = 4, .fau_idx = 0x80};
    struct bi_constants constants = {0};
    char unit;
    unsigned word;
    while (scanf(" %c %x", &unit, &word) == 2) {
        printf("%c %06x", unit, word);
        (unit == '*' ? bi_disasm_fma : bi_disasm_add)(stdout, word, &regs, &regs, 0, 0, &constants, false);
    }
}
"""
LINE = re.compile(r"([*+] [0-9a-f]{6}) +[*+](\S+) (?:r4:)?t[01](?:, )?(.*?)(?:,? ?@r0)?")


def oracle(mesa: Path, words: list[str]) -> list[str]:
    """Mesa's text for each operation."""
    with tempfile.TemporaryDirectory() as name:
        folder, bifrost = Path(name), mesa / "src/panfrost/bifrost"
        (folder / "main.c").write_text(MAIN)
        generator = [sys.executable, str(bifrost / "gen_disasm.py"), str(bifrost / "ISA.xml")]
        (folder / "generated.c").write_bytes(subprocess.run(generator, check=True, capture_output=True).stdout)
        flags = ["-w", "-D_GNU_SOURCE", "-DHAVE___BUILTIN_EXPECT", "-DHAVE_PTHREAD"]
        includes = [f"-I{mesa / path}" for path in ("include", "src", "src/panfrost/bifrost", "src/panfrost/lib")]
        sources = [folder / "main.c", folder / "generated.c", bifrost / "disassemble.c"]
        command = ["cc", *flags, *includes, *sources, "-o", folder / "oracle"]
        subprocess.run(list(map(str, command)), check=True)
        said = subprocess.run(
            [folder / "oracle"], input="\n".join(words), text=True, check=True, capture_output=True
        ).stdout
    return said.splitlines()


def main() -> None:
    """Write the file."""
    words = [" ".join(line.split()[:2]) for line in GOLDEN.read_text().splitlines()] if GOLDEN.exists() else []
    for more in sys.argv[2:]:
        words += Path(more).read_text().splitlines()
    lines = []
    for text in oracle(Path(sys.argv[1]), sorted(set(words))):
        found = LINE.fullmatch(text.strip())
        if found and "reserved" not in text and "INVALID" not in text:
            lines.append(" ".join(filter(None, found.groups())))
    GOLDEN.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
