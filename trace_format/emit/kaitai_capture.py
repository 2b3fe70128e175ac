# SPDX-License-Identifier: BSD-2-Clause
"""Emits the Kaitai Struct description of a capture."""

from __future__ import annotations

from trace_format.emit.kaitai import META, enumeration_of, structure_type
from trace_format.emit.walk import enumerations, structures
from trace_format.schema import CAPTURE, COUNTERS
from trace_format.schema.capture import CAPTURE_ALIGNMENT, CAPTURE_PAGE_BYTES

FILE = "trace_format/generated/gramophone_capture.ksy"

_CAPTURE = """\
doc: All that passes between a GPU and its driver. See docs/FORMAT-CAPTURE.md.
seq:
  - id: header
    type: capture_header
  - id: events
    type: event
    repeat: until
    repeat-until: _.record.kind == record_kind::end
types:
  event:
    seq:
      - id: record
        type: capture_record
      - id: data
        type:
          switch-on: record.kind
          cases:
            record_kind::map: capture_mapping
            record_kind::new_page: page
            record_kind::bytes: changed(record.b)
            record_kind::call: capture_call
            record_kind::end: capture_end
  page:
    seq:
      - id: content
        size: {page}
  changed:
    params:
      - id: length
        type: u4
    seq:
      - id: content
        size: length
      - id: padding
        type: u1
        valid: 0
        repeat: expr
        repeat-expr: ({alignment} - length % {alignment}) % {alignment}
"""


def emit() -> str:
    """The description of a capture."""
    text = META.format(id="gramophone_capture", title="Gramophone capture", extension="cap")
    text += _CAPTURE.format(page=CAPTURE_PAGE_BYTES, alignment=CAPTURE_ALIGNMENT)
    for structure in (*structures(COUNTERS), *structures(CAPTURE)):
        text += "".join(structure_type(structure))
    return text + "enums:\n" + "".join("".join(enumeration_of(values)) for values in enumerations(CAPTURE))
