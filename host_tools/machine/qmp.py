# SPDX-License-Identifier: BSD-2-Clause
"""QEMU's machine protocol: commands and events as lines of JSON (QEMU docs/interop/qmp-spec).

Nothing here waits for longer than QEMU lives: who uses it ends QEMU in time.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from typing import Any

from host_tools.machine.errors import RecordError


class Ended(Exception):
    """QEMU has ended, or closed the connection."""


class Control:
    """A connection to a QEMU that runs.

    Args:
        connection: a socket whose other end is QEMU's.

    Raises:
        Ended: as all methods.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._events: list[dict[str, Any]] = []
        self._receive()  # the greeting
        self.command("qmp_capabilities")

    def command(self, name: str, **arguments: Any) -> Any:
        """What a command returns.

        Raises:
            RecordError: QEMU refuses it.
        """
        return self._command([], name, **arguments)

    def give(self, name: str, number: int) -> None:
        """Make an open file of this process known to QEMU under a name."""
        self._command([number], "getfd", fdname=name)

    def _command(self, files: Sequence[int], name: str, **arguments: Any) -> Any:
        line = json.dumps({"execute": name, "arguments": arguments}).encode() + b"\n"
        try:
            socket.send_fds(self._connection, [line], files)
        except OSError as error:
            raise Ended from error
        while True:
            message = self._receive()
            if "return" in message:
                return message["return"]
            if "error" in message:
                raise RecordError(f"QEMU refuses {name}: {message['error'].get('desc')}")
            self._events.append(message)

    def event(self, name: str) -> dict[str, Any]:
        """Data of the next event of this name; others before it are dropped."""
        while True:
            message = self._events.pop(0) if self._events else self._receive()
            if message.get("event") == name:
                data: dict[str, Any] = message.get("data", {})
                return data

    def _receive(self) -> dict[str, Any]:
        try:
            line = self._lines.readline()
        except OSError as error:
            raise Ended from error
        if not line:
            raise Ended
        message: dict[str, Any] = json.loads(line)
        return message
