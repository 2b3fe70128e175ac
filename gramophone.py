# SPDX-License-Identifier: BSD-2-Clause
"""Record a GPU stack's work once, sign it, replay it from the secure world: from Python.

    import gramophone

    recording = gramophone.record("lenet.param", shapes={"data": (1, 28, 28)})
    trace = recording.build()
    key = gramophone.new_key()
    signed = trace.sign(key)
    outputs = gramophone.replay(signed, {"data": digit}, key=key.public)

A function that takes a recording or a trace also takes its path. Errors are `GramophoneError`, with the
sentence that the command would print. docs/PYTHON.md is a tour.
"""

from host_tools.api.calls import RefusedError, choose, lint, new_key, record, replay, verify
from host_tools.api.traces import Recording, SignedTrace, Trace, load
from host_tools.support.version import VERSION as __version__
from trace_format.errors import GramophoneError

__all__ = [
    "GramophoneError",
    "Recording",
    "RefusedError",
    "SignedTrace",
    "Trace",
    "__version__",
    "choose",
    "lint",
    "load",
    "new_key",
    "record",
    "replay",
    "verify",
]
