"""Prints what of the firmware takes how many bytes of flash: by function and constant, by file, by part.

Usage: size.py CROSS_COMPILE FIRMWARE.elf OBJECT... [--json]

A symbol belongs to the object file that defines it; what the compiler inlined counts where it ended up.
"""

import json
import re
import subprocess
import sys
from collections import Counter

FLASH = (".text", ".rodata")
Row = tuple[int, str, str]  # bytes, symbol, object file


def symbols(cross: str, file: str) -> list[tuple[int, str]]:
    """(bytes, name) of each function and constant that `file` defines."""
    command = [f"{cross}readelf", "-sW", file]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in text.splitlines()]
    names = sections(cross, file)
    return [
        (int(row[2], 0), row[7])
        for row in rows
        if len(row) == 8 and row[3] in ("FUNC", "OBJECT") and names.get(row[6], "").startswith(FLASH)
    ]


def sections(cross: str, file: str) -> dict[str, str]:
    """Names of the sections by number."""
    text = subprocess.run([f"{cross}readelf", "-SW", file], check=True, capture_output=True, text=True).stdout
    return dict(re.findall(r"^ *\[ *(\d+)\] (\S+)", text, re.MULTILINE))


def base_name(name: str) -> str:
    """Name in the source of a function that the compiler split, cloned or made local."""
    return re.sub(r"(\.(constprop|isra|part|cold|lto_priv)(\.\d+)*|\.\d+)+$", "", name)


def flash_bytes(cross: str, elf: str) -> int:
    """Bytes of the sections that lie in flash: code and read-only data."""
    text = subprocess.run([f"{cross}size", "-A", "-d", elf], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in text.splitlines()]
    return sum(int(row[1]) for row in rows if len(row) == 3 and row[0].startswith(FLASH))


def part(file: str) -> str:
    if file.startswith("bearssl/") or file == "crypto.o":
        return "crypto (BearSSL)"
    return "replayer" if file == "replayer.o" else "port"


def main() -> None:
    cross, elf, *objects = (argument for argument in sys.argv[1:] if argument != "--json")
    homes = {base_name(name): file for file in objects for _, name in symbols(cross, file)}
    rows: list[Row] = sorted(
        ((size, name, homes.get(base_name(name), "?")) for size, name in symbols(cross, elf)), reverse=True
    )
    total = flash_bytes(cross, elf)
    files: Counter[str] = Counter()
    parts: Counter[str] = Counter()
    for size, _, file in rows:
        files[file] += size
        parts[part(file)] += size
    rest = total - sum(files.values())
    parts["port"] += rest
    own = parts["replayer"] + parts["port"]
    if "--json" in sys.argv:
        print(json.dumps({"total": total, "own": own, "crypto": total - own, "files": files, "rest": rest}))
        return
    for size, name, file in rows:
        print(f"{size:6}  {name:34}{file}")
    print("-" * 60)
    for file, size in files.most_common():
        print(f"{size:6}  {file}")
    print(f"{rest:6}  start-up code, vectors, literals, padding")
    print("-" * 60)
    print(f"{parts['replayer']:6}  replayer")
    print(f"{parts['port']:6}  port and start-up")
    print(f"{own:6}  own code and constants")
    print(f"{total - own:6}  crypto library and its seam")
    print(f"{total:6}  code and read-only data in all")


main()
