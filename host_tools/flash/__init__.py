# SPDX-License-Identifier: BSD-2-Clause
"""Images for boards: packed from what `gramophone generate` wrote into cards, archives and flash images, read
back, checked against a manifest that is derived from the bytes, and compared.

Not in here: what a board's image consists of (`baremetal/boards`), and what its code does (`audit_firmware`).

Read first: pack.py
"""
