# SPDX-License-Identifier: BSD-2-Clause
"""Signers whose private key this program never sees: another program, and a signature made elsewhere.

What they give is not believed: `signing.sign` brings it into the one form that is read, and verifies it.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from signing.errors import SignerError
from signing.keys import PublicKey
from trace_format.files import open_regular

TIMEOUT_S = 600  # a person may have to touch a token, or to answer a prompt
ANSWER_BYTES = 64 << 10
INPUT, OUTPUT = "{input}", "{output}"


@dataclass(frozen=True)
class GivenSignature:
    """A signature that was made elsewhere, of what `sign --to-be-signed` wrote.

    Attributes:
        public: the key that it is said to be of.
        signature: as the other program wrote it.
    """

    public: PublicKey
    signature: bytes

    def sign(self, tbs: bytes) -> bytes:
        """The signature that was given."""
        return self.signature


@dataclass(frozen=True)
class CommandSigner:
    """A program that signs: an agent, a cloud's key service, a script for a hardware token.

    It is started without a shell. The bytes to be signed are its standard input, and the signature its standard
    output; where its words have `{input}` or `{output}`, names of files stand there instead.

    Attributes:
        public: the key that it signs with.
        command: the program and its arguments, quoted as in a shell.
        timeout_s: seconds that it may take.
    """

    public: PublicKey
    command: str
    timeout_s: float = TIMEOUT_S

    def sign(self, tbs: bytes) -> bytes:
        """What the program answers; SignerError where it fails, takes too long, or says too much or nothing."""
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise SignerError(f"the signer's command cannot be read ({error}): {self.command}") from None
        if not words:
            raise SignerError("the signer's command is empty")
        with tempfile.TemporaryDirectory(prefix="gramophone-") as folder:
            given, taken = Path(folder, "to-be-signed"), Path(folder, "signature")
            given.write_bytes(tbs)
            started = [word.replace(INPUT, str(given)).replace(OUTPUT, str(taken)) for word in words]
            printed = Path(folder, "printed")
            with open_regular(given) as stdin, printed.open("wb") as stdout:
                self._run(started, stdin.fileno(), stdout.fileno())
            answer = taken if any(OUTPUT in word for word in words) else printed
            if not answer.is_file():
                raise SignerError(f"{words[0]}: the signer wrote no file {OUTPUT}")
            with open_regular(answer) as stream:
                signature = stream.read(ANSWER_BYTES + 1)
        if not signature or len(signature) > ANSWER_BYTES:
            found = len(signature) if signature else "nothing"
            raise SignerError(f"{words[0]}: the signer's answer: expected a signature, found {found} bytes")
        return signature

    def _run(self, words: list[str], stdin: int, stdout: int) -> None:
        try:
            ended = subprocess.run(words, stdin=stdin, stdout=stdout, timeout=self.timeout_s, check=False)
        except subprocess.TimeoutExpired:
            raise SignerError(f"{words[0]}: the signer took more than {self.timeout_s:g} s") from None
        except (OSError, ValueError) as error:  # ValueError: a zero byte
            raise SignerError(f"{words[0]}: the signer cannot be started: {error}") from None
        if ended.returncode:
            raise SignerError(f"{words[0]}: the signer ended with status {ended.returncode}")
