# SPDX-License-Identifier: BSD-2-Clause
"""The functions of `import gramophone`: what is imported for one of them is imported when it is called."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike, NDArray

from host_tools.api.traces import AnyPath, Recording, SignedTrace, Trace, taken
from host_tools.model.facts import default_name
from host_tools.support.extra import everyone, loaded
from host_tools.support.gpu_folders import DEFAULT_GPU
from trace_format.errors import GramophoneError, SlotError, listed
from trace_format.schema import SlotKind

if TYPE_CHECKING:
    from host_tools.api.keys import TrustedKey
    from host_tools.audit.judgement import Judged
    from host_tools.audit.rules import Finding
    from host_tools.record.choosing import Choice
    from host_tools.record.foreseen import Foreseen
    from host_tools.record.needs import Need
    from signing.sign import FileSigner


Shapes = Mapping[str, tuple[int, ...]]

NCNN = ".param"


class RefusedError(GramophoneError):
    """A device refused a trace, or could not replay it to its end."""


def new_key(path: AnyPath | None = None) -> FileSigner:
    """Make an ES256 key pair, of the kind that a device with one key verifies.

    Args:
        path: file for the private key (PEM, PKCS#8, not encrypted, readable by the user only); None: it is kept
            in memory only, and lost with it.

    Returns:
        A signer, for `Trace.sign`; its `public` is the public key, and `public.pem()` what others get of it.

    Raises:
        GramophoneError: the file exists.
        OSError: it cannot be written.
    """
    from host_tools.support.files import write_atomically
    from signing import key_files, keys
    from signing.sign import FileSigner

    key = keys.generate(keys.Algorithm.ES256)
    if path is not None:
        try:
            write_atomically(Path(path), key_files.private_pem(key), mode=0o600, overwrite=False)
        except FileExistsError:
            raise GramophoneError(f"{os.fspath(path)}: exists, and its key would be lost") from None
    return FileSigner(key)


def choose(
    model: AnyPath,
    *,
    shapes: Shapes | None = None,
    gpu: str = DEFAULT_GPU,
    fp16: bool = False,
    tolerance: float | None = None,
    **asked: Any,
) -> Choice:
    """Decide who takes a network, from its operators and without a boot.

    Args:
        model, shapes, gpu, fp16, tolerance, asked: as `record`; of ncnn's own files there is nothing to decide.

    Returns:
        `how` ("ncnn", "tinygrad", or "fastest" if both are to be compared), and `why`, a sentence.

    Raises:
        GramophoneError: as `record`, as far as the network's file and the arguments say it.
        OSError: a file cannot be read.
    """
    from host_tools.api.recording import check, chosen

    path = _network(model)
    if path.suffix == NCNN:
        raise GramophoneError(f"{path}: ncnn records its own files, so there is nothing to choose")
    front_end = _front_end(path)
    check(tolerance, gpu, asked.get("compiler", "auto"))
    how = {"gpu": gpu, "fp16": fp16, "tolerance": tolerance, **_given(path, asked)}
    return chosen(front_end, path, shapes or {}, **how)


def record(
    model: AnyPath,
    *,
    weights: AnyPath | None = None,
    shapes: Shapes | None = None,
    name: str | None = None,
    gpu: str = DEFAULT_GPU,
    fp16: bool = False,
    tolerance: float | None = None,
    timeout: float | None = None,
    snapshot: str = "",
    check: bool = True,
    **asked: Any,
) -> Recording:
    """Record one inference of a network on the unmodified GPU stack, as `gramophone record` does: minutes, since
    a machine with a virtual GPU boots.

    Args:
        model: the network's file: ncnn's (.param), ONNX (.onnx), a program of torch.export (.pt2) or TorchScript
            (.pt).
        weights: of ncnn's network; None: the .bin file beside it.
        shapes: input -> shape, where the file leaves it open: of ncnn's without a batch dimension (channels,
            height, width), of others with it.
        name: of the recording; None: the file's.
        gpu: virtual GPU to record on.
        fp16: keep weights and activations in half precision; ncnn only.
        tolerance: largest difference to the result of ncnn's CPU path or ONNX Runtime, relative to the largest
            value; None: 1e-4, or what half precision and int8 weights allow.
        timeout: time limit of each boot, in seconds; None: 900.
        snapshot: day of Debian's archive that the guest's packages are of; "": the newest.
        check: replay the recording with inputs of its own, and compare.
        asked: of ncnn's networks `until`, blobs to compute in place of all outputs; of others `compiler`, one of
            "auto", "ncnn", "tinygrad", "fastest"; `values`, arrays for inputs where random ones mean nothing; of
            ONNX `constants`, arrays for inputs that become constants, and `external`, further files of weights.

    Returns:
        The recording.

    Raises:
        GramophoneError: the file is none of these or damaged, nobody takes the network, a shape is missing, or
            what was recorded computes something else.
        OSError: a file cannot be read.
    """
    from host_tools.api import recording
    from host_tools.machine.boot import BOOT_TIMEOUT_S
    from host_tools.machine.snapshot import timestamp

    path = _network(model)
    recording.check(tolerance, gpu, asked.get("compiler", "auto"))
    how: dict[str, Any] = {"gpu": gpu, "fp16": fp16, "tolerance": tolerance, "check": check}
    how |= {"name": name or default_name(path.stem), "snapshot": timestamp(snapshot) if snapshot else ""}
    how["timeout"] = BOOT_TIMEOUT_S if timeout is None else timeout
    if path.suffix == NCNN:
        _check_asked(path, asked, ("until",))
        beside = Path(weights) if weights is not None else path.with_suffix(".bin")
        trace = recording.recorded_ncnn(path, beside, shapes or {}, **how, **asked)
    else:
        trace = recording.recorded(_front_end(path), path, shapes or {}, **how, **_given(path, asked))
    return Recording(trace.build(compress=False))


def foreseen(
    model: Path,
    weights: Path | None,
    shapes: Shapes,
    *,
    gpu: str,
    fp16: bool,
    tolerance: float | None,
    **asked: Any,
) -> tuple[str, str, Foreseen, list[Need]]:
    """What `record` would do: by whom, why, what comes out, and which programs are missing.

    Args:
        model, weights, shapes, gpu, fp16, tolerance, asked: as `record`.

    Raises:
        GramophoneError: as `record`, before anything boots.
        OSError: a file cannot be read.
    """
    from host_tools.api import recording
    from host_tools.record import needs, ways
    from host_tools.record.preflight import preflight

    if model.suffix == NCNN:
        _check_asked(model, asked, ())
        files = recording.ncnn_files(model, weights or model.with_suffix(".bin"))
        with recording.told(str(model)):
            checked = preflight(*files, shapes)
            found = ways.foreseen_ncnn(files[0], checked, shapes, fp16)
        return ways.ByNcnn.name, "the files are ncnn's", found, needs.missing(needs.BY_NCNN)
    if weights is not None:
        raise GramophoneError(f"{weights}: only ncnn's networks have a second file, of weights")
    choice = recording.chosen(
        _front_end(model), model, shapes, gpu=gpu, fp16=fp16, tolerance=tolerance, **_given(model, asked)
    )
    lacking = needs.missing(need for way in choice.ways for need in way.needs)
    with recording.told(str(model)):
        return choice.how, choice.why, choice.ways[0].foreseen(gpu), lacking


def _network(model: AnyPath) -> Path:
    """The path of a network's file."""
    if not isinstance(model, str | os.PathLike):
        raise GramophoneError(f"model: expected the path of a network's file, found {type(model).__name__}")
    return Path(model)


def _front_end(model: Path) -> Callable[..., Choice]:
    """What reads a network's file."""
    known = {".onnx": "host_tools.record.frontends:choose_onnx"}
    for _, extra in everyone():
        known |= extra.networks
    if model.suffix not in known:
        expected = listed((NCNN, *known))
        raise GramophoneError(f"{model}: expected a name that ends in one of {expected}, found another")
    choose: Callable[..., Choice] = loaded(known[model.suffix])
    return choose


def _given(model: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked of a network that is not ncnn's, its arrays as such."""
    import numpy as np

    only_onnx = ("constants", "external") if model.suffix == ".onnx" else ()
    _check_asked(model, asked, ("compiler", "values", *only_onnx))
    arrays: dict[str, Any] = {
        name: {slot: np.asarray(value) for slot, value in asked[name].items()}
        for name in ("values", "constants")
        if name in asked
    }
    if "external" in asked:
        arrays["external"] = tuple(map(Path, asked["external"]))
    return {**asked, **arrays}


def _check_asked(model: Path, asked: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in asked:
        if name not in known:
            raise GramophoneError(f"{model} takes no {name}; what it takes: {listed(known)}")


def lint(
    trace: Recording | Trace | SignedTrace | AnyPath, *, dynamic: bool = False, allow: AnyPath | None = None
) -> list[Finding]:
    """Judge what a trace would make a GPU do, by the rules of docs/RULES.md, as `gramophone lint` does.

    Args:
        trace: signed or not, or the path of its file. A signature is not verified.
        dynamic: also follow its data on the virtual GPU, byte by byte, which takes as long as a few replays.
        allow: TOML file with findings that are accepted; they are left out.

    Returns:
        Findings: `rule.id`, `rule.severity`, `text`, and `action`, the index of the action or None for the whole.

    Raises:
        TraceError: it is malformed.
        GramophoneError: it is something else, or the file of accepted findings is malformed.
    """
    from host_tools.audit.allowed import read
    from host_tools.audit.outcome import judged

    content = taken(trace, Recording, Trace, SignedTrace).content
    found = judged(content, read(Path(allow)) if allow is not None else [], dynamic=dynamic)
    return [finding for index, finding in enumerate(found.findings) if index not in found.reasons]


def verify(
    trace: SignedTrace | AnyPath,
    key: TrustedKey | Sequence[TrustedKey],
    *,
    platform: str | None = None,
    device_id: bytes | None = None,
) -> Judged:
    """Check who signed a trace and that no bit of it has changed since, as `gramophone verify trace` does.

    Args:
        trace: a signed trace, or the path of its file.
        key: what is trusted: public keys, or one trust policy, or paths of their files.
        platform, device_id: of the device that judges, under a trust policy (16 bytes); None: any.

    Returns:
        The verdict. It is true only if the owner of a trusted key signed the trace and devices take it; `reason`
        is a sentence either way.

    Raises:
        GramophoneError: it is no signed trace, or `key` is something else.
    """
    import time

    from host_tools.api.keys import anchors_of
    from host_tools.audit.judgement import judge
    from signing.trust_verdict import Judge

    signed = taken(trace, SignedTrace)
    keys: Sequence[Any] = key if isinstance(key, list | tuple) else [key]
    return judge(signed.delivery, anchors_of(keys), signed.file, Judge(platform, device_id, now=int(time.time())))


def replay(
    trace: SignedTrace | AnyPath,
    inputs: Mapping[str, ArrayLike | AnyPath] | None = None,
    *,
    key: TrustedKey,
    on: str = "vgpu",
    parameters: Mapping[str, ArrayLike | AnyPath] | None = None,
    network: str | None = None,
    **options: Any,
) -> dict[str, NDArray[Any]]:
    """Verify, load and replay a signed trace on a device that trusts one key, as `gramophone replay` does.

    Args:
        trace: a signed trace, or the path of its file.
        inputs: slot -> value: an array of the slot's type and shape (a leading dimension of 1 is forgiven), or a
            .npy file. Inputs with `bound` may be left out: they keep the recorded value.
        key: whose traces the device accepts: an ES256 public key, a trust policy, or the path of either.
        on: what to run on: "vgpu", the virtual GPU in this process's sandbox; "unicorn" or "qemu", firmware in an
            emulated machine; "optee", "optee-linux" or "linux", the same under OP-TEE or Linux.
        parameters: values of parameter slots (weights), as `inputs`.
        network: of a joint trace, the one to replay.
        options: further ones of the runner (`host_tools.runners`): repeat, gpu, firmware, timeout_s (seconds), ..

    Returns:
        Output slot -> array of the slot's type and shape. Of boxes, only those that were found.

    Raises:
        SlotError: there is no such slot, or one that needs a value has none.
        RefusedError: the device refused the trace or could not replay it; the message says why.
        GramophoneError: a value does not fit its slot, the runner does not have an option, or it is no signed
            trace.
    """
    from host_tools import runners
    from host_tools.api.keys import anchor_of
    from host_tools.api.replaying import NO_SHADERS, opened, refusal, replayed
    from host_tools.runners.replay import NONE
    from host_tools.support.messages import warn
    from host_tools.support.tensors import fitted_all
    from tee_replayer.generator.device_file import checked_key

    if on not in runners.RUNNERS:
        raise GramophoneError(f"on: expected one of {listed(runners.RUNNERS)}, found {on!r}")
    signed = taken(trace, SignedTrace)
    where = os.fspath(key) if isinstance(key, str | os.PathLike) else "key"
    subject = opened(signed.delivery, checked_key(anchor_of(key), where), signed.file, network)
    values: dict[str, NDArray[Any]] = {}
    if subject.trace is not None:
        given = ("inputs", inputs, SlotKind.INPUT), ("parameters", parameters, SlotKind.PARAMETER)
        for name, arrays, kind in given:
            if arrays is not None and not isinstance(arrays, Mapping):
                raise GramophoneError(f"{name}: expected a dict of slots, found {type(arrays).__name__}")
            values |= fitted_all(subject.trace, arrays or {}, name, kind)
    if missing := subject.missing(values):
        wanting = [f"{kind.name.lower()} {listed(names)}" for kind, names in missing.items()]
        raise SlotError(f"{signed.file}: no value for {' and '.join(wanting)}")
    if network is not None:
        options["network"] = network
    result = replayed(on, subject, values, **options)
    if not result.ok:
        raise RefusedError(refusal(result))
    if result.compute == NONE:
        warn(NO_SHADERS)
    return result.outputs
