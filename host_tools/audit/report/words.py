# SPDX-License-Identifier: BSD-2-Clause
"""What the page says in words: verdicts, sizes, what a region is for."""

from __future__ import annotations

from collections.abc import Sequence

from host_tools.audit.report import facts
from host_tools.audit.report.facts import Node, Region, Report
from host_tools.audit.report.plots import runs

KIB = 1024
UNITS = ("KiB", "MiB", "GiB")
WHO = {
    facts.VERIFIED: ("good", "Verified"),
    facts.REFUSED: ("bad", "Refused"),
    facts.NO_KEY: ("open", "Not verified"),
    facts.UNSIGNED: ("open", "Not signed"),
}
NOT_COMPUTED = "The virtual GPU of this family executes no shaders, so what shaders touch was not seen"


def size(count: int) -> str:
    """`350,408 bytes (342 KiB)`."""
    text = "1 byte" if count == 1 else f"{count:,} bytes"
    value, unit = float(count), ""
    for name in UNITS:
        if value < KIB:
            break
        value, unit = value / KIB, name
    return f"{text} ({value:.3g} {unit})" if unit else text


def counted(count: int, what: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def jobs(numbers: Sequence[int]) -> str:
    """`0-3, 7`, or "none"."""
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs(sorted(set(numbers)))) or "none"


def node(found: Node) -> str:
    """An end of an edge."""
    match found.kind:
        case facts.JOB:
            return f"job {found.job}"
        case facts.SLOT:
            return str(found.slot)
        case facts.TRACE:
            return "constants of the trace"
        case facts.CLEARED:
            return "zeros"
    return "nobody"


def purpose(region: Region) -> str:
    """What a region is for, as far as it can be said."""
    parts = [f"slot {name}" for name in region.slots]
    if region.code_of:
        parts.append(f"code of {job_list(region.code_of)}")
    if region.named_by:
        parts.append(f"uniforms of {job_list(region.named_by)}")
    if not parts:
        parts.append("constants" if region.image_bytes == region.bytes else "working memory")
    if region.shared_bytes:
        parts.append(f"{size(region.shared_bytes)} have other addresses too")
    return "; ".join(parts)


def job_list(numbers: Sequence[int]) -> str:
    """`job 3`, `jobs 1, 3`."""
    return f"job{'s' * (len(numbers) > 1)} {jobs(numbers)}"


def capital(text: str, file: str) -> str:
    """A sentence as it begins; a file's name before it keeps its letters."""
    return text if text.startswith(file) else text[:1].upper() + text[1:]


def an(noun: str) -> str:
    """`an Arm Mali`, `a Broadcom`."""
    return f"{'an' if noun[:1] in 'AEIOU' else 'a'} {noun}"


def unwritten(report: Report) -> list[str]:
    """Regions that page tables let jobs write, and no job wrote in a run that executed shaders."""
    if report.run.compute == "none":
        return []
    return [
        f"M{number}"
        for number, region in enumerate(report.regions)
        if "w" in region.access and region.did is not None and not any(did.written for did in region.did)
    ]


def unread(report: Report) -> list[int]:
    """Jobs that wrote something that neither another job nor the caller read."""
    read = {edge.source.job for edge in report.flow.edges}
    return [job.number for job in report.jobs if job.bytes_written and job.number not in read]


def verdict(report: Report) -> tuple[str, str, str]:
    """What kind it is (good, bad, open), a word or two, and a sentence."""
    kind, word = WHO[report.signature.verdict]
    if report.signature.refused_by_devices:
        return "bad", "Devices refuse it", report.signature.refused_by_devices
    weights = next((finding.text for finding in report.findings if finding.rule == "GR408"), "")
    if kind == "good" and weights:
        return "open", "Verified, but for its weights", f"{report.signature.reason}; {weights}"
    return kind, word, report.signature.reason


def judgement(report: Report) -> str:
    """The findings in a sentence."""
    found = ", ".join(counted(number, name) for name, number in report.counts.items())
    return f"Rules: {found}."


def did_touch(report: Report) -> str:
    """Where "did touch" is from, or why it is missing."""
    run = report.run
    if run.state == facts.NOT_ASKED:
        return "What jobs do touch is missing: the report was made without a run."
    if run.state == facts.FAILED:
        return f"What jobs do touch is missing: the run on the virtual GPU failed: {run.text}."
    values = "; ".join(f"{name}: {value}" for name, value in run.inputs.items())
    values = values or "none are needed"
    text = f"What jobs did touch is from one run on the virtual GPU, with these values: {values}."
    if run.compute == "none":
        return f"{text} {NOT_COMPUTED}: here is what the job manager read and wrote, and nothing of the results."
    return f"{text} With other values other bytes may be touched, within what may be touched."


def may_touch(report: Report) -> str:
    """Where "may touch" is from."""
    if report.may_basis == facts.DESCRIPTORS:
        return (
            "What jobs may touch is what their chains of descriptors can reach, by typed pointers and by all "
            "words of reached memory that could be addresses, with what page tables allow there."
        )
    why = f" Their descriptors cannot be followed: {report.not_followed}." if report.not_followed else ""
    return f"What jobs may touch is all that is mapped when they start, with what page tables allow there.{why}"


def sentence(report: Report) -> str:
    """What it is, for who reads nothing else."""
    taken = [slot.name for slot in report.slots if slot.kind == "input"]
    given = [slot.name for slot in report.slots if slot.kind == "output"]
    return (
        f"{counted(len(report.jobs), 'job')} with {counted(len(report.shaders), 'shader')} on "
        f"{an(report.about.gpu_title)}; takes {', '.join(taken) or 'no input'}, "
        f"gives {', '.join(given) or 'no output'}; may write {size(report.needs.writable_bytes)} of GPU memory."
    )
