# SPDX-License-Identifier: BSD-2-Clause
"""UIO for the guest: Debian's uio.ko, and uio_pdrv_genirq.ko, which Debian's arm64 kernels leave out.

The second is compiled from Debian's source of the same kernel, unmodified, with that kernel's headers. The
kernel's own build system runs programs of the guest's release (modpost), so what it adds is written here: the
module's description and the versions of the symbols that it uses (Linux scripts/mod/modpost.c: add_header,
add_versions).
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from host_tools.machine import kernel_modules
from host_tools.machine.apt import AptRoot
from host_tools.machine.errors import RecordError
from host_tools.machine.initramfs import MODULES
from host_tools.machine.root import ARCHITECTURE, SUITE, UNUSED, RecordRoot
from host_tools.support import programs
from host_tools.support.cache import cache_dir, made_once
from trace_format import limits
from trace_format.files import open_regular, read_file, read_file_text

CROSS = "aarch64-linux-gnu-"
NAME, NEEDED = "uio_pdrv_genirq", "uio"
SOURCE = f"drivers/uio/{NAME}.c"
# What their packages would pull in: compilers and tools of the guest's release.
TOOLS = ("binutils", "xz-utils", "linux-base", "linux-image", "linux-kbuild", "gcc-14", "libc6", "pahole")
# As the kernel compiles its modules (arch/arm64/Makefile), less what this compiler need not have.
FLAGS = (
    *("-std=gnu11", "-O2", "-w", "-nostdinc", "-mlittle-endian", "-mgeneral-regs-only", "-mabi=lp64"),
    *("-mbranch-protection=pac-ret", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-PIE"),
    *("-fno-strict-aliasing", "-fno-common", "-fshort-wchar", "-fno-delete-null-pointer-checks"),
    *("-fno-stack-protector", "-fno-strict-overflow", "-D__KERNEL__", "-DMODULE", "-DKASAN_SHADOW_SCALE_SHIFT="),
    *(f'-DKBUILD_BASENAME="{NAME}"', f'-DKBUILD_MODNAME="{NAME}"', f"-D__KBUILD_MODNAME=kmod_{NAME}"),
)
DESCRIPTION = """\
#define INCLUDE_VERMAGIC
#include <linux/module.h>
#include <linux/vermagic.h>

MODULE_INFO(vermagic, VERMAGIC_STRING);
MODULE_INFO(name, KBUILD_MODNAME);
MODULE_INFO(depends, "{needed}");
__visible struct module __this_module __section(".gnu.linkonce.this_module") = {{
    .name = KBUILD_MODNAME, .init = init_module, .exit = cleanup_module, .arch = MODULE_ARCH_INIT}};
static const struct modversion_info versions[] __used __section("__versions") = {{
{versions}}};
"""


def modules(root: RecordRoot) -> dict[str, bytes]:
    """The two modules by guest path, in the order in which they are loaded; made once for a kernel.

    Raises:
        RecordError: a package cannot be obtained or is of another kernel than the root's, or the cross compiler is
            missing or does not take the source.
    """
    own = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    folder = made_once(cache_dir("record", "modules") / f"{root.key}-{own}", lambda fresh: _make(root, fresh))
    names = [f"{name}.ko" for name in (NEEDED, NAME)]
    return {f"{MODULES}/{name}": read_file(folder / name) for name in names}


def _make(root: RecordRoot, fresh: Path) -> None:
    release = root.versions["kernel"]
    work = fresh.with_name("work")
    image = AptRoot(SUITE, ARCHITECTURE, "record", assume=UNUSED, stamp=root.snapshot)
    image.download(["linux-image-arm64"])
    image.extract(work, keep=lambda path: kernel_modules.is_wanted(path, ("kernel/drivers/uio/",)))
    tools = (*TOOLS, f"linux-kbuild-{release.removesuffix('-arm64')}", f"linux-image-{release}")
    purpose = f"source and headers of the guest's kernel, of which {NAME} is made"
    apt = AptRoot(SUITE, ARCHITECTURE, "kernel", purpose, assume=tools, stamp=root.snapshot)
    version = next(value for name, value in root.versions.items() if name.startswith("linux-image-"))
    series = re.match(r"\d+\.\d+", release)
    assert series is not None, release
    apt.download([f"{name}={version}" for name in (f"linux-headers-{release}", f"linux-source-{series[0]}")])
    apt.extract(work)
    built = work / MODULES / release
    if not built.is_dir():
        raise RecordError(f"expected the modules of kernel {release}, that of the recording root, found others")
    fresh.mkdir()
    (fresh / f"{NEEDED}.ko").write_bytes(kernel_modules.load_order(built, [NEEDED])[NEEDED])
    headers = work / "usr/src"
    with (
        open_regular(next(headers.glob("linux-source-*.tar.xz"))) as file,
        tarfile.open(fileobj=file) as archive,
    ):
        for member in archive:  # to the one that is needed, and no further: the archive has 1.4 GB
            if member.name.endswith(f"/{SOURCE}"):
                content = archive.extractfile(member)
                assert content is not None
                (work / f"{NAME}.c").write_bytes(content.read())
                break
    _compile(work, headers / f"linux-headers-{release}", fresh / f"{NAME}.ko")
    shutil.rmtree(work)


def _compile(work: Path, headers: Path, module: Path) -> None:
    """Compile and link the module; `headers` is the folder of the kernel's architecture."""
    common = headers.with_name(headers.name.removesuffix("arm64") + "common")
    arch = "arch/arm64/include"
    folders = [common / arch, headers / arch / "generated", common / "include", headers / "include"]
    folders += [common / arch / "uapi", headers / arch / "generated/uapi"]
    folders += [common / "include/uapi", headers / "include/generated/uapi"]
    command = [f"{CROSS}gcc", *FLAGS, "-isystem", _run([f"{CROSS}gcc", "-print-file-name=include"]).strip()]
    command += [f"-I{folder}" for folder in folders]
    for name in ("compiler-version.h", "kconfig.h", "compiler_types.h"):
        command += ["-include", str(common / "include/linux" / name)]
    own = work / f"{NAME}.o"
    _run([*command, "-c", "-o", str(own), str(work / f"{NAME}.c")])
    undefined = {line.split()[-1] for line in _run([f"{CROSS}nm", "--undefined-only", str(own)]).splitlines()}
    exported = {
        fields[1]: fields[0]
        for line in read_file_text(headers / "Module.symvers", limits.TEXT_BYTES).splitlines()
        if (fields := line.split("\t"))
    }
    used = sorted((undefined | {"module_layout"}) & exported.keys())
    versions = "".join(f'    {{{exported[name]}, "{name}"}},\n' for name in used)
    description = work / f"{NAME}.mod.c"
    description.write_text(DESCRIPTION.format(needed=NEEDED, versions=versions), encoding="ascii")
    _run([*command, "-c", "-o", str(description.with_suffix(".o")), str(description)])
    script = work / "module.lds"
    source = common / arch / "asm/module.lds.h"
    script.write_text(_run([f"{CROSS}gcc", "-E", "-P", "-x", "assembler-with-cpp", str(source)]), encoding="ascii")
    objects = [str(own), str(description.with_suffix(".o"))]
    _run([f"{CROSS}ld", "-r", "-T", str(script), "-o", str(module), *objects])


def _run(command: list[str]) -> str:
    """Run a program of the cross toolchain; its output."""
    try:
        done = programs.run(command)
    except FileNotFoundError:
        raise RecordError(f"{command[0]} is missing: apt-get install gcc-aarch64-linux-gnu") from None
    except subprocess.SubprocessError as error:
        raise RecordError(f"{command[0]}: {error}") from error
    if done.returncode:
        raise RecordError(f"{NAME} does not compile: {done.stderr.strip()[-2000:]}")
    return done.stdout
