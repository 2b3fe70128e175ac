# SPDX-License-Identifier: BSD-2-Clause
"""`make optee`: fetch and build TF-A and OP-TEE, and boot them with the demo network and a temporary key."""

from __future__ import annotations

import sys
import time

from host_tools.demo import RAW
from host_tools.passes.pipeline import KEEP_INPUTS, build
from host_tools.runners import NORMAL_WORLDS, run
from host_tools.support.messages import escape_unprintable, listening
from host_tools.support.progress import phase
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from trace_format.errors import GramophoneError
from trace_format.trace import Trace


def main() -> int:
    """Exit status: 0 the outputs are those of the bare-metal firmware, 1 they are not, 2 it cannot be built."""
    escape_unprintable()
    signer = FileSigner(generate(Algorithm.ES256))
    data = RAW.read_bytes()
    signed = sign_trace(build(Trace.parse(data), source=data, skip=KEEP_INPUTS).build(), signer)
    delivery = Delivery(signed)
    expected = run("qemu", delivery, signer.public)
    all_same = True
    for name, runner in NORMAL_WORLDS.items():
        try:
            with phase(f"{name}: building what is missing (minutes, the first time)"):
                run(runner, delivery, signer.public)
            start = time.monotonic()
            found = run(runner, delivery, signer.public)
            seconds = time.monotonic() - start
        except GramophoneError as error:
            print(f"OP-TEE is skipped, normal world {name}: {error}", file=sys.stderr)
            return 2
        same = found.ok and all(
            found.outputs[slot].tobytes() == array.tobytes() for slot, array in expected.outputs.items()
        )
        print(f"{found.device}: {found.error or f'{found.jobs} jobs, {found.actions} actions'}, {seconds:.2f} s")
        print(f"outputs are {'the same bytes as' if same else 'not those of'} the bare-metal firmware")
        all_same = all_same and same
    return 0 if all_same else 1


if __name__ == "__main__":
    with listening():
        sys.exit(main())
