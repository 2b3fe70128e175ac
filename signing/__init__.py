# SPDX-License-Identifier: BSD-2-Clause
"""Keys, signers and the signed trace: COSE_Sign1 (RFC 9052) with a detached payload."""
