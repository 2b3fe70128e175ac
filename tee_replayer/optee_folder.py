# SPDX-License-Identifier: BSD-2-Clause
"""What a replayer for OP-TEE has besides the core: the pseudo-TA, and what calls it.

It uses OP-TEE's core crypto. With a replay log it brings the libraries of bare-metal firmware: their signatures
are deterministic, and they have a way from a secret to its public key, which OP-TEE's interface has not.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tee_replayer import bare_metal
from tee_replayer.boards import Board
from tee_replayer.crypto import Libraries
from tee_replayer.evidence import Evidence
from trace_format.emit import GENERATED
from trace_format.licence import SPDX
from trace_format.profile import Profile

PARTS = ("ta", "client")  # besides the pseudo-TA
POLICY = "policy.h"  # of the TA
SPI_BASE = 32  # interrupt id of the first shared peripheral interrupt
HERE = Path(__file__).resolve().parent / "optee"
_SETTINGS = "sub.mk"
_ANYBODY, _TA_ONLY = (f"GRAMOPHONE_TA_ONLY ?= {value}\n" for value in "ny")


def write(profile: Profile, board: Board, folder: Path, share_gpu: bool, policy: bytes) -> None:
    """Write the pseudo-TA, and in self-contained folders what calls it: the TA, the normal world's library.

    Args:
        profile: of the GPU.
        board: which; it runs OP-TEE.
        folder: to write to; it has replayer.c, replayer.h and LICENSE.
        share_gpu: the normal world has the GPU between sessions.
        policy: the TA's policy.h.
    """
    carveout = board.memory["carveout"]
    values = {
        "@GPU@": f"{board.devices['gpu'].base:#010x}",
        "@WINDOW@": f"{profile.window_bytes:#x}",
        "@LINES@": str(len(profile.interrupts)),
        "@INTID@": str(SPI_BASE + board.constants["gpu_spi"]),
        "@GICD@": f"{board.devices['gic'].base:#010x}",
        "@CARVEOUT_BASE@": f"{carveout.base:#x}",
        "@CARVEOUT_BYTES@": f"{carveout.bytes:#x}",
        "@STAGING@": f"{carveout.bytes // 4:#x}",
        "@FIREWALL@": f"{board.devices['firewall'].base if share_gpu else 0:#x}",
    }
    for source in _files(HERE):
        text = source.read_text(encoding="utf-8")
        for mark, value in values.items():
            text = text.replace(mark, value)
        (folder / source.name).write_text(text, encoding="utf-8")
    shutil.copyfile(GENERATED / "gramophone_optee.h", folder / "gramophone_optee.h")
    shared = [folder / name for name in ("LICENSE", "replayer.h", "gramophone_pta.h", "gramophone_optee.h")]
    shared += [GENERATED / "gramophone_trace.h", HERE / "ta" / "gramophone_ta.h"]
    for part in PARTS:
        (folder / part).mkdir()
        for source in [*_files(HERE / part), *shared]:
            shutil.copyfile(source, folder / part / source.name)
    (folder / "ta" / POLICY).write_bytes(policy)


def add_log(folder: Path, libraries: Libraries, evidence: Evidence) -> None:
    """Give a pseudo-TA a replay log: further sources, another crypto library, sessions for the TA alone.

    Args:
        folder: that `write` wrote to.
        libraries: the crypto libraries, both of them.
        evidence: what the device says of its replays.
    """
    bare_metal.write_crypto(folder, libraries, evidence)
    (folder / "optee_crypto.c").unlink()
    shutil.copyfile(HERE / "log" / "gramophone_pta_log.c", folder / "gramophone_pta_log.c")
    settings = (folder / _SETTINGS).read_text(encoding="utf-8")
    assert _ANYBODY in settings
    more = (HERE / "log" / _SETTINGS).read_text(encoding="utf-8").removeprefix(f"# {SPDX}\n")
    settings = settings.replace(_ANYBODY, _TA_ONLY) + more
    (folder / _SETTINGS).write_text(settings, encoding="utf-8")
    for library, include in (("bearssl", ("inc", "src")), ("aws-lc", ("s2n-bignum/include", "include"))):
        names = [name for name in bare_metal.crypto_sources(evidence) if name.startswith(f"{library}/")]
        sources = "".join(f"srcs-y += {name.removeprefix(f'{library}/')}\n" for name in names)
        headers = " ".join(f"-isystem $(sub-dir)/{name}" for name in include)
        text = f"# {SPDX}\n{sources}cflags-y += -w -Os\ncppflags-y += {headers}\n"
        (folder / library / _SETTINGS).write_text(text, encoding="utf-8")


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file()]
