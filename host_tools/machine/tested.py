# SPDX-License-Identifier: BSD-2-Clause
"""The versions that were tested, of packages from suites whose versions change. What else needs a certain version
says so itself: ncnn (wheels.py, pyproject.toml), QEMU (host_tools/vgpu/build.py), crypto libraries (tee_replayer).
"""

from functools import cache

from host_tools.support.messages import warn

TESTED = {
    # Sources.
    "bearssl": "0.6+dfsg.1-3",
    "rust-aws-lc-sys": "0.42.0+dfsg-1",
    "mesa": "25.0.7-2+deb13u1",
    "optee-os": "4.10.0-2",
    "arm-trusted-firmware": "2.12.1+dfsg-1",
    # What recordings are made with; those of other versions can be compared in their results only.
    "linux-image-arm64": "6.12.107-1",
    "mesa-vulkan-drivers": "25.0.7-2+deb13u1",
    "python3.13": "3.13.5-2+deb13u5",
    # OP-TEE's side of Linux.
    "optee-client-dev": "4.5.0-1",
    "tee-supplicant": "4.5.0-1",
}


@cache
def say_if_other(package: str, version: str) -> None:
    """Warn, once, of a package that is of another version than was tested."""
    tested = TESTED.get(package, version)
    if version != tested:
        warn(f"{package} {version} is taken from the archive; {tested} was tested")
