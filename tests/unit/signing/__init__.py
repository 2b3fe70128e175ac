# SPDX-License-Identifier: BSD-2-Clause
"""Keys, envelopes, verification, replay logs and attestation."""
