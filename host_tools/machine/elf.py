# SPDX-License-Identifier: BSD-2-Clause
"""What an ELF program needs to run: its interpreter and shared libraries, found as the dynamic linker would."""

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.segments import InterpSegment

from host_tools.machine.errors import RecordError
from trace_format.files import open_regular

# Dynamic tags read here, and the attribute in which pyelftools gives their text.
TEXT_TAGS = {"DT_NEEDED": "needed", "DT_RPATH": "rpath", "DT_RUNPATH": "runpath"}
LIBRARY_FOLDERS = ("usr/lib/aarch64-linux-gnu", "lib/aarch64-linux-gnu", "usr/lib", "lib")


def closure(root: Path, programs: Iterable[str], extra: dict[str, Path] | None = None) -> dict[str, Path]:
    """Guest path -> host file of `programs` and every library they need.

    Args:
        root: the extracted file tree of the guest.
        programs: guest paths without the leading "/": programs and libraries that are loaded at run time.
        extra: files that are not in the tree, by guest path; they may be among `programs`.

    Raises:
        RecordError: a file is missing or not aarch64 ELF, or a library is found nowhere.
    """
    extra = extra or {}
    found: dict[str, Path] = {}
    queue = list(programs)
    while queue:
        path = queue.pop()
        if path in found:
            continue
        host = extra.get(path, root / path)
        if path not in extra and not host.resolve().is_relative_to(root.resolve()):
            raise RecordError(f"{host}: links to {host.resolve()}, outside the guest root")
        found[path] = host
        interpreter, needed, run_path = _links(host)
        if interpreter:
            queue.append(_resolve_in(root, interpreter.lstrip("/")))
        here = PurePosixPath(path).parent
        folders = [_normal(folder.replace("$ORIGIN", str(here))) for folder in run_path] + list(LIBRARY_FOLDERS)
        for library in needed:
            queue.append(_find(root, extra, folders, library, path))
    return dict(sorted(found.items()))


def _links(host: Path) -> tuple[str, list[str], list[str]]:
    """Interpreter ("" when none), needed libraries and run path of one ELF file."""
    interpreter = ""
    needed: list[str] = []
    run_path: list[str] = []
    try:
        with open_regular(host) as file:
            elf = ELFFile(file)
            if elf["e_machine"] != "EM_AARCH64":
                raise RecordError(f"{host}: expected a program for aarch64, found {elf['e_machine']}")
            for segment in elf.iter_segments():
                if isinstance(segment, InterpSegment):
                    interpreter = segment.get_interp_name()
            dynamic = elf.get_section_by_name(".dynamic")
            for tag in dynamic.iter_tags() if isinstance(dynamic, DynamicSection) else ():
                value = getattr(tag, TEXT_TAGS.get(tag.entry.d_tag, ""), "")
                if tag.entry.d_tag == "DT_NEEDED":
                    needed.append(value)
                elif value:
                    run_path += value.split(":")
    except FileNotFoundError as error:
        raise RecordError(f"{host}: file is missing") from error
    except ELFError as error:
        raise RecordError(f"{host}: expected an ELF program: {error}") from error
    return interpreter, needed, run_path


def _find(root: Path, extra: dict[str, Path], folders: list[str], library: str, user: str) -> str:
    for folder in folders:
        path = f"{folder}/{library}"
        if path in extra or (root / path).exists():
            return path
    raise RecordError(f"{user} needs {library}, which is neither in the guest root nor among the given files")


def _resolve_in(root: Path, path: str) -> str:
    """`path`, or where it lies when /lib is a link to usr/lib (which the extracted tree does not have)."""
    return path if (root / path).exists() else f"usr/{path}"


def _normal(path: str) -> str:
    parts: list[str] = []
    for part in path.strip("/").split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)
