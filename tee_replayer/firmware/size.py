# SPDX-License-Identifier: BSD-2-Clause
"""Prints how many bytes of flash each part of the firmware takes: by function and constant, by file, by part.

Usage: size.py CROSS_COMPILE FIRMWARE.elf OBJECT... [--json]

A symbol belongs to the object file that defines it. Inlined code counts where it ended up.
"""

import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

FLASH = (".text", ".rodata")
CODE, CONSTANT = "FUNC", "OBJECT"
CRYPTO, REPLAYER, PORT = "crypto library and its seam", "replayer", "port and start-up"


def readelf(cross: str, *arguments: str) -> str:
    return subprocess.run(
        [f"{cross}readelf", *arguments], check=True, capture_output=True, encoding="utf-8", errors="replace"
    ).stdout


def symbols(cross: str, file: str) -> list[tuple[int, str, str]]:
    """(bytes, kind, name) of each function and constant in the flash sections of `file`; of several names of one
    place, the first."""
    names = dict(re.findall(r"^ *\[ *(\d+)\] (\S+)", readelf(cross, "-SW", file), re.MULTILINE))
    rows = [line.split() for line in readelf(cross, "-sW", file).splitlines()]
    found: dict[tuple[str, ...], tuple[int, str, str]] = {}
    for row in rows:
        if len(row) == 8 and row[3] in (CODE, CONSTANT) and names.get(row[6], "").startswith(FLASH):
            found.setdefault((row[6], row[1], row[2]), (int(row[2], 0), row[3], row[7]))
    return list(found.values())


def base_name(name: str) -> str:
    """Name in the source of a function that the compiler split, cloned or made local."""
    return re.sub(r"(\.(constprop|isra|part|cold|lto_priv)(\.\d+)*|\.\d+)+$", "", name)


def defining_source(name: str) -> str:
    """The source of a function that its object does not keep: link-time optimisation inlines less."""
    for path in sorted(Path().rglob("*.[ch]")):
        if re.search(rf"^(static [\w ]+ \*?)?{name}\(", path.read_text(encoding="utf-8"), re.MULTILINE):
            return str(path)
    return "?"


def part(file: str) -> str:
    if file.startswith(("bearssl/", "aws-lc/", "crypto.")):
        return CRYPTO
    return REPLAYER if file.startswith("replayer.") else PORT


def flash_bytes(cross: str, elf: str) -> int:
    """Bytes of the sections that lie in flash: code and read-only data."""
    rows = re.findall(r"^ *\[ *\d+\] (\S+) +\w+ +\w+ +\w+ +(\w+)", readelf(cross, "-SW", elf), re.MULTILINE)
    return sum(int(size, 16) for name, size in rows if name.startswith(FLASH))


def main() -> None:
    cross, elf, *objects = (argument for argument in sys.argv[1:] if argument != "--json")
    homes = {base_name(name): file for file in objects for _, _, name in symbols(cross, file)}
    rows = []
    for size, kind, name in symbols(cross, elf):
        base = base_name(name)
        rows.append((size, kind, name, homes.get(base) or defining_source(base)))
    files: Counter[str] = Counter()
    sums: Counter[tuple[str, str]] = Counter()
    for size, kind, _, file in rows:
        files[file] += size
        sums[part(file), kind] += size
    for file in objects:
        if file.startswith("aws-lc/"):  # assembly: constants have no symbols
            unnamed = flash_bytes(cross, file) - sum(size for size, _, _ in symbols(cross, file))
            files[file] += unnamed
            sums[CRYPTO, CONSTANT] += unnamed
    total = flash_bytes(cross, elf)
    rest = total - sum(files.values())  # assembly, literals, jump tables, padding
    sums[PORT, CODE] += rest
    own = {kind: sums[REPLAYER, kind] + sums[PORT, kind] for kind in (CODE, CONSTANT)}
    if "--json" in sys.argv:
        crypto = sums[CRYPTO, CODE] + sums[CRYPTO, CONSTANT]
        found = {"own_code": own[CODE], "own_constants": own[CONSTANT], "crypto": crypto, "total": total}
        print(json.dumps(found))
        return
    for size, _, name, file in sorted(rows, reverse=True):
        print(f"{size:6}  {name:34}{file}")
    print("-" * 60)
    for file, size in files.most_common():
        print(f"{size:6}  {file}")
    print(f"{rest:6}  start-up, string functions, literals, jump tables, padding")
    print("-" * 60)
    print("  code  constants")
    for name in (REPLAYER, PORT, CRYPTO):
        print(f"{sums[name, CODE]:6}  {sums[name, CONSTANT]:9}  {name}")
    print(f"{own[CODE]:6}  {own[CONSTANT]:9}  our own")
    print(f"{total:6}  in all")
    for path in (Path(elf), Path(elf).with_suffix(".bin")):
        if path.is_file():
            print(f"{path.name}  sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}")


main()
