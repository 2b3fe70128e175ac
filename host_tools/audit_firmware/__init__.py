# SPDX-License-Identifier: BSD-2-Clause
"""What a compiled firmware does, by its bytes alone: functions, calls, stack, loops, stores to devices and the
checks that guard them, keys, the allow list in its constants, and the rules of `gramophone audit-firmware` that
all of it is judged by.

Not in here: traces (`audit`), and making firmware (`tee_replayer/generator`); of the sources only what an image
must agree with is read (expected.py).

Read first: analysis.py
"""
