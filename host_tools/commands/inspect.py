# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone inspect`: what any file is that Gramophone reads or writes, and its main figures."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from host_tools.commands.facts import facts, network_words
from host_tools.commands.framework import FILE, STREAM, GramophoneCommand, Outcome
from host_tools.commands.streams import read
from host_tools.commands.traces import claim_of, parse_trace
from host_tools.flash import fip, signed_ta
from host_tools.flash.check import check_opened
from host_tools.flash.containers import open_image, take_apart
from host_tools.flash.errors import ImageError
from host_tools.flash.manifest import gpu_name
from host_tools.support.elf import ELF_MAGIC
from host_tools.support.extra import everyone, loaded, unusable
from host_tools.support.npy import MAGIC as NPY_MAGIC
from host_tools.support.results import Result
from host_tools.support.tensors import array_of
from host_tools.vgpu import capture
from signing import encryption, key_files
from signing.cose_sign import TAG
from signing.delivery import Delivery
from signing.sign import FileSigner
from signing.trust_chain import Chain
from tee_replayer.generator import device
from trace_format import layout, packing, profile
from trace_format.errors import EncryptedError, GramophoneError, printable
from trace_format.schema import SIGNED_MAGIC, TRACE_MAGIC, SectionType
from trace_format.schema.capture import CAPTURE_MAGIC
from trace_format.schema.firmware import DEVICE_MAGIC


class Inspected(Result):
    """What a file is.

    Attributes:
        kind: In words.
        figures: By name; which there are depends on the kind.
    """

    file: str
    kind: str
    figures: dict[str, Any]


Figures = dict[str, Any]
Found = tuple[str, Figures]  # what it is, and its figures
FIP_MAGIC, TA_MAGIC, PEM_MAGIC = b"\x01\x00\x64\xaa", b"HSTO", b"-----BEGIN "


def _closed(data: bytes, file: str) -> Found:
    """An encrypted trace, without a key: what its head says."""
    with layout.naming(file):
        signed = Delivery(data).signed if data.startswith(SIGNED_MAGIC) else None
        trace = signed.trace if signed else data
        parts = layout.disassemble(trace)[1]
        manifest = packing.unpack("manifest", bytes(parts.one(SectionType.MANIFEST).stored))
    found: Figures = {f"claimed {k}": v for k, v in claim_of(signed).items()} if signed else {}
    found |= {name: manifest[name] for name in ("name", "security_version", "carveout_bytes", "image_bytes")}
    found["gpu"] = profile.for_gpu(manifest["gpu"]).name
    found |= {"jobs": manifest["job_count"], "actions": manifest["action_count"], "slots": manifest["slot_count"]}
    found["claims to be encrypted for"] = [kid.hex() for kid in encryption.recipients(trace)]
    return f"{'signed ' if signed else ''}encrypted trace (--decrypt-with shows the rest)", found


def _trace(data: bytes, file: str) -> Found:
    try:
        trace, claim = parse_trace(data, file, joint=True)
    except EncryptedError:
        return _closed(data, file)
    found = {
        name: value for name, value in facts(trace).items() if name not in ("slots", "strides", "raw", "networks")
    }
    found["slots"] = [f"{slot.kind.name.lower()} {slot.name}" for slot in trace.slots]
    if trace.networks:
        found["networks"] = [network_words(network) for network in trace.networks]
    kind = "joint trace" if trace.networks else "raw trace (recording)" if trace.raw else "trace"
    return f"signed {kind}" if claim else kind, {**{f"claimed {k}": v for k, v in claim.items()}, **found}


def _capture(_: bytes, file: str) -> Found:
    header = capture.read_header(Path(file))
    events = Counter(type(event).__name__ for event in capture.read_capture(Path(file)))
    found = {"gpu": header.gpu, "jobs": events["JobStart"], "events": sum(events.values())}
    return "capture", found | {name.lower(): count for name, count in sorted(events.items())}


def _key(data: bytes, file: str) -> Found:
    if b"-----END " not in data:
        raise GramophoneError(
            f"{file} at offset {len(data):#x}: expected the end of a key (PEM), found nothing more"
        )
    if key_files.pem_label(data, file) == "PUBLIC KEY":
        public = key_files.load_public_key(data, file=file)
        return "public key", {"algorithm": public.algorithm.title, "key_id": public.kid.hex()}
    if key_files.is_encrypted(data, file):
        return "private key, encrypted", {}
    public = FileSigner(key_files.load_private_key(data, file=file)).public
    return "private key, not encrypted", {"algorithm": public.algorithm.title, "key_id": public.kid.hex()}


def _trust(data: bytes, file: str) -> Found:
    chain = Chain.decode(data)
    policy = chain.last.policy
    figures: Figures = {"name": policy.name, "version": policy.version, "policy_id": policy.kid.hex()}
    figures["rules"] = [f"{rule.pattern}: {rule.role.threshold} of {len(rule.role.kids)}" for rule in policy.rules]
    figures["unfinished"] = [f"version {link.policy.version}" for link in chain.unfinished()]
    return "trust policy", figures


def _devices(data: bytes) -> Figures:
    """What replayers in these bytes were made for."""
    return {
        f"replayer at {at:#x}": f"{found.platform}, {gpu_name(found.profile_id)}, key {found.key.kid.hex()}, "
        f"security version {found.min_security_version} or newer"
        for at, found in device.find(data)
    }


def _elf(data: bytes, file: str) -> Found:
    try:
        elf = ELFFile(io.BytesIO(data))
        found: Figures = {"machine": elf.get_machine_arch(), "entry": f"{elf['e_entry']:#x}"}
        loaded = [segment for segment in elf.iter_segments() if segment["p_type"] == "PT_LOAD"]
        found["loaded bytes"] = sum(segment["p_filesz"] for segment in loaded)
        found["memory bytes"] = sum(segment["p_memsz"] for segment in loaded)
    except (ELFError, ValueError, KeyError, TypeError, AttributeError, OverflowError, OSError) as error:
        raise GramophoneError(f"{file}: a damaged ELF file: {error}") from error
    inside = _devices(data)
    return "firmware (ELF)" if inside else "ELF file without a replayer", found | inside


def _fip(data: bytes, _: str) -> Found:
    package = fip.parse(data)
    images = {name: f"{len(image.data)} bytes at {image.offset:#x}" for name, image in package.images.items()}
    return "firmware image package (TF-A)", images | _devices(data)


def _ta(data: bytes, _: str) -> Found:
    ta = signed_ta.parse(data)
    digest = "that of the content" if ta.digest == ta.computed else "NOT that of the content"
    return "signed trusted application (OP-TEE)", {"uuid": str(ta.uuid), "version": ta.version, "digest": digest}


def _npy(data: bytes, file: str) -> Found:
    array = array_of(data, file)
    return "tensor (.npy)", {"dtype": array.dtype.name, "shape": list(array.shape)}


def _firmware(data: bytes, _: str) -> Found:
    return "firmware (plain bytes)", _devices(data)


BY_MAGIC: tuple[tuple[bytes, Callable[[bytes, str], Found]], ...] = (
    (SIGNED_MAGIC, _trace),
    (TRACE_MAGIC, _trace),
    (CAPTURE_MAGIC, _capture),
    (PEM_MAGIC, _key),
    (ELF_MAGIC, _elf),
    (FIP_MAGIC, _fip),
    (TA_MAGIC, _ta),
    (NPY_MAGIC, _npy),
    (TAG, _trust),
)


def _image(path: Path, data: bytes | None) -> Found:
    """An image of `gramophone flash`; `data` None: a folder or a device."""
    checked = check_opened(open_image(path) if data is None else take_apart(data))
    contents = checked.contents
    found: Figures = {"platform": contents.board.name}
    if checked.manifest is not None:
        found |= {"gpu": checked.manifest.gpu, "key_id": checked.manifest.key_id}
    found["traces"] = [f"{trace.file}: {trace.name}" for trace in contents.traces]
    pieces = contents.pieces.items()
    found["pieces"] = [f"{name}, {len(piece.data)} bytes at {piece.offset:#x}" for name, piece in pieces]
    found["findings"] = [str(finding) for finding in checked.findings]
    return f"image for a board ({checked.kind})", found


def _of_extras(data: bytes, file: str) -> Found | None:
    """What a file is to an extra; None: no extra knows it."""
    for package, extra in everyone():
        for place in extra.readers:
            try:
                reader: Callable[[bytes, str], Found | None] = loaded(place)
            except Exception as error:  # somebody else's code
                if not package:
                    raise
                unusable(package, error)
                continue
            if found := reader(data, file):
                return found
    return None


def _identify(path: Path) -> Found:
    if path != STREAM and not path.is_file():
        return _image(path, None)
    data = read(path)
    for magic, figures in BY_MAGIC:
        if data.startswith(magic):
            if figures is _capture and path == STREAM:
                raise GramophoneError("-: a capture is read from a file only")
            return figures(data, str(path))
    if of_extra := _of_extras(data, str(path)):
        return of_extra
    try:
        return _image(path, data)
    except ImageError:
        if DEVICE_MAGIC in data:
            return _firmware(data, str(path))
    raise GramophoneError(
        f"{path} at offset 0x0: expected a trace, capture, key, trust policy, firmware, image, package, TA or "
        f"tensor, found {data[:8].hex() or 'an empty file'}"
    )


@click.command(
    "inspect",
    cls=GramophoneCommand,
    reads_traces=True,
    example="gramophone inspect net.sgtr\ngramophone inspect card.img --json\ngramophone inspect out/firmware.elf",
)
@click.argument("file", type=FILE)
def inspect_command(file: Path) -> Outcome[Inspected]:
    """Identify a file and show its main figures.

    FILE is a trace, a capture, a key, a trust policy, firmware, an image, a package, a TA or a tensor. Extras add
    kinds of files, such as bills of materials.

    Nothing is verified; `verify` and `flash --check` do that. `dump` prints all of a trace.
    """
    with layout.naming(str(file)):
        kind, figures = _identify(file)
    lines = [f"{file}: {kind}"]
    for name, value in figures.items():
        rows = value if isinstance(value, list) and name != "shape" else [value]
        lines += [f"{name if number == 0 else '':16} {printable(str(row))}" for number, row in enumerate(rows)]
    return Outcome(Inspected(str(file), kind, figures), "\n".join(lines))
