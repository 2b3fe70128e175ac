# SPDX-License-Identifier: BSD-2-Clause
"""Linux as the normal world of OP-TEE's machine, as far as nothing has to boot for it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_tools import runners
from host_tools.machine.boot import GuestJob, guest_archive
from host_tools.machine.console import GuestResult
from host_tools.machine.cpio import Entry, parse
from host_tools.machine.devicetree import Tree
from host_tools.machine.errors import RecordError
from host_tools.machine.root import RecordRoot
from host_tools.runners.optee import guest, normal_world
from host_tools.runners.optee import linux as optee_linux
from host_tools.runners.optee import linux_machine as linux
from host_tools.runners.optee.images import Board, Image
from host_tools.runners.optee.normal_world import OUT_OF_MEMORY, tee_result
from host_tools.runners.replay import ReplayResult, RunnerError
from host_tools.support.tensors import npy
from signing.delivery import Delivery
from signing.sign import sign_trace
from tee_replayer.generator.interrupts import packed
from tee_replayer.generator.status import value_of
from tests.support.device_trees import cells, node, small_tree
from tests.support.signing_samples import ES256
from tests.support.trace_samples import sample

BOARD = Board(
    gpu_base=0x0B000000, gpu_intid=132, carveout_base=0xC0000000, carveout_bytes=1 << 28, firewall_base=0
)
LOG = {
    **dict.fromkeys(("phase", "action", "op", "offset", "expected", "seen", "retries"), 0),
    **{"status": value_of("OK"), "jobs": 3, "actions": 17, "secure_bytes": 4096},
    **{"verify_us": 5, "load_us": 6, "replay_us": 7},
}


def test_the_device_tree_tells_the_kernel_where_its_initramfs_lies() -> None:
    tree = Tree(small_tree())
    tree.add("chosen", {"stdout-path": "/pl011@9000000"})
    chosen = node(linux.device_tree(tree.to_bytes(), 0x1234567), "/chosen")
    assert chosen["stdout-path"] == b"/pl011@9000000\0"
    assert chosen["bootargs"].startswith(b"console=ttyAMA0 ")
    assert chosen["linux,initrd-start"] == cells(0, linux.INITRD)
    assert chosen["linux,initrd-end"] == cells(0, linux.INITRD + 0x1234567)


def test_a_gpu_whose_interrupts_do_not_follow_one_another() -> None:
    image = Image(Path("none"), Board(**{**vars(BOARD), "gpu_intid": packed([41, 40, 39])}))
    with pytest.raises(
        RunnerError, match=r"expected one number in GRAMOPHONE_GPU_INTID.* found a list, 0x80000027"
    ):
        normal_world.machine_of(image, "mali_g71", "null")


def test_a_shared_gpu_that_lies_elsewhere_than_the_guest_s() -> None:
    """Before anything is fetched or booted."""
    image = Image(Path("none"), Board(**{**vars(BOARD), "firewall_base": 0x0B020000, "gpu_intid": 133}))
    with pytest.raises(RunnerError, match="not where the guest has v3d42"):
        linux.boot(image, GuestJob("true"))


@pytest.mark.parametrize("data", [b"", b"MZ\0\0zimg".ljust(4096, b"\0"), b"\x1f\x8b" + bytes(54) + b"ARM\x63"])
def test_a_kernel_that_cannot_be_jumped_to(data: bytes, tmp_path: Path) -> None:
    """Of no bytes, in an EFI wrapper, compressed."""
    (tmp_path / "vmlinuz").write_bytes(data)
    with pytest.raises(RunnerError, match="vmlinuz: offset 56: expected 41524d64"):
        linux.kernel_image(tmp_path / "vmlinuz")


class Packages:
    """As host_tools.machine.apt.AptRoot; the packages' files are empty."""

    files: tuple[str, ...] = ()

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def download(self, names: Iterable[str]) -> None:
        assert "tee-supplicant" in names

    def extract(self, tree: Path, keep: Any) -> None:
        for name in filter(keep, self.files):
            path = tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "kernel 6.12.1, that of the recording root, found those of none: run `make record-root`"),
        (["usr/lib/modules/6.12.9/modules.builtin"], "found those of 6.12.9: run"),
        (["usr/lib/modules/6.12.1/modules.builtin"], "expected one file each of .*_cffi_backend"),
    ],
)
def test_packages_that_do_not_fit(
    files: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is kept of them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(guest, "AptRoot", type("Some", (Packages,), {"files": tuple(files)}))
    root = RecordRoot(tmp_path, tmp_path, tmp_path, tmp_path, {"kernel": "6.12.1"}, "0123456789abcdef")
    with pytest.raises(RecordError, match=message):
        guest.layer(root)
    assert not list(tmp_path.rglob("*.cpio"))


def answered(monkeypatch: pytest.MonkeyPatch, answer: bytes | None, files: dict[str, bytes]) -> ReplayResult:
    """What `replay` makes of a guest that leaves these files, and of the sample trace."""
    archive: dict[str, Entry] = {}

    def boot(image: Image, job: GuestJob, **_: Any) -> GuestResult:
        archive.update(parse(guest_archive(job, guest.MODULE, job.command)))
        left = files if answer is None else {**files, optee_linux.ANSWER: answer}
        return GuestResult("error: what it said\n", left, "", 1.0, {})

    monkeypatch.setattr(linux, "boot", boot)
    monkeypatch.setattr(normal_world, "image_for", lambda *_: Image(Path("none"), BOARD))
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    signed = sign_trace(sample().build(), ES256)
    result = runners.run("optee-linux", Delivery(signed), ES256.public, {"input": value}, repeat=5)
    assert archive["job/net.sgtr"].data == signed
    assert archive["job/0.npy"].data == npy(value)
    assert b"--repeat 5 --input input=/job/0.npy --output output=/out/1.npy >" in archive["job/command"].data
    return result


def test_a_replay_that_went_through(monkeypatch: pytest.MonkeyPatch) -> None:
    output = np.arange(5, dtype=np.float16)
    result = answered(monkeypatch, json.dumps({"ok": True, "log": LOG}).encode(), {"1.npy": npy(output)})
    assert result.ok
    assert result.outputs["output"].tobytes() == output.tobytes()
    assert (result.jobs, result.actions, result.secure_bytes) == (3, 17, 4096)
    assert result.instructions
    assert result.instructions.load == 6000


def test_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    status = value_of("KEY")
    answer = {"ok": False, "result": hex(tee_result(status)), "origin": 4, "log": {**LOG, "status": status}}
    result = answered(monkeypatch, json.dumps(answer).encode(), {})
    assert not result.ok
    assert result.report.name == "KEY"
    assert result.outputs == {}


REFUSED = {"ok": False, "origin": 3, "log": None}
STRANGE = {
    "no answer": (None, "no answer that makes sense .*what it said"),
    "not JSON": (b"{", "no answer that makes sense"),
    "not an object": (b"[]", "no answer that makes sense"),
    "no log": (b'{"ok": true}', "no answer that makes sense"),
    "a log of other fields": (b'{"ok": true, "log": {"x": 1}}', "no answer that makes sense"),
    "no output": (json.dumps({"ok": True, "log": LOG}).encode(), "no answer that makes sense"),
    "a result that is no number": (b'{"ok": false, "result": "x", "log": null}', "no answer that makes sense"),
    "another result than the log's": (
        json.dumps({"ok": False, "result": "0xffff0007", "origin": 4, "log": LOG}).encode(),
        "OP-TEE answered 0xffff0007 from origin 4, the replayer OK. error: what it said",
    ),
    "no session": (
        json.dumps({**REFUSED, "result": "0xffff000d"}).encode(),
        "OP-TEE answered 0xffff000d from origin 3, the replayer nothing. error: what it said",
    ),
    "no room": (
        json.dumps({**REFUSED, "result": hex(OUT_OF_MEMORY)}).encode(),
        "do not fit the pseudo-TA's staging",
    ),
}


@pytest.mark.parametrize("name", STRANGE)
def test_answers_that_are_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, message = STRANGE[name]
    with pytest.raises(RunnerError, match=message):
        answered(monkeypatch, answer, {})
