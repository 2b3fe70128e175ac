# SPDX-License-Identifier: BSD-2-Clause
"""Object stores by URL: S3 and what speaks like it, Google's, Azure's. All of them by obstore, of an extra.

Where a store is and who asks is said by environment variables that are the same for every S3 client: AWS_REGION,
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_ENDPOINT_URL (docs/FARM.md).
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from obstore.store import RetryConfig

PROTOCOLS = ("s3", "s3a", "gs", "az", "abfs", "abfss")
# Of answers 5xx, closed connections and time-outs of what may be asked again: then the store is not there.
RETRY: RetryConfig = {"max_retries": 10, "retry_timeout": timedelta(minutes=3)}
_SAID = re.compile(r"<Code>([^<]*)</Code>\s*<Message>([^<]*)</Message>")


def protocol(address: str) -> str | None:
    """Which kind of object store a URL is of; None: it is none of those."""
    before, found, _ = address.partition("://")
    return before if found and before in PROTOCOLS else None


def reason(error: Exception) -> str:
    """What a store or its library says, as one line: the store's own words, where it has some."""
    text = str(error).strip()
    first = next(iter(text.splitlines()), "") or type(error).__name__
    if said := _SAID.search(text):
        return f"{first.partition(': <')[0]}: {said[1]}: {said[2]}"
    return first
