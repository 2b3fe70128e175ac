# SPDX-License-Identifier: BSD-2-Clause
"""Recording on a Raspberry Pi 4 of the user's: a folder that is copied there, with a library that is preloaded and
writes a capture at the driver's ioctls, and what comes back as a raw trace.

Not in here: finding slots, which is the same as for other recordings (`record`).

Read first: kit.py
"""
