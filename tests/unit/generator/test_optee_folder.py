# SPDX-License-Identifier: BSD-2-Clause
"""`generate --platform optee`: a pseudo-TA's folder, as far as it can be checked without OP-TEE."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from host_tools import runners
from host_tools.cli import main
from host_tools.flash.errors import FlashError
from host_tools.flash.pack import Sources, pack
from host_tools.runners.optee import images, ta
from host_tools.runners.optee.bundle import bundle
from host_tools.runners.replay import RunnerError
from signing.delivery import Delivery
from signing.keys import Algorithm, PublicKey, generate
from tee_replayer import crypto
from tee_replayer.generator.evidence import Evidence
from tee_replayer.generator.generate import generate as generate_sources
from tee_replayer.generator.optee_folder import PARTS
from tee_replayer.generator.options import GenerateError, Options
from tee_replayer.generator.platforms import platform_of
from tests.support import crypto_trees, device_files
from tests.support import replayer_samples as s
from trace_format import profile as profiles
from trace_format.actions import Op, action

MIB = 1 << 20
ALL = Evidence(log=True, hashes=True, attestation=True)
KEY = PublicKey(generate(Algorithm.ES256).public_key())


@pytest.mark.parametrize("gpu", ["v3d42", "mali_g71"])
def test_the_folder(libraries: crypto.Libraries, gpu: str, tmp_path: Path) -> None:
    out = generate_sources(
        Options(gpu, platform_of("optee"), KEY, libraries, min_security_version=7), tmp_path / "out"
    )
    files = {path.name: path.read_text() for path in out.iterdir() if path.is_file()}
    sources = {"gramophone_pta.c", "optee_port.c", "optee_crypto.c", "crypto.c", "replayer.c"}
    assert files.keys() >= {*sources, "gramophone.c", "gramophone_pta.h", "optee_port.h", "replayer.h", "sub.mk"}
    assert re.findall(r"^srcs-y \+= (\S+)$", files["sub.mk"], re.MULTILINE) == ["gramophone.c"]
    included = set(re.findall(r'^#include "(\S+)"$', files["gramophone.c"], re.MULTILINE))
    assert included == {*sources, "replayer.h"}
    profile = profiles.load(gpu)
    assert f"GRAMOPHONE_GPU_BYTES ?= {profile.window_bytes:#x}\n" in files["sub.mk"]
    assert f"-DGR_GPU_LINES={len(profile.interrupts)} " in files["sub.mk"]
    assert "GR_MIN_SECURITY_VERSION 7u" in files["replayer.h"]
    assert not any(re.search(r"@[A-Z]+@", text) for text in files.values())


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> crypto.Libraries:
    """Source trees with the files that are copied, all empty."""
    found = crypto_trees.empty(tmp_path_factory.mktemp("libraries"))
    for name in ALL.crypto:
        (found.bearssl / name).parent.mkdir(parents=True, exist_ok=True)
        (found.bearssl / name).touch()
    return found


def test_with_a_replay_log(libraries: crypto.Libraries, tmp_path: Path) -> None:
    """BearSSL besides AWS-LC; without one nothing of it. Sessions are the TA's alone, and stay so."""
    out = generate_sources(Options("v3d42", platform_of("optee"), KEY, libraries, evidence=ALL), tmp_path / "out")
    plain = generate_sources(Options("v3d42", platform_of("optee"), KEY, libraries), tmp_path / "plain")
    names, less = ({path.name for path in folder.iterdir()} for folder in (out, plain))
    assert (names - less, less - names) == ({"bearssl", "gramophone_pta_log.c"}, set())
    settings, without = ((folder / "sub.mk").read_text() for folder in (out, plain))
    assert "\nGRAMOPHONE_TA_ONLY ?= y\n" in settings
    assert "\nsubdirs-y += bearssl\n" in settings
    assert "bearssl" not in without
    with pytest.raises(GenerateError, match="any_client cannot be combined with a replay log"):
        Options("v3d42", platform_of("optee"), KEY, libraries, evidence=ALL, any_client=True)
    assert "\nsubdirs-y += aws-lc\n" in without
    compiled = set()
    for library in ("bearssl", "aws-lc"):
        listed = re.findall(r"^srcs-y \+= (\S+)$", (out / library / "sub.mk").read_text(), re.MULTILINE)
        assert all((out / library / name).is_file() for name in listed)
        compiled |= set(listed)
    assert compiled >= {"src/ec/ecdsa_i31_sign_raw.c", "src/mac/hmac.c", "src/hash/sha2small.c"}
    assert "s2n-bignum/arm/p256/bignum_montmul_p256_alt.S" in compiled
    for folder in (out, out / "ta", out / "client"):
        assert "#define GRAMOPHONE_ATTEST\n" in (folder / "replayer.h").read_text()
    assert "GRAMOPHONE_LOG\n#define" not in (plain / "replayer.h").read_text()
    assert images.read_board(out) == images.read_board(plain)


def test_the_command_says_what_a_replay_log_is_worth(libraries: crypto.Libraries, tmp_path: Path) -> None:
    """And a runner that calls the pseudo-TA without the TA says why it cannot."""
    (tmp_path / "pub.pem").write_bytes(KEY.pem())
    file = device_files.written(tmp_path, libraries, platform="optee", profile="logged")
    line = ["generate", str(file), "-o", f"{tmp_path}/out", "--json"]
    found = CliRunner().invoke(main, line, catch_exceptions=False)
    assert found.exit_code == 0, found.output
    first, second = json.loads(found.stdout)["warnings"]
    assert first == (
        "optee protects neither the device's secret nor its log's tail: OP-TEE's own hardware unique key is all "
        "zeros, its storage a folder"
    )
    assert "policy.h lets root replay" in second
    data = s.signed(s.trace(action(Op.REPLAY_START), slots=[]))
    for runner in ("optee", "optee-linux"):
        with pytest.raises(RunnerError, match=r"sub\.mk: GRAMOPHONE_TA_ONLY is y, and a replay here calls"):
            runners.run(runner, Delivery(data), KEY, firmware=tmp_path / "out")


def test_both_forms_of_the_uuid_are_the_same(libraries: crypto.Libraries, tmp_path: Path) -> None:
    text = (
        generate_sources(Options("v3d42", platform_of("optee"), KEY, libraries), tmp_path / "out")
        / "gramophone_pta.h"
    ).read_text()
    numbers, octets = (
        re.findall(r"0x([0-9a-f]+)", part) for part in text.split("_UUID ")[1].split("_UUID_BYTES ")
    )
    assert "".join(octets[:16]) == "".join(numbers)


@pytest.mark.parametrize("part", PARTS)
def test_what_calls_it_stands_alone(libraries: crypto.Libraries, part: str, tmp_path: Path) -> None:
    """Each header of ours that a source names lies next to it."""
    out = generate_sources(Options("v3d42", platform_of("optee"), KEY, libraries), tmp_path / "out") / part
    texts = {path.name: path.read_text() for path in out.iterdir()}
    named = {name for text in texts.values() for name in re.findall(r'^#include "(\S+)"$', text, re.MULTILINE)}
    assert named
    assert named <= texts.keys()
    assert "Makefile" in texts


def test_the_ta_is_built_under_its_uuid(libraries: crypto.Libraries, tmp_path: Path) -> None:
    out = generate_sources(Options("v3d42", platform_of("optee"), KEY, libraries), tmp_path / "out")
    text = (out / "gramophone_pta.h").read_text().partition("#define GRAMOPHONE_TA_UUID ")[2].partition("\n")[0]
    assert ta.uuid_of(out / "ta").replace("-", "") == "".join(re.findall(r"0x([0-9a-f]+)", text))


def test_the_command_adds_the_program_for_devices(libraries: crypto.Libraries, tmp_path: Path) -> None:
    (tmp_path / "pub.pem").write_bytes(KEY.pem())
    line = f"generate --gpu v3d42 --platform optee --key {tmp_path}/pub.pem -o {tmp_path}/out --json "
    line += f"--bearssl {libraries.bearssl} --aws-lc {libraries.aws_lc}"
    found = CliRunner().invoke(main, line.split(), catch_exceptions=False)
    assert found.exit_code == 0, found.output
    assert "\nGRAMOPHONE_TA_ONLY ?= y\n" in (tmp_path / "out" / "sub.mk").read_text()
    assert "any client" not in found.stderr
    assert "client/gramophone-tee" in json.loads(found.stdout)["files"]
    assert (tmp_path / "out" / "client" / "gramophone-tee").read_bytes() == bundle()
    assert generate_sources(
        Options("v3d42", platform_of("optee"), KEY, libraries), tmp_path / "out"
    )  # such a folder is replaced


def test_any_client_may_open_sessions_if_asked_for(libraries: crypto.Libraries, tmp_path: Path) -> None:
    """Without the option the TA's policy cannot be bypassed."""
    (tmp_path / "pub.pem").write_bytes(KEY.pem())
    file = device_files.written(tmp_path, libraries, platform="optee", any_client=True)
    found = CliRunner().invoke(main, ["generate", str(file), "-o", f"{tmp_path}/out"], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    assert found.stderr.startswith(f"warning: {tmp_path}/out/sub.mk lets any client open sessions")
    assert "\nGRAMOPHONE_TA_ONLY ?= n\n" in (tmp_path / "out" / "sub.mk").read_text()
    assert not images.is_for_ta_only(tmp_path / "out")


@given(st.integers(1, 512))
def test_the_board_is_read_back(
    libraries: crypto.Libraries, tmp_path_factory: pytest.TempPathFactory, steps: int
) -> None:
    out = tmp_path_factory.mktemp("optee") / "out"
    generate_sources(Options("v3d42", platform_of("optee"), KEY, libraries, carveout_bytes=steps * 2 * MIB), out)
    board = images.read_board(out)
    assert (board.carveout_bytes, board.staging_bytes) == (steps * 2 * MIB, steps * MIB // 2)


@pytest.mark.parametrize(("share", "base"), [(False, 0), (True, 0x0B02_0000)])
def test_a_gpu_shared_with_the_normal_world(
    libraries: crypto.Libraries, share: bool, base: int, tmp_path: Path
) -> None:
    out = generate_sources(
        Options("v3d42", platform_of("optee"), KEY, libraries, share_gpu=share), tmp_path / "out"
    )
    assert images.read_board(out).firewall_base == base


def test_bare_metal_shares_no_gpu(libraries: crypto.Libraries, tmp_path: Path) -> None:
    with pytest.raises(GenerateError, match="cannot be shared"):
        generate_sources(
            Options("v3d42", platform_of("qemu-virt"), KEY, libraries, share_gpu=True), tmp_path / "out"
        )


@pytest.mark.parametrize("size", [4096, 3 * MIB, 2 * MIB + 4096])
def test_a_carveout_that_the_core_cannot_map(libraries: crypto.Libraries, size: int, tmp_path: Path) -> None:
    with pytest.raises(GenerateError, match="multiples of 2 MiB"):
        generate_sources(
            Options("v3d42", platform_of("optee"), KEY, libraries, carveout_bytes=size), tmp_path / "out"
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected a line GRAMOPHONE_GPU_BASE"),
        ("GRAMOPHONE_GPU_BASE ?= 0x1\n", "GRAMOPHONE_GPU_INTID"),
        ("GRAMOPHONE_GPU_BASE ?= here\n", "GRAMOPHONE_GPU_BASE"),
        (None, "No such file"),
    ],
)
def test_a_folder_that_is_no_pseudo_ta(text: str | None, reason: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "sub.mk").write_text(text)
    with pytest.raises(RunnerError, match=reason):
        images.read_board(tmp_path)


def test_a_device_needs_aws_lc(libraries: crypto.Libraries, tmp_path: Path) -> None:
    for platform in ("qemu-virt", "optee"):
        with pytest.raises(GenerateError, match="needs the sources of AWS-LC"):
            generate_sources(
                Options("v3d42", platform_of(platform), KEY, crypto.Libraries(libraries.bearssl)), tmp_path / "out"
            )


def test_a_trace_that_the_staging_area_has_no_room_for(libraries: crypto.Libraries, tmp_path: Path) -> None:
    """Of 2 MiB of carve-out, 512 KiB: known before OP-TEE is built."""
    out = generate_sources(
        Options("v3d42", platform_of("optee"), s.KEY, libraries, carveout_bytes=2 * MIB), tmp_path / "out"
    )
    image = np.random.default_rng(1).bytes(600 << 10)
    data = s.signed(s.trace(action(Op.REPLAY_START), slots=[], image=image, carveout_bytes=MIB))
    (tmp_path / "net.sgtr").write_bytes(data)
    with pytest.raises(FlashError) as error:
        pack(out, Sources([tmp_path / "net.sgtr"]))
    what = "the device refuses this trace: the staging area, a quarter of the carve-out"
    assert str(error.value).startswith(f"net.sgtr: {what}: expected at most 524288 bytes, found {len(data)} ")
