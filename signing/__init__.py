# SPDX-License-Identifier: BSD-2-Clause
"""Keys, signers and the signed trace: COSE_Sign1 (RFC 9052) with a detached payload; replay logs and attestations
of devices are verified here too.

Not in here: what devices verify with (`tee_replayer/crypto`).

Read first: envelope.py
"""
