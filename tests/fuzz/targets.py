# SPDX-License-Identifier: BSD-2-Clause
"""The fuzz targets in C: what each is made of, and how it is compiled.

What is fuzzed is compiled with libFuzzer's counters, AddressSanitizer and UndefinedBehaviorSanitizer. What is
around it (ports, oracles) is not: it is trusted, and a run then takes a tenth of the time.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import baremetal
from host_tools.runners import libraries
from host_tools.vgpu import build as build_vgpu
from signing import envelope
from tee_replayer import features
from tee_replayer.features import operators
from tee_replayer.generator import profiles, target
from tee_replayer.generator.profiles import Features
from tee_replayer.generator.status import CORE
from tests.fuzz import encryption_corpus, policy, trust_corpus
from tests.support import profile_sources, replayer_samples, trust_samples
from trace_format import profile
from trace_format.emit import GENERATED
from trace_format.errors import GramophoneError
from trace_format.operators import OPERATORS

HERE = Path(__file__).parent
C = HERE / "c"
CORPUS = HERE / "corpus"
# GPUs with a nano driver of their own: another GPU's is fuzzed there. A GPU with command streams is not yet among
# them: the fuzzer's registers would have to answer as its firmware does.
GPUS = [gpu for gpu in target.drivers() if profile.load(gpu).driver == gpu and not profile.load(gpu).streams]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
HASH = ("src/hash/sha2small.c", "src/codec/dec32be.c", "src/codec/enc32be.c", "src/mac/hmac.c")


@dataclass(frozen=True)
class Target:
    """A fuzz target.

    Attributes:
        name: also of its corpus.
        fuzzed: C files that are looked for mistakes, and whose coverage is counted.
        around: the target itself, and what it needs.
        headers: generated ones, by name.
        include: folders.
        flags: for the compiler and the linker.
        corpora: folders of the committed inputs, below CORPUS; (): the one of its name.
        max_len: bytes of an input, at most.
        inside: C files that are compiled with sanitizers too.
        hashes: whether it needs BearSSL's SHA-256.
    """

    name: str
    fuzzed: Sequence[Path]
    around: Sequence[Path]
    headers: dict[str, Callable[[], str]] = field(default_factory=dict)
    include: Sequence[Path] = ()
    flags: Sequence[str] = ()
    corpora: Sequence[str] = ()
    max_len: int = 4096
    hashes: bool = True
    inside: Sequence[Path] = ()

    @property
    def seeds(self) -> list[Path]:
        """Folders of the committed inputs."""
        return [CORPUS / name for name in self.corpora or [self.name]]


CORE_PARTS = (
    "core.c",
    "core_mutator.c",
    "core_scene.c",
    "core_pack.c",
    "core_oracles.c",
    "core_features.c",
    "seam.c",
)
JOINT = ("-DGRAMOPHONE_NETWORKS=3", "-DGRAMOPHONE_STEPS", "-DGRAMOPHONE_SCHEDULE=3")
# Profiles that are fuzzed with the drivers of both GPUs: one network, and all that a driver does for several.
ON_BOTH = ("plain", "scheduled")


def c_array(name: str, data: bytes) -> str:
    """A constant in C."""
    return f"static const uint8_t {name}[] __attribute__((unused)) = {{{','.join(map(str, data))}}};\n"


def file_head(has: Features) -> str:
    """What lies before a trace, in C, and who can read an encrypted one."""
    trace = replayer_samples.trace().build()
    if has.trust:
        head = trust_samples.join(trace, trust_corpus.good())
    else:
        head = envelope.join(envelope.Envelope(replayer_samples.ES256.alg, bytes(16), bytes(64)), trace)
    arrays = c_array("fuzz_envelope", head[: -len(trace)]) + c_array("fuzz_message", encryption_corpus.message(1))
    return f"#pragma once\n#include <stdint.h>\n{arrays}"


def core(profile_name: str, gpu: str) -> Target:
    """A profile's core and features with the nano driver of a GPU."""
    has = profiles.named(profile_name).features
    driver = target.driver_source(profile.load(gpu))
    parts = list(CORE_PARTS)
    if has.networks:
        parts.append("core_networks.c")
    if has.schedule:
        parts.append("core_requests.c")
    if has.streaming:
        parts.append("core_pieces.c")
    wrapped = ["gr_driver_reset", "gr_driver_set_table", *(["gr_driver_switch"] if has.networks else [])]
    corpora = ["core", *(name for name, wanted in SCENES.items() if wanted(has))]
    return Target(
        f"core-{profile_name}-{gpu}",
        [*profile_sources.sources(has), driver],
        [C / name for name in parts],
        {
            "gr_target.h": lambda: target.header(profile.load(gpu)),
            "fuzz_policy.h": lambda: policy.header(gpu),
            "fuzz_envelope.h": lambda: file_head(has),
            "fuzz_trust.h": trust_corpus.header,
            profile_sources.OPTIONS: lambda: profile_sources.defines(has),
        },
        include=[CORE.parent / "crypto", *(path for path in sorted(features.HERE.iterdir()) if path.is_dir())],
        flags=["-Wl," + ",".join(f"--wrap={name}" for name in wrapped), f"-include{profile_sources.OPTIONS}"],
        corpora=[f"{name}-{gpu}" for name in corpora],
        max_len=1920,
    )


# Scenes of features, by the name of their corpus.
SCENES: dict[str, Callable[[Features], bool]] = {
    "joint": lambda has: has.networks > 0,
    "encrypted": lambda has: has.encryption,
    "computing": lambda has: bool(has.operators),
    "streamed": lambda has: has.streaming,
}


def sample_trace(networks: int = 1) -> str:
    """A header with a signed trace of the V3D, each of whose networks copies its input to its output."""
    sample = replayer_samples.trace() if networks == 1 else replayer_samples.joint(networks)
    data = replayer_samples.signed(sample)
    return f"#pragma once\n#include <stdint.h>\n{c_array('fuzz_trace', data)}"


def key_id() -> str:
    """The sample trace's, in C."""
    return "{" + ", ".join(str(byte) for byte in replayer_samples.KEY.kid) + "}"


def policy_text() -> str:
    """A device that accepts the sample trace."""
    return (
        "static inline struct gr_policy gr_device_policy(void)\n{\n"
        f"    static const uint8_t key[65] = {{4}}, key_id[16] = {key_id()};\n"
        "    return (struct gr_policy){key, key_id, 0};\n}\n"
    )


def board() -> str:
    """What port.h takes of a board, with memory where this machine has none and no instructions of an Arm core."""
    return (
        '#pragma once\n#include <setjmp.h>\n#include <stdlib.h>\n#include <string.h>\n#include "replayer.h"\n'
        '#define volatile(...) ("")\n'
        "#define GR_MAILBOX_AT UINT64_C(0x50000000)\n#define GR_MAILBOX_BYTES UINT64_C(0x10000)\n"
        "#define GR_CARVEOUT_BASE UINT64_C(0x40000000)\n#define GR_CARVEOUT_BYTES UINT64_C(0x30000)\n"
        "#define GR_GPU_BASE UINT64_C(0)\n" + policy_text()
    )


def around_v3d(
    name: str,
    fuzzed: Sequence[Path],
    headers: dict[str, Callable[[], str]],
    around: Sequence[str] = (),
    **more: Any,
) -> Target:
    """A target around the core: that is compiled with sanitizers too, and its coverage not counted."""
    core_of = {
        "gr_target.h": lambda: target.header(profile.load("v3d42")),
        "fuzz_policy.h": lambda: policy.header("v3d42"),
    }
    generated = {**core_of, "fuzz_trace.h": sample_trace, **headers}
    own = [*(C / file for file in around or (f"{name}.c",)), C / "device.c", C / "seam.c"]
    on = {flag.removeprefix("-D").partition("=")[0] for flag in more.get("flags", ())}
    inside = [*features.sources(on), target.driver_source(profile.load("v3d42"))]
    return Target(name, fuzzed, own, generated, inside=inside, **more)


def virtual(gpu: str, prefix: str) -> Target:
    """A virtual GPU."""
    every = build_vgpu.gpu_sources()
    return Target(
        f"vgpu-{gpu}",
        [path for path in every if path.name.startswith(prefix)],
        [C / "vgpu.c"],
        {"fuzz_policy.h": lambda: policy.header(gpu)},
        include=build_vgpu.FOLDERS,
        flags=[f'-DFUZZ_GPU="{gpu}"', "-ffp-contract=off", "-march=native"],
        max_len=2048,
        hashes=False,
        inside=[path for path in every if not path.name.startswith(prefix)],
    )


BAREMETAL = Path(baremetal.__file__).parent
OPTEE, LOG, LINUX = CORE.parent / "optee", features.HERE / "evidence", CORE.parent / "linux"
# What a generated replayer.h has besides, where there is a log.
DEVICE = '#include "attest.h"\n' + "static const struct gr_device { uint8_t bytes[128]; } gr_device;\n"
FAKE_KERNEL: dict[str, Callable[[], str]] = {
    "kernel/pseudo_ta.h": lambda: '#include "fake_optee.h"\n#include "driver.h"\n' + policy_text(),
    "kernel/user_access.h": lambda: "",
    "util.h": lambda: "",
}
TARGETS = {
    found.name: found
    for found in (
        *(core(name, gpu) for name in profiles.load() for gpu in (GPUS if name in ON_BOTH else ["v3d42"])),
        virtual("v3d42", "v3d"),
        virtual("mali_g71", "mali"),
        around_v3d(
            "mailbox",
            [BAREMETAL / "main.c"],
            {"gramophone_board.h": board},
            include=[BAREMETAL],
            max_len=1024,
        ),
        around_v3d(
            "mailbox-requests",
            [BAREMETAL / "main.c"],
            {"gramophone_board.h": board, "fuzz_trace.h": lambda: sample_trace(networks=2)},
            around=["mailbox.c"],
            include=[BAREMETAL],
            flags=JOINT,
            max_len=1024,
        ),
        around_v3d(
            "mailbox-log",
            [BAREMETAL / "main.c", LOG / "log.c", LOG / "attest.c"],
            {"gramophone_board.h": lambda: board() + DEVICE},
            around=["mailbox.c", "log_port.c"],
            include=[BAREMETAL, LOG, CORE.parent / "crypto"],
            flags=["-DGRAMOPHONE_LOG", "-DGRAMOPHONE_LOG_HASHES", "-DGRAMOPHONE_ATTEST"],
            max_len=1024,
        ),
        around_v3d(
            "log",
            [LOG / "log.c", LOG / "attest.c"],
            {"gramophone_board.h": lambda: board() + DEVICE},
            around=["log.c", "log_port.c"],
            include=[BAREMETAL, LOG, CORE.parent / "crypto"],
            flags=["-DGRAMOPHONE_LOG", "-DGRAMOPHONE_LOG_HASHES", "-DGRAMOPHONE_ATTEST"],
            max_len=1024,
        ),
        Target(
            "linux-npy",
            [LINUX / "npy.c"],
            [C / "npy.c"],
            include=[LINUX],
            max_len=2048,
            hashes=False,
            inside=[LINUX / "sysfs.c"],
        ),
        around_v3d(
            "linux",
            [LINUX / name for name in ("main.c", "gramophone_gpu.c", "npy.c", "sysfs.c", "source.c")],
            {"replayer.c": lambda: '#include "driver.h"\n' + policy_text(), "crypto.c": lambda: ""},
            include=[LINUX],
            flags=["-Dmain=fuzzed_main"],
        ),
        around_v3d(
            "pta",
            [OPTEE / "gramophone_pta.c"],
            FAKE_KERNEL,
            include=[OPTEE],
            flags=["-DGR_FIREWALL_BASE=1", "-DGR_CARVEOUT_BYTES=0x40000", "-DGR_STAGING_BYTES=0x4000"],
            max_len=1024,
        ),
        around_v3d(
            "pta-sharing",
            [OPTEE / "gramophone_pta.c"],
            {
                **FAKE_KERNEL,
                "fuzz_trace.h": lambda: sample_trace(2),
                "gramophone_pta_sharing.c": (OPTEE / "sharing" / "gramophone_pta_sharing.c").read_text,
            },
            around=["pta_sharing.c"],
            include=[OPTEE],
            flags=[
                *("-DGR_FIREWALL_BASE=1", "-DGR_CARVEOUT_BYTES=0x80000", "-DGR_STAGING_BYTES=0x8000"),
                *("-DGRAMOPHONE_NETWORKS=2", "-DGRAMOPHONE_STEPS", "-DGRAMOPHONE_SCHEDULE=2"),
            ],
            max_len=1024,
        ),
        Target(
            "ta",
            [OPTEE / "ta" / "gramophone_ta.c", OPTEE / "ta" / "rollback.c"],
            [C / "ta.c"],
            {
                "tee_internal_api.h": lambda: '#include "fake_tee.h"\n',
                "tee_internal_api_extensions.h": lambda: "",
            },
            include=[OPTEE, OPTEE / "ta"],
            max_len=1024,
            hashes=False,
        ),
        Target(
            "operators",
            sorted(operators.HERE.glob("*.c")),
            [C / "operators.c"],
            {"gr_target.h": lambda: target.header(profile.load("mali_g71"))},  # it has several address spaces
            include=[operators.HERE],
            flags=[f"-DGRAMOPHONE_OPERATORS(X)={operators.listed(OPERATORS)}"],
            hashes=False,
            inside=[CORE / "slots.c"],
        ),
        Target(
            "trust",
            [
                *(features.HERE / "trust" / name for name in ("trust.c", "cose.c", "policy.c")),
                *(CORE / name for name in ("envelope.c", "known.c")),
            ],
            [C / "trust.c", C / "seam.c"],
            {
                "gr_target.h": lambda: target.header(profile.load("v3d42")),
                "fuzz_trace.h": sample_trace,
                "fuzz_trust.h": lambda: trust_corpus.header(),
            },
            flags=["-DGRAMOPHONE_TRUST"],
            max_len=8192,
            inside=[CORE / "memory.c", CORE / "stream.c"],
        ),
        Target(
            "encryption",
            [features.HERE / "encryption" / "encryption.c"],
            [C / "encryption.c", C / "seam.c"],
            {"gr_target.h": lambda: target.header(profile.load("v3d42"))},
            flags=["-DGRAMOPHONE_ENCRYPTION"],
            inside=[CORE / "memory.c", CORE / "stream.c"],
        ),
        Target("lz4", [CORE / "lz4.c", CORE / "stream.c"], [C / "lz4.c", C / "seam.c"]),
    )
}


def available() -> list[str]:
    """Names of the targets."""
    return list(TARGETS)


def missing() -> str | None:
    """What has to be installed for libFuzzer; None: nothing."""
    if shutil.which("clang") is None:
        return "no clang: apt-get install clang libclang-rt-dev"
    # Not -print-runtime-dir: clang 19 names a folder there that Debian does not have.
    asked = ["clang", "--print-libgcc-file-name", "--rtlib=compiler-rt"]
    folder = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()).parent
    if not list(folder.glob("libclang_rt.fuzzer-*.a")):
        return f"no libFuzzer in {folder}: apt-get install libclang-rt-dev"
    return None


def _run(command: Sequence[str | Path]) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise GramophoneError(
            f"compiling a fuzz target failed: {' '.join(map(str, command))}\n{done.stderr[-3000:]}"
        )


def build(fuzzed: Target, folder: Path, counting: bool = False, level: str = "-O2") -> Path:
    """Compile a target into `folder`.

    Args:
        fuzzed: what.
        folder: gets the program, the generated headers and the objects.
        counting: not for libFuzzer but for gcc's counters of lines and branches; the program then takes files.
        level: of optimisation, for libFuzzer.

    Raises:
        GramophoneError: the compilation failed (its output is in the message).
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in fuzzed.headers.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text())
    crypto = libraries.source().bearssl if fuzzed.hashes else None
    include = [f"-I{path}" for path in (folder, C, *fuzzed.include, CORE, GENERATED)]
    own = ["-std=gnu11", "-g", "-Wall", "-Wextra", *include]
    own += [flag for flag in fuzzed.flags if not flag.startswith("-Wl,")]
    own += [f"-isystem{crypto / 'inc'}"] if crypto else []
    theirs = [crypto / name for name in HASH] if crypto else []
    compiler, extra = ("gcc", ["-O1", "--coverage", "-fprofile-abs-path"]) if counting else ("clang", [level])
    sanitize = [] if counting else [*SANITIZERS, "-fsanitize=fuzzer-no-link"]
    around = [*fuzzed.around, *([C / "standalone.c"] if counting else [])]
    objects = []
    for index, source in enumerate([*fuzzed.fuzzed, *fuzzed.inside, *around, *theirs]):
        objects.append(folder / f"{index}-{source.stem}.o")
        if source in theirs:
            assert crypto is not None
            flags = ["-O2", "-w", f"-I{crypto / 'inc'}", f"-I{crypto / 'src'}"]
        elif source in fuzzed.fuzzed or (source in fuzzed.inside and not counting):
            flags = [*own, *extra, *sanitize]
        else:
            flags = [*own, "-O2"]
        _run([compiler, *flags, "-c", "-o", objects[-1], source])
    program = folder / fuzzed.name
    link = ["--coverage"] if counting else [*SANITIZERS, "-fsanitize=fuzzer"]
    flags = [flag for flag in fuzzed.flags if flag.startswith("-Wl,")]
    _run([compiler, *link, *flags, "-o", program, *objects, "-lm", "-pthread"])
    return program
