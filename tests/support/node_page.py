# SPDX-License-Identifier: BSD-2-Clause
"""What came of ONNX's node tests, as docs/BREADTH.md has it: how many, and each that has not passed, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import onnx

from tests.support.node_cases import NodeCase, Why
from tests.support.node_guest import GUESTS
from tests.support.node_kept import Answer

CPU = "lavapipe"
MOST = 170  # characters of a reason
Answers = Mapping[str, Mapping[str, Answer]]


def page(cases: Sequence[NodeCase], others: int, answers: Answers) -> str:
    """The section's tables, in Markdown.

    Args:
        cases: all whose values are numbers.
        others: how many more there are.
        answers: of each judge, by case.
    """
    return "\n".join([*_counts(cases, others, answers), "", *_failures(cases, answers)])


def _judges(answers: Answers) -> list[str]:
    """The CPU, and the GPUs that have judged any."""
    return [CPU, *(gpu for gpu in GUESTS if answers.get(gpu))]


def _counts(cases: Sequence[NodeCase], others: int, answers: Answers) -> list[str]:
    right = _passed(answers[CPU])
    lines = [f"{len(cases) + others} cases, {len(cases)} of them of numbers only.", ""]
    lines += [
        "| judge | cases | right | of those that lavapipe has right | wrong or refused |",
        "|---|---|---|---|---|",
    ]
    for judge in _judges(answers):
        of, passed = answers[judge], _passed(answers[judge])
        both = right & of.keys()
        share = f"{len(passed & both)} of {len(both)}" if judge != CPU else ""
        lines.append(f"| {judge} | {len(of)} | {len(passed)} | {share} | {len(of) - len(passed)} |")
    return lines


def _failures(cases: Sequence[NodeCase], answers: Answers) -> list[str]:
    """A row for each operator and reason; where all judges say the same, in one."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for case in cases:
        said: dict[str, list[str]] = {}
        for judge in _judges(answers):
            why, text = answers[judge].get(case.name, (Why.PASSED, ""))
            if why is not Why.PASSED:
                said.setdefault(_reason(why, text), []).append(judge)
        for reason, judges in said.items():
            where = "all" if len(judges) == len(_judges(answers)) else ", ".join(judges)
            rows.setdefault((_operator(case), where, reason), []).append(case.name.removeprefix("test_"))
    lines = ["| operator | cases, without `test_` | where | why |", "|---|---|---|---|"]
    lines += [
        f"| {op} | {', '.join(names)} | {where} | {why} |" for (op, where, why), names in sorted(rows.items())
    ]
    return lines


def _operator(case: NodeCase) -> str:
    nodes = onnx.load_model_from_string(case.model).graph.node
    return str(nodes[0].op_type) if len(nodes) == 1 else "several"


def _reason(why: Why, text: str) -> str:
    if why in (Why.OPERATOR, Why.TIME):
        return str(why.value)
    text = re.sub(r"^\w+: (?=differs by )", "", text)  # which output it was
    text = text.removeprefix("NotImplementedError: ").replace("|", "/")
    return f"{why.value}: {text[:MOST].strip()}"


def _passed(answers: Mapping[str, Answer]) -> set[str]:
    return {name for name, (why, _) in answers.items() if why is Why.PASSED}
