# SPDX-License-Identifier: BSD-2-Clause
"""Images for boards, and the formats in them."""
