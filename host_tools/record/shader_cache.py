# SPDX-License-Identifier: BSD-2-Clause
"""Mesa's shader cache, kept between recordings: without it, compiling shaders is most of a recording's time.

A job's cache is what the same job leaves when it starts with none. The first recording of a job therefore
runs twice: once unrecorded for the cache, then with it; later ones find it in the user's cache folder. Either way
the recorded run starts from the same bytes (docs/adr/0003-shader-cache.md).
"""

import io
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from host_tools.machine.boot import BOOT_TIMEOUT_S, GuestJob, boot, run_digest
from host_tools.machine.errors import RecordError
from host_tools.machine.root import RecordRoot
from host_tools.support.cache import cache_dir, locked, written_whole
from host_tools.support.progress import phase
from trace_format.files import read_file, read_file_text

GUEST_FOLDER = "cache"  # the guest's init points Mesa to it
ARCHIVE = "shader-cache.tar.gz"
JOBS = ".jobs"  # suffix of the file that says how many there were
# Keep the job's exit status: the archive is made whether or not it failed.
SAVE = f"status=$?; tar -c -C /{GUEST_FOLDER} . | gzip -1 >/out/{ARCHIVE}; (exit $status)"


def with_shader_cache(
    job: GuestJob,
    warming: GuestJob,
    root: RecordRoot,
    plugin: Path,
    plugin_args: Mapping[str, str] | None = None,
    *,
    timeout: float = BOOT_TIMEOUT_S,
) -> GuestJob:
    """The job with the cache that `warming` leaves in the folder where Mesa looks for it.

    Args:
        job: what will be recorded.
        warming: the same work on data that does not vary (zeros), so that its cache fits every recording.
        root: from `record_root()`.
        plugin: as `machine.boot`.
        plugin_args: as `machine.boot`, without a recording.
        timeout: as `machine.boot`.

    Raises:
        RecordError: as `machine.boot`, or a kept cache that is not an archive.
    """
    warming = replace(warming, command=f"{warming.command}\n{SAVE}")
    path = cache_dir("record", "shaders") / f"{run_digest(warming, root)[:32]}.tar.gz"
    with locked(path.with_suffix(".lock")):
        if not path.exists():
            with phase("a run that compiles the shaders, once for each network"):
                result = boot(warming, root, plugin, plugin_args, timeout=timeout)
            with written_whole(path.with_suffix(JOBS)) as temporary:
                temporary.write_text(str(result.counters["jobs"]), encoding="ascii")
            with written_whole(path) as temporary:
                temporary.write_bytes(result.files[ARCHIVE])
    files = {**job.files, **_unpack(path)}
    return replace(job, files=files, expected_jobs=_jobs(path.with_suffix(JOBS)))


def _jobs(path: Path) -> int:
    """How many the run that compiled had; 0 if that was not kept."""
    try:
        return int(read_file_text(path))
    except (OSError, ValueError):
        return 0


def _unpack(path: Path) -> dict[str, bytes]:
    """Guest path -> content of a kept cache."""
    files = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(read_file(path)), mode="r:gz") as archive:
            for member in archive:
                stream = archive.extractfile(member) if member.isfile() else None
                if stream is not None:
                    files[f"{GUEST_FOLDER}/{member.name.removeprefix('./')}"] = stream.read()
    except (tarfile.TarError, OSError, EOFError) as error:
        raise RecordError(
            f"{path}: expected a shader cache as tar.gz: {error}; remove it and run again"
        ) from error
    return files
