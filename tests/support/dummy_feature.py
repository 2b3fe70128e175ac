# SPDX-License-Identifier: BSD-2-Clause
"""A dummy feature of the replayer: a section of the trace has a number, to which an action adds.

Three files are new. What else changes are rows of tables, and in the core's C files a line for each hook.
"""

from __future__ import annotations

from tests.support.porting import Recipe, behind, like

MACRO = "GRAMOPHONE_DUMMY"
FOLDER = "tee_replayer/features/dummy"

API = """/* SPDX-License-Identifier: BSD-2-Clause */
/* A number of the trace's, to which actions add. */
#ifndef GRAMOPHONE_DUMMY_API_H
#define GRAMOPHONE_DUMMY_API_H

#ifdef GRAMOPHONE_DUMMY
#define GR_DUMMY_FIELDS uint64_t dummy_sum;

/* The number now; 0: no trace is loaded. */
GR_API uint64_t gr_dummy_sum(const struct gr_replayer *r);
#else
#define GR_DUMMY_FIELDS
#endif

#endif
"""

HOOKS = """/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the core takes the section, and runs the action. */
#ifndef GRAMOPHONE_DUMMY_H
#define GRAMOPHONE_DUMMY_H

#ifdef GRAMOPHONE_DUMMY

#define GR_DUMMY_FLAG GR_HEADER_FLAG_DUMMY

/* Take the number from the section, if the trace has one. */
GR_INTERNAL void gr_take_dummy(struct loader *l, enum gr_status *status, const uint8_t *data, uint64_t bytes);
GR_INTERNAL enum gr_status gr_add_dummy(struct gr_replayer *r, const struct gr_action *a);

#else

#define GR_DUMMY_FLAG 0u
#define gr_take_dummy(...) ((void)0)
#define gr_add_dummy(r, a) GR_STATUS_OK /* its opcode is unknown */

#endif

#endif
"""

SOURCE = """/* SPDX-License-Identifier: BSD-2-Clause */
/* The dummy. */
#include "../../core/load.h"

void gr_take_dummy(struct loader *l, enum gr_status *status, const uint8_t *data, uint64_t bytes)
{
    const bool is_there = GR_HAS(l, GR_DUMMY_FLAG);
    if (*status == GR_STATUS_OK && is_there && bytes != 8)
        *status = GR_STATUS_SECTIONS;
    if (*status == GR_STATUS_OK && is_there)
        l->r->dummy_sum = gr_load64(data);
    l->r->report.dummy = (uint32_t)l->r->dummy_sum;
}

enum gr_status gr_add_dummy(struct gr_replayer *r, const struct gr_action *a)
{
    r->dummy_sum += a->value;
    r->report.dummy = (uint32_t)r->dummy_sum;
    return GR_STATUS_OK;
}

uint64_t gr_dummy_sum(const struct gr_replayer *r)
{
    return r->dummy_sum;
}
"""

CORE_HOOKS: Recipe = {
    "tee_replayer/core/load.c": behind(
        "tee_replayer/core/load.c",
        "    status = gr_check_weights(l);\n",
        "    gr_take_dummy(l, &status, OF_HEAD(l, GR_SECTION_TYPE_DUMMY));\n",
    ),
    "tee_replayer/core/load.h": like(
        "tee_replayer/core/load.h",
        ("HEAD_SECTIONS + ", "HEAD_SECTIONS + ((type) < GR_SECTION_TYPE_DUMMY && GR_HAS(l, GR_DUMMY_FLAG)) + "),
    ),
    "tee_replayer/core/run.c": behind(
        "tee_replayer/core/run.c",
        "    case GR_OP_OPERATE: return gr_operate(r, a);\n",
        "    case GR_OP_DUMMY: return gr_add_dummy(r, a);\n",
    ),
}

TABLES: Recipe = {
    "tee_replayer/core/features_api.h": like(
        "tee_replayer/core/features_api.h",
        ('/clock_api.h"\n', '/clock_api.h"\n#include "../features/dummy/dummy_api.h"\n'),
        ("GR_SCHEDULE_FIELDS GR_EVIDENCE_FIELDS\n", "GR_SCHEDULE_FIELDS GR_DUMMY_FIELDS GR_EVIDENCE_FIELDS\n"),
    ),
    "tee_replayer/core/features_hooks.h": like(
        "tee_replayer/core/features_hooks.h",
        ('/clock.h"\n', '/clock.h"\n#include "../features/dummy/dummy.h"\n'),
        ("| GR_ENCRYPTION_FLAG)\n", "| GR_ENCRYPTION_FLAG | GR_DUMMY_FLAG)\n"),
    ),
    "tee_replayer/features/__init__.py": behind(
        "tee_replayer/features/__init__.py",
        '    Feature("clock", "GRAMOPHONE_CLOCK"),\n',
        f'    Feature("dummy", "{MACRO}", ("dummy.c",)),\n',
    ),
}

# What the section, the action, the field and the slot of the mailbox are; the C headers follow.
FORMATS: Recipe = {
    "trace_format/schema/trace.py": like(
        "trace_format/schema/trace.py",
        ("    ACTIONS = 16\n", "    DUMMY = 7\n    ACTIONS = 16\n"),
        ("NETWORK_FLAG_EXCLUSIVE =", "HEADER_FLAG_DUMMY = 32\nNETWORK_FLAG_EXCLUSIVE ="),
    ),
    "trace_format/layout.py": like(
        "trace_format/layout.py",
        ("_BROUGHT = {\n", "_BROUGHT = {\n    32: SectionType.DUMMY,\n"),
    ),
    "trace_format/opcodes.py": like(
        "trace_format/opcodes.py",
        ("    WAIT_IRQ = 0x30\n", "    DUMMY = 0x25\n    WAIT_IRQ = 0x30\n"),
        (
            "        ActionType(\n            Op.WAIT_IRQ,\n",
            '        ActionType(Op.DUMMY, "a dummy: adds a number", '
            '(operand("number", Type.NUMBER, "the number", "value"),),\n'
            f'            macro="{MACRO}"),\n'
            "        ActionType(\n            Op.WAIT_IRQ,\n",
        ),
    ),
    "trace_format/schema/report.py": like(
        "trace_format/schema/report.py",
        ('"reserved" / Reserved(4) * "zero"', '"dummy" / u32 * "the dummy\'s number"'),
    ),
    "tee_replayer/generator/status.py": behind(
        "tee_replayer/generator/status.py", "    replay_us: int = 0\n", "    dummy: int = 0\n"
    ),
    "trace_format/schema/mailbox.py": behind(
        "trace_format/schema/mailbox.py", "MAILBOX_ATTESTATION = 0xFFFFFF03\n", "MAILBOX_DUMMY = 0xFFFFFF20\n"
    ),
}

FILES: Recipe = {
    f"{FOLDER}/dummy_api.h": lambda: API,
    f"{FOLDER}/dummy.h": lambda: HOOKS,
    f"{FOLDER}/dummy.c": lambda: SOURCE,
}
FEATURE: Recipe = FILES | CORE_HOOKS | TABLES | FORMATS
