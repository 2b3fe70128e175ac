# SPDX-License-Identifier: BSD-2-Clause
"""Bills of materials in CycloneDX, of the host tools and of generated firmware; needs cyclonedx-python-lib.

Not in here: licences in words (docs/LICENCES.md).

Read first: document.py
"""
