# SPDX-License-Identifier: BSD-2-Clause
"""What the host knows of Malis: job chains, page tables, passes, rules between them."""
