# SPDX-License-Identifier: BSD-2-Clause
"""What the compiler makes of a generated replayer.c is what it makes of the sources as they are, to the byte."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tee_replayer import features
from tee_replayer.generator import amalgamate, target
from tee_replayer.generator.evidence import HERE as LOG
from tee_replayer.generator.evidence import Evidence
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tee_replayer.generator.status import CORE
from tests.support import crypto_trees
from tests.support import replayer_samples as s
from tests.support.firmware_samples import GCC
from trace_format import profile as profiles
from trace_format.emit import GENERATED
from trace_format.operators import OPERATORS, Operator

# As a firmware's Makefile has them, but for link-time optimisation: code of one file, in its final order.
FLAGS = (
    *("-std=c11", "-Os", "-ffreestanding", "-march=armv8-a", "-mgeneral-regs-only", "-mstrict-align", "-fno-pic"),
    *("-fno-asynchronous-unwind-tables", "-fno-common", "-fno-jump-tables", "-DGR_CARVEOUT_BYTES=0x2000000"),
    *("-DGR_STAGING_BYTES=0x100000",),
)
ALL = tuple(OPERATORS)


@pytest.mark.skipif(shutil.which(GCC) is None, reason=f"{GCC} is missing: apt-get install gcc-aarch64-linux-gnu")
@pytest.mark.parametrize(
    ("gpu", "platform", "operators", "evidence"),
    [
        ("v3d42", "qemu-virt", (), Evidence()),
        ("v3d42", "qemu-virt", ALL, Evidence(True, True, True)),
        pytest.param("v3d42", "qemu-virt", (Operator.COPY,), Evidence(True, True), marks=pytest.mark.exhaustive),
        pytest.param("v3d71", "optee", (), Evidence(True), marks=pytest.mark.exhaustive),
        pytest.param("v3d42", "linux", (), Evidence(), marks=pytest.mark.exhaustive),
        pytest.param("mali_g71", "hikey960", (Operator.MATMUL,), Evidence(), marks=pytest.mark.exhaustive),
        ("mali_g52r1", "optee", ALL, Evidence(True, False, True)),
    ],
    ids=lambda value: str(len(value)) if isinstance(value, tuple) else getattr(value, "words", value) or "plain",
)
def test_the_code_is_that_of_the_sources(
    tmp_path: Path,
    gpu: str,
    platform: str,
    operators: tuple[Operator, ...],
    evidence: Evidence,
) -> None:
    libraries = crypto_trees.empty(tmp_path)
    out = generate(
        Options(gpu, platform_of(platform), s.KEY, libraries, operators=operators, evidence=evidence),
        tmp_path / "out",
    )
    optee = [] if platform == "optee" else ["-UGR_STAGING_BYTES"]
    assert _code(out / "replayer.c", [*optee, "-Wall", "-Wextra", "-Wconversion", "-Werror"]) == _code(
        _sources(tmp_path / "plain", gpu, out, evidence), optee
    )


def _sources(folder: Path, gpu: str, out: Path, evidence: Evidence) -> Path:
    """One file that includes the sources, whose conditionals the compiler resolves, after the generated header."""
    folder.mkdir()
    profile = profiles.load(gpu)
    (folder / "gr_target.h").write_text(target.header(profile))
    # The generated header has these already; include guards keep a second one out.
    guards = ["CRYPTO", "LOG", "LOG_CRYPTO", "ATTEST", "TELL", "FORMAT_REPORT", "FORMAT_LOG", "FORMAT_DEVICE"]
    files = [GENERATED / "gramophone_trace.h", folder / "gr_target.h", CORE / "internal.h", CORE / "driver.h"]
    files += [CORE / "load.h", target.driver_source(profile)]
    files += features.sources(amalgamate.options((out / "replayer.h").read_text()))
    files += [LOG / "log.c"] * evidence.log + [LOG / "attest.c"] * evidence.attestation
    lines = [*(f"#define GRAMOPHONE_{guard}_H" for guard in guards), "#define GR_INTERNAL static"]
    lines += [f'#include "{path}"' for path in (out / "replayer.h", *files)]
    text, last = (out / "replayer.c").read_text(), "    return again;\n}\n"
    device = text[text.index("const struct gr_device gr_device = {") : text.index(last) + len(last)]
    pages = "GR_CARVEOUT_BYTES" + (" - GR_STAGING_BYTES" if _is_optee(out) else "")
    lines += [f"#define GR_CARVEOUT_PAGES (((uint64_t){pages}) / 4096)"]
    lines += [device]
    (folder / "replayer.c").write_text("\n".join(lines) + "\n")
    return folder / "replayer.c"


def _is_optee(out: Path) -> bool:
    return (out / "gramophone_pta.c").exists()


def _code(source: Path, options: list[str]) -> list[str]:
    """Code and data by section, with the names in it and what is still to be linked, as objdump prints them."""
    made = source.with_suffix(".o")
    include = [f"-I{folder}" for folder in (source.parent, CORE, GENERATED, LOG)]
    subprocess.run([GCC, *FLAGS, *options, *include, "-c", "-o", str(made), str(source)], check=True)
    dump = [GCC.replace("gcc", "objdump"), "-d", "-r", "-s", made.name]
    found = subprocess.run(dump, cwd=source.parent, capture_output=True, text=True, check=True).stdout.splitlines()
    assert any("<gr_run>" in line for line in found)
    return found
