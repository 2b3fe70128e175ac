# SPDX-License-Identifier: BSD-2-Clause
"""What the page says in words: verdicts, sizes, what a region is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from host_tools.audit.report import facts
from host_tools.audit.report.facts import Node, Region, Report
from host_tools.audit.report.network import Layer

KIB = 1024
UNITS = ("KiB", "MiB", "GiB")
WHO = {
    facts.VERIFIED: ("good", "verified"),
    facts.REFUSED: ("bad", "refused"),
    facts.NO_KEY: ("open", "not verified"),
    facts.UNSIGNED: ("open", "not signed"),
}
RULED = {"good": "kept", "open": "kept, with warnings", "bad": "broken"}
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


def short_size(count: int) -> str:
    """`342 KiB`."""
    return size(count).rpartition("(")[2].removesuffix(")")


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


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as stretches without a gap: first and last of each."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] + 1 == number:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found


def job_list(numbers: Sequence[int]) -> str:
    """`job 3`, `jobs 1, 3`."""
    return f"job{'s' * (len(numbers) > 1)} {jobs(numbers)}"


def busiest(layers: Sequence[Layer], most: int = 4) -> str:
    """Where most goes, in a sentence; "" where nothing tells."""
    found = sorted((layer for layer in layers if layer.share), key=lambda layer: -(layer.share or 0))[:most]
    return ", ".join(f"{layer.title} ({layer.kind}) {layer.share:.0f} %" for layer in found)


def by_rule(report: Report) -> list[tuple[str, list[tuple[int, facts.Finding]]]]:
    """Findings with their places, the same rule's together, in the order of the worst first."""
    found: dict[str, list[tuple[int, facts.Finding]]] = {}
    for number, finding in enumerate(report.findings):
        found.setdefault(finding.rule, []).append((number, finding))
    return list(found.items())


def by_target(report: Report) -> list[tuple[Node, list[facts.Edge]]]:
    """Edges of the data flow by who reads."""
    found: dict[Node, list[facts.Edge]] = {}
    for edge in report.flow.edges:
        found.setdefault(edge.target, []).append(edge)
    return list(found.items())


def few(names: Sequence[str], most: int = 12) -> str:
    """Names for a sentence: the first ones, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def milliseconds(us: float | None) -> str:
    """`1.250`."""
    return "not known" if us is None else f"{us / 1000:,.3f}"


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


@dataclass(frozen=True)
class Mark:
    """A line of the verdict: its kind (good, bad, open), what is judged, a word or two, and why."""

    kind: str
    subject: str
    word: str
    reason: str


def verdict(report: Report) -> tuple[Mark, Mark, Mark]:
    """Signature, devices and rules."""
    kind, word = WHO[report.signature.verdict]
    reason = report.signature.reason
    weights = next((finding.text for finding in report.findings if finding.rule == "GR408"), "")
    if kind == "good" and weights:
        kind, word, reason = "open", "verified, but for its weights", f"{reason}; {weights}"
    refused = report.signature.refused_by_devices
    rules = "bad" if report.counts["error"] else "open" if report.counts["warning"] else "good"
    return (
        Mark(kind, "Signature", word, reason),
        Mark("bad", "Devices", "refuse it", refused)
        if refused
        else Mark("good", "Devices", "take it", "none refuses what it does, by its GPU's policy"),
        Mark(rules, "Rules", RULED[rules], judgement(report)),
    )


def decision(report: Report) -> tuple[str, str]:
    """What kind it is, as in `verdict`, and what to do, in a sentence."""
    _, devices, rules = verdict(report)
    if report.signature.verdict == facts.REFUSED:
        return "bad", "Do not deploy it: no trusted key answers for these bytes."
    if devices.kind == "bad":
        return "bad", "Do not deploy it: every device refuses it."
    if report.about.raw:
        return "bad" if rules.kind == "bad" else "open", (
            "Do not deploy it as it is: it is a recording, which `gramophone build` and `sign` make a trace of."
        )
    if rules.kind == "bad":
        return (
            "bad",
            f"Do not deploy it before somebody has explained its {counted(report.counts['error'], 'error')}.",
        )
    if report.signature.verdict == facts.UNSIGNED:
        return "open", "Do not deploy it as it is: devices take only what is signed."
    if report.signature.verdict == facts.NO_KEY:
        return "open", "Do not decide yet: make this page again with --key, so that its signature is verified."
    if rules.kind == "open":
        return (
            "open",
            f"It can be deployed once somebody has read its {counted(report.counts['warning'], 'warning')}.",
        )
    return "good", "It can be deployed: nothing speaks against it."


def judgement(report: Report) -> str:
    """How many findings there are."""
    return ", ".join(counted(number, name) for name, number in report.counts.items())


def did_touch(report: Report) -> str:
    """Where "did touch" is from, or why it is missing."""
    run = report.run
    if run.state == facts.NOT_ASKED:
        return "What jobs do touch is missing: the report was made without a run."
    if run.state == facts.FAILED:
        return f"What jobs do touch is missing: the run on the virtual GPU failed: {run.text}."
    names: dict[str, list[str]] = {}
    for name, value in run.inputs.items():
        names.setdefault(value, []).append(name)
    values = "; ".join(f"{few(found)}: {value}" for value, found in names.items()) or "none are needed"
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
    time = f" About {report.estimate.text()}, by a model." if report.estimate else ""
    return (
        f"{counted(len(report.jobs), 'job')} with {counted(len(report.shaders), 'shader')} on "
        f"{an(report.about.gpu_title)}; takes {few(taken) or 'no input'}, "
        f"gives {few(given) or 'no output'}; may write {size(report.needs.writable_bytes)} of GPU memory."
        f"{time}"
    )
