# SPDX-License-Identifier: BSD-2-Clause
"""A language model answers from OP-TEE's secure world what it answers on the virtual GPU: to both commands."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from host_tools.machine.boot import GuestJob
from host_tools.machine.root import RecordRoot
from host_tools.runners.optee import linux_machine
from host_tools.runners.optee.normal_world import image_for
from host_tools.runners.requests import MachineRequest
from signing.delivery import Delivery
from signing.keys import PublicKey
from tests.qemu.test_gguf import WORDS, gramophone, signed
from tests.support import gguf_models
from tests.support.gguf_models import Decoder

GPU = "v3d42"
ASKED = ("--prompt", "the", "--json", "--tokens", "4")


@pytest.fixture(scope="module")
def decoder(root: RecordRoot, pta: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Delivery, PublicKey]:
    """`pta` is requested so that without OP-TEE the tests are skipped with its reason."""
    assert pta.is_dir()
    folder = tmp_path_factory.mktemp("decoder")
    model = Decoder(architecture="qwen3", layers=1, tokens=272).write(folder / "m.gguf", **gguf_models.words())
    return signed(model, folder)


def said(decoder: tuple[Delivery, PublicKey], folder: Path, machine: str) -> dict[str, Any]:
    """What `chat` answers."""
    (folder / "net.sgtr").write_bytes(decoder[0].data)
    (folder / "pub.pem").write_bytes(decoder[1].pem())
    command = ["chat", folder / "net.sgtr", "--key", folder / "pub.pem", *ASKED, "--on", machine]
    found: dict[str, Any] = json.loads(gramophone(*command))
    return found


def test_chat_through_op_tee(decoder: tuple[Delivery, PublicKey], tmp_path: Path) -> None:
    here, there = (said(decoder, tmp_path, machine) for machine in ("vgpu", "optee"))
    assert here == there
    assert here["tokens"] == 4


def test_a_device_s_command_chats(decoder: tuple[Delivery, PublicKey], tmp_path: Path) -> None:
    """`gramophone-tee chat` in Linux in front of OP-TEE, with texts and with numbers."""
    delivery, key = decoder
    image = image_for(MachineRequest(delivery, key), GPU, linux_machine.NORMAL_WORLD)
    given = ",".join(map(str, WORDS.question("the", is_first=True)))
    asked = {"texts": ASKED, "numbers": ("--given", given, "--json", "--tokens", "4")}
    lines = [
        shlex.join(["gramophone-tee", "chat", "/job/net.sgtr", "--via", "pta", *words]) + f" >/out/{name} || true"
        for name, words in asked.items()
    ]
    job = GuestJob("\n".join(lines), {"job/net.sgtr": delivery.data}, gpu=GPU, uses_gpu=False)
    done = linux_machine.boot(image, job, gpu=GPU, timeout_s=1200)
    texts, numbers = (json.loads(done.files[name]) for name in asked)
    here = said(decoder, tmp_path, "vgpu")
    assert [texts[name] for name in ("answers", "tokens", "ended")] == [here["answers"], 4, here["ended"]]
    assert numbers["ok"]
    spoken = b"".join(map(WORDS.decode, numbers["chosen"])).decode("utf-8", "replace")
    assert [spoken] == texts["answers"]
