# SPDX-License-Identifier: BSD-2-Clause
"""The functions of `import gramophone`: what is imported for one of them is imported when it is called."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike, NDArray

from host_tools.api.traces import AnyPath, Recording, SignedTrace, Trace, taken
from trace_format.errors import GramophoneError, SlotError, listed
from trace_format.schema import SlotKind

if TYPE_CHECKING:
    from host_tools.api.keys import TrustedKey
    from host_tools.audit.judgement import Judged
    from host_tools.audit.rules import Finding
    from signing.sign import FileSigner


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
    from signing import keys
    from signing.sign import FileSigner

    key = keys.generate(keys.Algorithm.ES256)
    if path is not None:
        try:
            write_atomically(Path(path), keys.private_pem(key), mode=0o600, overwrite=False)
        except FileExistsError:
            raise GramophoneError(f"{os.fspath(path)}: exists, and its key would be lost") from None
    return FileSigner(key)


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
    """Check who signed a trace and that no bit of it has changed since, as `gramophone verify` does.

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

    from host_tools.api.keys import anchor_of
    from host_tools.audit.judgement import judge
    from signing.trust import Policy
    from signing.trust_verdict import Judge

    signed = taken(trace, SignedTrace)
    keys: Sequence[Any] = key if isinstance(key, list | tuple) else [key]
    anchors = [anchor_of(one) for one in keys]
    if len(anchors) > 1 and any(isinstance(anchor, Policy) for anchor in anchors):
        raise GramophoneError("key: a trust policy says itself which keys count: expected it alone")
    return judge(signed.delivery, anchors, signed.file, Judge(platform, device_id, now=int(time.time())))


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
