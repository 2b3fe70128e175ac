# SPDX-License-Identifier: BSD-2-Clause
"""The fuzz targets in C: they run for a moment without a finding, and they find mistakes that are planted."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from host_tools.runners import libraries
from tests.fuzz import corpus, session, targets

SECONDS = 2


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    lacking = targets.missing()
    if lacking:
        pytest.skip(lacking)
    try:
        libraries.source()
    except OSError as error:
        pytest.skip(f"the crypto libraries' sources cannot be fetched: {error}")


def test_committed_inputs_are_those_of_the_program() -> None:
    assert corpus.main(["--check"]) == 0


# A core with all that a joint trace needs, and two that have nothing of it. A V3D's core is compiled and tried
# below; to compile a virtual GPU for libFuzzer takes a minute.
SOME = ("core-scheduled-mali_g71", "ta", "trust")


@pytest.mark.parametrize(
    "name", [name for name in targets.available() if name not in SOME and not name.startswith("vgpu")]
)
def test_a_target_is_built(name: str, tmp_path: Path) -> None:
    """Those that a moment of fuzzing below leaves out, but for the virtual GPUs, whose harness has no core."""
    assert targets.build(targets.TARGETS[name], tmp_path, level="-O0").exists()


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in SOME else [pytest.mark.exhaustive]) for name in targets.available()],
)
def test_a_moment_of_fuzzing(name: str, tmp_path: Path) -> None:
    target = targets.TARGETS[name]
    program = targets.build(target, tmp_path, level="-O1")  # with -O2 the virtual GPUs take half as long again
    command = [
        *session.IN_A_SHELL,
        program,
        f"-max_total_time={SECONDS}",
        f"-max_len={target.max_len}",
        "-rss_limit_mb=1024",
    ]
    command += [f"-timeout={session.INPUT_SECONDS}", "-print_final_stats=1", *target.seeds]
    grown = tmp_path / "grown"
    grown.mkdir()
    command.insert(command.index("-print_final_stats=1") + 1, grown)
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        errors="replace",
        env=session.environment(),
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "stat::number_of_executed_units" in done.stderr


# A mistake in a file of the core or in the generated table: (target, file, what is there, what is put there).
PLANTED = {
    "writable image": ("core-plain-v3d42", "check.c",
                       "a->flags & GR_MAP_GPU_MEM_WRITE && a->b < GR_READ_ONLY_END(r) / GR_PAGE_BYTES", "0"),
    "writable image, Mali": ("core-plain-mali_g71", "check.c",
                             "a->flags & GR_MAP_GPU_MEM_WRITE && a->b < GR_READ_ONLY_END(r) / GR_PAGE_BYTES", "0"),
    "executable data": ("core-plain-mali_g71", "check.c", "is_below(a->b, a->value, image_pages)", "true"),
    "pages outside": ("core-plain-v3d42", "check.c",
                      "r->carveout_bytes / GR_PAGE_BYTES)", "r->carveout_bytes / GR_PAGE_BYTES + 1)"),
    "wider table": ("core-plain-v3d42", "gr_target.h", "{0x060d0c05u, 0x060d0c01u, 0}", "{0xffffffffu, 0u, 0}"),
    "driver's register": ("core-plain-mali_g71", "gr_target.h", "{0x0900, 4, 1, 0}", "{0x0900, 4, 3, 13}"),
    "not idle": ("core-plain-mali_g71", "run.c", "limits->idle ? gr_settle(r) : GR_STATUS_OK", "GR_STATUS_OK"),
    "code that can change": ("core-plain-v3d42", "v3d42.c", "code < r->image_end ||", "true ||"),
    "slot in the image": ("core-plain-v3d42", "slots.c", "place < GR_WORK_AT(r) ||", ""),
    "no table": ("core-plain-v3d42", "run.c", "gr_driver_set_table(r, 0);", ""),
    "not wiped": ("core-plain-v3d42", "load.c", "gr_wipe(r->high,", "(void)(r->high,"),
    "not reset": ("core-plain-mali_g71", "load.c", "if (r->touched)", "if (false)"),
    "read twice": ("core-plain-v3d42", "envelope.c", "memcpy(l->head, header, GR_HEADER_BYTES);",
                   "l->stream.source->read(l->stream.source->ctx, TRACE_AT, l->head, GR_HEADER_BYTES);"),
    "write while loading": ("core-plain-v3d42", "load.c", "m = gr_aligned(m);", "gr_port_write32(0x58, 2);"),
    "another network's pages": ("core-scheduled-v3d42", "networks.c",
                                "(a->b < first && first != image_pages) ||", "0 ||"),
    "another network's pages, Mali": ("core-scheduled-mali_g71", "networks.c",
                                      "mapped > GR_WORK_END(r) / GR_PAGE_BYTES", "0"),
    "another network's pages of the image": ("core-scheduled-v3d42", "networks.c",
                                             "gr_shows(r, (uint64_t)a->b * GR_PAGE_BYTES, end * GR_PAGE_BYTES)",
                                             "true"),
    "another network's pages of the image, Mali": ("core-scheduled-mali_g71", "reach.c",
                                                   "return networks >> r->network & 1;", "return networks;"),
    "another network's pages, uploaded": ("core-scheduled-v3d42", "check.c",
                                          "!gr_may_read(r, a->b, (uint64_t)a->b + a->value)", "false"),
    "the last of its pages only": ("core-scheduled-v3d42", "reach.c",
                                   "networks &= reach(r)[++page]", "networks = reach(r)[++page]"),
    "another network's memory": ("core-scheduled-v3d42", "check.c",
                                 "a->a < GR_WORK_AT(r) ||", "a->a < r->image_end ||"),
    "another network's memory is wiped": ("core-scheduled-v3d42", "run.c", "GR_WIPED_END(r) - GR_WORK_AT(r)",
                                          "r->carveout_bytes - GR_WORK_AT(r)"),
    "another network's slots": ("core-scheduled-v3d42", "check.c",
                                "!GR_IS_OWN_SLOT(r, arg)", "arg >= r->slot_count"),
    "another network's tables": ("core-scheduled-v3d42", "v3d42.c", "r->memory.phys + GR_DRIVER_AT(r)",
                                 "r->memory.phys + r->networks[0].driver_at"),
    "tables that stay": ("core-scheduled-v3d42", "networks.c",
                         "is_set_up(GR_PROGRESS(r)) && !gr_driver_switch(r)", "false"),
    "memory of two networks": ("core-scheduled-mali_g71", "networks.c",
                               "field(row, GR_NETWORK_AT_FIRST_PAGE) == page &&", ""),
    "a request for another's slots": ("core-scheduled-v3d42", "schedule.c", "b->slot >= own->end_slot ||", ""),
    "a request that is never over": ("core-scheduled-v3d42", "schedule.c",
                                     "    take_out(&r->queue, 0);\n    return id;",
                                     "    return id;"),
    "data of a request that is over": ("core-scheduled-v3d42", "schedule.c",
                                       "gr_bind(r, q->bindings[i].slot, NULL, 0);", ";"),
    "two replays of a network": ("core-scheduled-v3d42", "schedule.c",
                                 "queue->requests[to + 1].network != q->network", "true"),
    "more requests than there is room for": ("core-scheduled-v3d42", "schedule.c",
                                             "if (queue->length >= GR_REQUESTS)", "if (false)"),
    "jobs of a step that is repeated": ("core-scheduled-v3d42", "steps.c", "        w->jobs = jobs;\n", ""),
    "a resident piece that is written": ("core-streaming-v3d42", "check.c",
                                         "a->b < GR_READ_ONLY_END(r) / GR_PAGE_BYTES",
                                         "a->b < r->image_end / GR_PAGE_BYTES"),
    "a changed piece": ("core-streaming-v3d42", "stream.c",
                        "        return GR_STATUS_CHUNK;\n    s->differing |= hash_difference(digest, s->hashes)",
                        "        s->differing = 0;\n    s->differing |= 0"),
    "a job without its pieces": ("core-streaming-v3d42", "run.c",
                                 "            status = gr_fetch_pieces(r, &action);\n"
                                 "        if (status == GR_STATUS_OK && gr_lacks_pieces(r, i))\n"
                                 "            status = GR_STATUS_FLOW;\n", "            ;\n"),
    "an answer anywhere": ("mailbox-requests", "main.c", '#include "requests.c"',
                           '#define is_shared(offset, bytes) true\n#include "requests.c"\n#undef is_shared'),
    "given away as it is": ("core-scheduled-v3d42", "steps.c",
                            "if (r->touched && !gr_driver_reset(r))", "if (false)"),
    "any client": ("ta", "gramophone_ta.c", "!client_allowed(&client)", "false"),
    "not admitted, and loaded": ("ta", "gramophone_ta.c", "(void)invoke_plain(GRAMOPHONE_UNLOAD)", "(void)result"),
    "answer too long": ("ta", "gramophone_ta.c", "result == TEE_SUCCESS && bytes > room", "false"),
    "older trace": ("ta", "rollback.c", "offered.version < highest.version", "false"),
    "match before the start": ("lz4", "lz4.c", "distance - 1 >= out_bytes - left ||", ""),
    "literals too long": ("lz4", "lz4.c", "if (length > left)\n            break;", ""),
    "entries not counted": ("mailbox-log", "log.c", "    tail.entries++;\n", ""),
    "a replay without an entry": ("mailbox-log", "main.c", '#include "evidence.c"',
                                  '#define gr_log_append(log, kind, report) '
                                  '((kind) == GR_LOG_KIND_REPLAY || gr_log_append(log, kind, report))\n'
                                  '#include "evidence.c"'),
    "more data than a slot has": ("linux-npy", "npy.c", "fread(data, 1, wanted, file)",
                                  "fread(data, 1, wanted + 1, file)"),
    "a number in a longer form": ("log", "attest.c", "if (number > 23)", "if (number > 22)"),
    "a number of 32 bits": ("log", "attest.c",
                            "bytes < 8 && number >> 8 * bytes", "bytes < 4 && number >> 8 * bytes"),
    "another claim's label": ("log", "attest.c", "put_ours(w, 5);", "put_ours(w, 4);"),
    "a nonce of any size": ("log", "attest.c",
                            "nonce_bytes - GR_NONCE_MIN > GR_NONCE_MAX - GR_NONCE_MIN ||", "false ||"),
    "an attestation after a failure": ("log", "attest.c", "if (log->failed ||", "if ("),
    "results of a replay that failed": ("log", "log.c", "if (report->status != GR_STATUS_OK)", "if (false)"),
    "a chain that is not one": ("log", "log.c", "memcpy(e.previous, tail.hash, sizeof e.previous);", ""),
    "keys of a blank secret": ("log", "log.c", "!gr_log_is_blank(secret.bytes) &&", "true &&"),
    "keys that stay": ("log", "log.c", "    gr_wipe(log, sizeof *log);", "    (void)0;"),
    "more files than there is room for": ("linux", "main.c", "if (request->count == FILES)", "if (false)"),
    "a GPU that stays open": ("linux", "gramophone_gpu.c", "        gr_uio_close();\n    gpu.is_open = false;",
                              "        (void)0;\n    gpu.is_open = false;"),
    "a trace that stays loaded": ("linux", "gramophone_gpu.c", "        gr_unload(&gpu.replayer);",
                                  "        (void)0;"),
    "a half of a file": ("linux", "npy.c", "        unlink(temporary);", "        ;"),
    "operands that overlap": ("operators", "operate.c",
                              "!is_apart(operand_slot(r, first + i), operand_slot(r, first + k))", "false"),
    "an input that is written": ("operators", "operate.c",
                                 "kind != GR_SLOT_KIND_INTERNAL &&", "false &&"),
    "scratch that callers get": ("operators", "operate.c", "type->flags & GR_OPERAND_SCRATCH))", "false))"),
    "scratch that is left": ("operators", "boxes.c", "gr_put(w, WORK, n, i, 0, 0);", ";"),
    "other sizes": ("operators", "operate.c", "if (found != wanted)", "if (false)"),
    "fewer rows than cells": ("operators", "operate.c", "if (cells > rows)", "if (false)"),
    "a box more than there is room for": ("operators", "boxes.c", "if (at == room)", "if (at > room)"),
    "boxes of an earlier run": ("operators", "boxes.c", "gr_put(w, BOXES, n, i, 0, 0);", ";"),
    "one signature less": ("trust", "trust.c", "lacking(l, p, rule->keys, rule->threshold,",
                           "lacking(l, p, rule->keys, rule->threshold - 1,"),
    "a policy longer than its room": ("trust", "trust.c", "m.payload_bytes > GR_MAX_TRUST_BYTES", "false"),
    "a payload behind the end": ("trust", "cose.c", "bytes >= room(p, end)", "false"),
    "recipients behind the end": ("encryption", "encryption.c",
                                  "bytes != MESSAGE_BYTES + (uint64_t)*count * ROW_BYTES", "false"),
    "a key that was not wrapped": ("encryption", "encryption.c", "return good && same == 1;", "return good;"),
    "a key schedule that stays": ("encryption", "encryption.c", "    gr_cipher_end(&cipher);\n", ""),
    "a body of any counter": ("encryption", "encryption.c", "!gr_is_zero(m + COUNTER_AT + 12, 4) ||", "false ||"),
    "another session's slots": ("pta-sharing", "gramophone_pta_sharing.c",
                                "if (network->owner != sharing.caller)", "if (false)"),
    "data that a replay has": ("pta-sharing", "gramophone_pta_sharing.c",
                               "waits(network) ? TEE_ERROR_BAD_STATE : TEE_SUCCESS", "TEE_SUCCESS"),
    "a trace that others use": ("pta-sharing", "gramophone_pta_sharing.c", "if (is_shared() ||", "if ("),
    "data of who was there before": ("pta-sharing", "gramophone_pta_sharing.c",
                                     "            memset(data, 0, slot.bytes);", "            {}"),
    "a GPU given away by who has no network": ("pta-sharing", "gramophone_pta_sharing.c",
                                               "    if (!chosen())\n        return TEE_ERROR_BAD_STATE;\n", ""),
    "a GPU that is not taken back": ("pta-sharing", "gramophone_pta_sharing.c",
                                     "        gr_optee_take();", "        {}"),
    "hash not compared": ("lz4", "stream.c", "if (!gr_is_same(digest, s->hashes, sizeof digest))", "if (false)"),
}  # fmt: skip


def planted(folder: Path, name: str, file: str, old: str, new: str) -> targets.Target:
    """A target with a mistake in one of its files."""
    target = targets.TARGETS[name]
    if file in target.headers:
        return dataclasses.replace(
            target, headers={**target.headers, file: changed(target.headers[file], old, new)}
        )
    (original,) = (path for path in target.fuzzed if path.name == file)
    copy = folder / file
    copy.write_text(changed(original.read_text, old, new)())
    return dataclasses.replace(target, fuzzed=[copy if path == original else path for path in target.fuzzed])


def changed(text: Callable[[], str], old: str, new: str) -> Callable[[], str]:
    before = text()
    assert old in before, "the code has changed: plant the mistake in its new form"
    return lambda: before.replace(old, new)


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_has_its_place(mistake: str, tmp_path: Path) -> None:
    """Each, where those that are built below are some."""
    assert planted(tmp_path, *PLANTED[mistake]) != targets.TARGETS[PLANTED[mistake][0]]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mistake", PLANTED)
def test_planted_mistakes_are_found(mistake: str, tmp_path: Path) -> None:
    target = planted(tmp_path, *PLANTED[mistake])
    program = targets.build(target, tmp_path / "program")
    grown = tmp_path / "grown"
    grown.mkdir()
    done = subprocess.run(
        [*session.IN_A_SHELL, str(program), "-runs=0", f"-max_len={target.max_len}", "-rss_limit_mb=1024",
         f"-artifact_prefix={tmp_path}/", str(grown), *map(str, target.seeds)],
        capture_output=True,
        text=True,
        errors="replace",
        env=session.environment(),
        check=False,
    )  # fmt: skip
    assert done.returncode, "not found"
    assert "FINDING" in done.stderr or "Sanitizer" in done.stderr, done.stderr[-2000:]
