# SPDX-License-Identifier: BSD-2-Clause
"""Options and arguments that are missing, wrong or do not fit together: one sentence and status 2."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bad_input import (
    check,
    refused,
    run,
    working_folder,
)

USE = {
    "": None,
    "bogus": "No such command 'bogus'",
    "--bogus": "No such option '--bogus'",
    "build": "Missing argument 'RAW'",
    "build net.gtr": "Missing option '-o' / '--output'",
    "build net.gtr -o out --bogus": "No such option '--bogus'",
    "build net.gtr more -o out": "Got unexpected extra argument (more)",
    "build net.gtr -o": "Option '-o' requires an argument",
    "build net.gtr -o out --param w": "Invalid value for '--param': expected SLOT=FILE.npy or a folder of such f",
    "build net.gtr -o out --param w=": "Invalid value for '--param': expected SLOT=FILE.npy or a folder of such f",
    "build net.gtr -o out --param q=array.npy": "no parameter 'q'; there are: w",
    "build net.gtr -o out --param x=array.npy": "no parameter 'x'; there are: w",
    "build net.gtr -o out --param w=array.npy --param w=array.npy": "parameter 'w' is given twice: array.npy and",
    "reprot net.sgtr": "No such command 'reprot'. Did you mean 'report'?",
    "build net.gtr -o out --skip plan-memry": "no pass called plan-memry (did you mean 'plan-memory'?)",
    "build net.gtr -o out --skip bogus": "no pass called bogus; there are: ",
    "build net.gtr -o out --security-version 4294967296": "Invalid value for '--security-version'",
    f"build net.gtr -o out --name {'n' * 100}": "Invalid value for '--name'",
    "assemble net.txt": "Missing option '-o' / '--output'",
    "assemble -o out": "Missing argument 'TEXT'",
    "dump": "Missing argument 'FILE'",
    "dump net.gtr --format xml": "Invalid value for '--format': 'xml' is not one of",
    "diff net.gtr": "Missing argument 'NEW'",
    "key new": "Missing option '-o' / '--output'",
    "key public": "Missing argument 'KEY'",
    "key show": "Missing argument 'KEY'",
    "sign net.gtr -o out": "who signs? Expected one of --signing-key, --pkcs11",
    "sign net.gtr --signing-key key.pem": "Missing option '-o' / '--output'",
    "verify trace net.sgtr": "Missing option '--key'",
    "strip net.sgtr": "Missing option '-o' / '--output'",
    "generate --gpu v3d42 --platform qemu-virt --key pub.pem -o out --bearssl .": ".: not a BearSSL source tree: ",
    "replay net.sgtr --key pub.pem --bearssl .": ".: not a BearSSL source tree: expected src/codec/dec32be.c",
    "generate --gpu v3d42 --platform optee --key pub.pem -o out --aws-lc .": ".: not a source tree of aws-",
    "replay net.sgtr --key pub.pem --on optee --aws-lc .": ".: not a source tree of aws-lc-sys: expected aws-lc/",
    f"generate --gpu v3d42 --platform qemu-virt --key pub.pem -o out --device-id {'1' * 32}": "the options: devi",
    "generate --gpu v3d42 --platform qemu-virt --key pub.pem -o out --algorithm es384": "the options: algorithms",
    "generate -o out": "expected a device file (docs/DEVICE-FILE.md), found none",
    "generate device.toml": "Missing option '-o' / '--output'",
    "generate device.toml -o out --gpu v3d42 --clock": "expected a device file (docs/DEVICE",
    "generate device.toml -o .": "device.toml: expected a file outside the output ., which is replaced",
    "generate --gpu v3d42 --key pub.pem -o out": "the options: platform or board is missing",
    "generate --gpu x --platform qemu-virt --key pub.pem -o out": "the options: gpu: expected one of",
    "generate --gpu mali_g5 --platform qemu-virt --key pub.pem -o out": "the options: gpu (did you mean 'mali_g",
    "generate --gpu v3d42 --platform qemu-virt --key pub.pem -o out --carveout-mib 0": "the options: carve",
    "generate --gpu v3d42 --platform optee --key pub.pem -o out --carveout-mib 3": "the options: optee.toml: ",
    "replay net.sgtr": "Missing option '--key'",
    "replay net.sgtr --key pub.pem --on moon": "Invalid value for '--on': 'moon' is not one of",
    "replay net.sgtr --key pub.pem --repeat 0": "Invalid value for '--repeat'",
    "replay net.sgtr --key pub.pem --gpu moon": "moon: unknown GPU name (known: v3d42, v3d42-pi4",
    "replay net.sgtr --key pub.pem --gpu v3d42-moon": "v3d42-moon: unknown GPU name (known: v3d42, v3d42-pi4",
    "replay net.sgtr --key pub.pem --gpu mali_g5": "mali_g5: unknown GPU name",
    "replay net.sgtr --key pub.pem --firmware out": "--firmware cannot be used with --on vgpu",
    "replay net.sgtr --key pub.pem --normal-world linux": "--normal-world cannot be used with --on vgpu",
    "replay net.sgtr --key pub.pem --input q=array.npy": "no input 'q'; there are: x",
    "replay net.sgtr --key pub.pem --param x=array.npy": "no parameter 'x'; there are: w",
    "replay net.sgtr --key pub.pem --output x=out": "no output 'x'; there are: y",
    "replay net.sgtr --key pub.pem --input x=array.npy --input x=array.npy": "input 'x' is given twice: ",
    "replay net.sgtr --key pub.pem --output y=out --output y=out": "output 'y' is given twice: out and out",
    "replay net.sgtr --key pub.pem --labels horse.txt": "--labels requires --top",
    "replay net.sgtr --key pub.pem --expect x=array.npy": "no output 'x'; there are: y",
    "replay net.sgtr --key pub.pem --timeout 9": "--timeout cannot be used with --on vgpu: no machine boots there",
    "replay net.sgtr --key pub.pem -v -q": "--verbose cannot be combined with --quiet",
    "dump net.gtr --log no/where": "no/where: No such file or directory",
    "dump net.gtr --log net.gtr": "--log net.gtr: this file has another use here",
    "speed time": "Missing argument 'FILE'",
    "speed time net.gtr --chip": "Option '--chip' requires an argument",
    "speed time net.gtr --chip pi3": "net.gtr: no chip is called pi3; there are: pi4, pi5, hikey960, ",
    "speed time net.gtr --chip pi5": "net.gtr: pi5 has another GPU than the trace: expected v3d71, found v3d42",
    "speed time net.gtr --chip hikey960": "net.gtr: hikey960 has another GPU than the trace: expected mali_g71",
    "speed time net.gtr --chip pi4 --chip pi4": "--chip is given twice",
    "speed time net.gtr net.gtr": "Got unexpected extra argument (net.gtr)",
    "speed time no/where": "no/where: No such file or directory",
    "speed time net.gtr --constants": "Option '--constants' requires an argument",
    "speed time net.gtr --constants no/where": "no/where: No such file or directory",
    "sharing simulate": "Missing argument 'TRACE...'",
    "sharing simulate net.gtr --seconds 0": "Invalid value for '--seconds'",
    "sharing simulate net.gtr --period net": "Invalid value for '--period': expected NAME=US, found 'net'",
    "sharing join": "Missing argument 'TRACE...'",
    "sharing join net.gtr -o out": "expected 2 to 8 traces, found 1",
    "sharing join net.gtr net.gtr -o out --names a": "--names: expected 2 names, found 1",
    "sharing join net.gtr net.gtr -o out --names a,a": "2 networks are called 'a'",
    "sharing join net.gtr net.gtr -o out --names a,b --period c=1": "--period: no network 'c'; there are: a, b",
    "sharing join net.gtr net.gtr -o out --names a,b --priority a=256": "--priority a: expected 0 to 255, found",
    "sharing join net.gtr net.gtr -o out --take a": "--take: expected one joint trace, found 2",
    "sharing join net.gtr -o out --take a": "--take: net.gtr is no joint trace",
    "build net.gtr -o out --longest inf": "Invalid value for '--longest': expected a number above 0, found 'inf'",
    "build net.gtr -o out --co-execute 0": "Invalid value for '--co-execute'",
    "build n.gtr -o o --co-execute 5 --skip co-execute": "--co-execute: --skip co-execute leaves out",
    "build net.gtr -o out --longest 0": "Invalid value for '--longest'",
    "build n.gtr -o o --checkpoints --skip checkpoints": "--checkpoints: --skip checkpoints leaves out",
    "build net.gtr -o out --longest 5 --skip cut-jobs": "--longest: --skip cut-jobs leaves out",
    "speed calibrate": "Missing argument 'TRACE=RESULT...'",
    "speed calibrate net.gtr -o out": "Invalid value for 'TRACE=RESULT...': expected TRACE=RESULT, found",
    "speed calibrate net.gtr=x.json": "Missing option '-o' / '--output'",
    "speed calibrate net.gtr=x.json -o no/where/out": "no/where",
    "record self-test": "Missing argument '{launch|store|load|gemm}'",
    "record self-test all -o out": "Invalid value for '{launch|store|load|gemm}': 'all' is not one of",
    "record self-test launch -o out --gpu mali_g5": "Invalid value for '--gpu': 'mali_g5' is not one of",
    "build net.gtr -o out --timeout-margin 1": "Invalid value for '--timeout-margin': 1 is not in the range",
    "build net.gtr -o out --timeout-margin x": "Invalid value for '--timeout-margin': 'x' is not a valid integer",
    "bench net.sgtr": "Missing option '--key'",
    "bench net.sgtr --key pub.pem --repeat 0": "Invalid value for '--repeat'",
    "build net.gtr -o out --observe --trust-note": "--observe cannot be combined with --trust-note",
    "key new -o k.pem --ask-passphrase --passphrase-env X": "--ask-passphrase cannot be combined with --pass",
    "verify log net.log --attestation r": "--attestation requires --key",
    "verify log net.log --attestation r --key k": "--attestation requires --nonce",
    "verify log net.log --key k": "--key requires --attestation",
    "verify attestation r --key k --nonce 00112233445566778899aabbccddeeff --input x=y": "--input requires --exp",
    "audit-firmware out --bearssl .": "--bearssl requires --rebuild",
    "audit-firmware out --aws-lc .": "--aws-lc requires --rebuild",
    "audit-firmware out --fleet-key k": "--fleet-key requires --rebuild",
    "publish provenance net.sgtr --statement s --builder b:c -o out": "--statement cannot be combined with --b",
    "sharing join net.gtr --check a=net.gtr --take a": "--check cannot be combined with --take",
    "flash -o out": "expected either OUT -o IMAGE, or --check IMAGE",
    "flash out -o out --key pub.pem": "expected either OUT",
    "flash out --check net.gtr": "--check takes only an image, --key and --board",
    "flash --check net.gtr --trace net.sgtr": "--check takes only an image, --key and --board",
    "flash --check net.gtr": "net.gtr: not an image that 'gramophone flash' wrote",
    "record bogus": "No such command 'bogus'",
    "record ncnn net.param": "Missing argument 'WEIGHTS'",
    "record ncnn net.param net.bin -o out": "Missing option '--shape'",
    "record ncnn net.param net.bin --shape data -o out": "Invalid value for '--shape': expected NAME=SHAPE",
    "record ncnn net.param net.bin --shape data=1x0 -o out": "Invalid value for '--shape': expected 1 to 4 dim",
    "record ncnn net.param net.bin --shape data=1x1x1x1x1 -o out": "Invalid value for '--shape': expected 1 to 4",
    "record ncnn net.param net.bin --shape a=1 --shape a=1 -o out": "the shape of an input is given twice",
    "record ncnn net.param net.bin --shape a=1 --tolerance x -o out": "Invalid value for '--tolerance'",
    "record ncnn net.param net.bin --shape a=1 --tolerance nan -o out": "--tolerance: expected a number",
    f"record ncnn net.param net.bin --shape a=1 -o out --name {'n' * 100}": "Invalid value for '--name'",
    "record run -o out": "Missing argument 'PROGRAM'",
    "record run net.bin": "Missing option '-o' / '--output'",
    "record run --gpu mali_g5 -o out net.bin": "Invalid value for '--gpu': 'mali_g5' is not one of",
}


@pytest.mark.parametrize("line", [line for line, reason in USE.items() if reason])
def test_wrong_use(line: str) -> None:
    words = shlex.split(line)
    if len(words) > 1 or words[0].startswith("-"):
        sentence = refused(words)
    else:
        sentence = check(run(words))
        with_json = run([*words, "--json"])
        assert json.loads(with_json.stdout) == {"ok": False, "error": sentence}
    assert sentence.startswith(str(USE[line])), sentence
    assert not Path("out").exists()


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for _ in working_folder(tmp_path, monkeypatch):
        yield
