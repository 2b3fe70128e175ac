# SPDX-License-Identifier: BSD-2-Clause
"""Bills of materials in CycloneDX, of the host tools and of generated firmware; needs cyclonedx-python-lib."""
