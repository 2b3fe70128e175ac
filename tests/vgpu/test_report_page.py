# SPDX-License-Identifier: BSD-2-Clause
"""The page of a behaviour report: all facts are there, it is well-formed, needs nothing else, trusts no text."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from host_tools.audit.report import facts, words
from host_tools.audit.report.collect import Asked, collect, parse
from host_tools.audit.report.page import page
from host_tools.cli import main
from host_tools.demo import RAW
from tests.support import replayer_samples as s
from trace_format.trace import Trace

# Elements that HTML has no end tag of; the rest must be closed.
VOID = {"meta", "link", "br", "hr", "img", "input"}
EVIL = "<script>\"'&lt;\x1b\u202e{{7}}"
# Attributes whose values a browser fetches, or runs.
LEADS_AWAY = {"src", "srcset", "action", "formaction", "data", "poster", "background", "style", "xlink:href"}


class Page(HTMLParser):
    """Collects what a page consists of; AssertionError where tags are not balanced."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, attribute: str) -> list[str]:
        return [attributes[attribute] for _, attributes in self.elements if attribute in attributes]


def digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def is_sound(text: str) -> Page:
    """What holds of every page."""
    assert text.startswith("<!DOCTYPE html>\n<html lang=")
    ElementTree.fromstring(text)  # well-formed: every tag closed, every ampersand escaped
    found = Page(text)
    ids = found.values("id")
    assert len(ids) == len(set(ids))
    links = found.values("href") + [
        f"#{name}" for value in found.values("aria-labelledby") for name in value.split()
    ]
    assert links
    assert {link[1:] for link in links} <= set(ids), "links lead to places of the page only"
    assert all(link.startswith("#") for link in links)
    assert not {tag for tag, _ in found.elements} & {"link", "img", "iframe", "object", "form", "base"}
    names = {name for _, attributes in found.elements for name in attributes}
    assert not names & LEADS_AWAY
    assert not any(name.startswith("on") for name in names)
    assert not re.search(r"https?://(?!www\.w3\.org/1999/xhtml)", text)
    assert "url(" not in text
    style = re.search(r"<style>(.*?)</style>", text, re.S)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    assert sum(tag == "script" for tag, _ in found.elements) == len(scripts) <= 1
    (policy,) = (a["content"] for _, a in found.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert style
    script = f"'sha256-{digest(scripts[0])}'" if scripts else "'none'"
    expected = f"default-src 'none'; style-src 'sha256-{digest(style[1])}'; script-src {script}; "
    assert policy == f"{expected}base-uri 'none'; form-action 'none'"
    for tag, attributes in found.elements:
        if (
            tag == "div" and "scroll" in attributes.get("class", "").split()
        ):  # what scrolls can be reached by the keyboard
            assert (attributes["tabindex"], attributes["role"]) == ("0", "region")
            assert attributes["aria-label"]
        if tag == "svg":
            assert attributes.get("role") in ("img", "group") or attributes.get("aria-hidden") == "true"
        if tag == "th":
            assert attributes["scope"] in ("row", "col")
    return found


def report(data: bytes, **options: Any) -> facts.Report:
    asked = Asked("net.gtr", data, command="gramophone report net.gtr -o report.html", **options)
    return collect(asked, parse(data, "net.gtr"))


@pytest.fixture(scope="module")
def recording() -> facts.Report:
    return report(RAW.read_bytes())


def test_every_fact_is_on_the_page(recording: facts.Report) -> None:
    text = page(recording)
    found = is_sound(text)
    assert recording.jobs
    assert recording.regions
    for job in recording.jobs:
        assert f'id="job-{job.number}"' in text
        assert f"{job.bytes_read:,}" in found.text
    for number, region in enumerate(recording.regions):
        assert f'id="region-{number}"' in text
        assert f"{region.address:#010x}" in found.text
        for did in region.did or ():
            assert f"M{number} {did.read:,}, {did.written:,}" in found.text
    for slot in recording.slots:
        assert slot.name in found.text
    for number, shader in enumerate(recording.shaders):
        assert f'id="shader-{number}"' in text
        assert shader.sha256 in found.text
        assert all(f"{index:5d}  {line}\n" in found.text for index, line in enumerate(shader.lines))
    for finding in recording.findings:
        assert finding.text in found.text
        assert finding.reason in found.text
    for register in recording.registers:
        assert register.name in found.text
    for edge in recording.flow.edges:
        assert words.node(edge.source) in found.text
    for line in recording.reproduce:
        assert line in found.text
    assert recording.file.sha256 in found.text


def test_the_same_report_gives_the_same_bytes(recording: facts.Report) -> None:
    assert page(recording) == page(report(RAW.read_bytes()))


def test_on_paper_everything_is_unfolded(recording: facts.Report) -> None:
    folded = is_sound(page(recording))
    unfolded = is_sound(page(recording, unfolded=True))
    count = sum(tag == "details" for tag, _ in folded.elements)
    assert count > len(recording.shaders)
    assert [len(found.values("open")) for found in (folded, unfolded)] == [0, count]


def test_hostile_text_stays_text() -> None:
    """Names, texts of the manifest, file names: as they are, apart from what would not be seen."""
    sample = s.trace()
    slots = [replace(slot, name=f"{index}{EVIL}") for index, slot in enumerate(sample.slots)]
    texts = dict.fromkeys(("name", "recorder", "kernel", "driver", "framework"), EVIL)
    data = sample.with_(meta=texts, slots=slots).build()
    asked = Asked(EVIL, data, command=EVIL)
    text = page(collect(asked, parse(data, "x")))
    found = is_sound(text)
    shown = EVIL.replace("\x1b", r"\x1b").replace("\u202e", r"\u202e")
    assert found.text.count(shown) > 10
    assert text.count("<script") == 1, "the page's own"
    assert "&lt;script&gt;&#34;&#39;&amp;lt;" in text
    assert all(char.isprintable() or char == "\n" for char in text)


VERDICTS = {
    "verified": (facts.VERIFIED, None, "Signature: verified.", "good", "It can be deployed"),
    "refused": (facts.REFUSED, None, "Signature: refused.", "bad", "Do not deploy it: no trusted key"),
    "no key": (facts.NO_KEY, None, "Signature: not verified.", "open", "Do not decide yet"),
    "not signed": (facts.UNSIGNED, None, "Signature: not signed.", "open", "devices take only what is signed"),
    "verified, devices refuse it": (
        facts.VERIFIED,
        "the policy says no",
        "Devices: refuse it.",
        "bad",
        "Do not deploy it: every device refuses it.",
    ),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_the_verdict_is_on_top(case: str) -> None:
    verdict, refused, word, kind, decision = VERDICTS[case]
    found = report(s.trace().build(), run=False)
    signature = facts.Signature(verdict, "this is why", "ES256", "00" * 16, refused)
    text = page(replace(found, signature=signature, counts=dict.fromkeys(found.counts, 0)))
    is_sound(text)
    top = text.partition("<nav")[0]
    assert top.count('<span class="sign"') == 3
    assert decision in top
    assert f'<div class="verdict {kind}">' in top
    assert word in top
    assert words.capital(refused or "this is why", found.file.name) in top
    assert ("Claims to be signed by" in text) == (verdict != facts.VERIFIED)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"state": facts.NOT_ASKED}, "the report was made without a run"),
        ({"state": facts.FAILED, "text": "action 3: no"}, "the run on the virtual GPU failed: action 3: no."),
        ({"compute": "none"}, "executes no shaders, so what shaders touch was not seen"),
        ({}, "With other values other bytes may be touched"),
    ],
)
def test_it_says_where_did_touch_is_from(changes: dict[str, Any], expected: str) -> None:
    found = report(s.trace().build())
    assert expected in Page(page(replace(found, run=replace(found.run, **changes)))).text


def test_a_trace_with_nothing_in_it() -> None:
    is_sound(page(report(Trace("v3d42", s.trace().actions[:0], b"", 4096, 4096).build())))


@pytest.mark.parametrize(
    ("numbers", "expected"), [([], "none"), ([3], "3"), ([0, 1, 2, 5, 7, 8], "0-2, 5, 7-8"), ([2, 2, 1], "1-2")]
)
def test_lists_of_jobs(numbers: list[int], expected: str) -> None:
    assert words.jobs(numbers) == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 bytes"), (1, "1 byte"), (1023, "1,023 bytes"), (1024, "1,024 bytes (1 KiB)"),
     (350408, "350,408 bytes (342 KiB)"), (3 << 30, "3,221,225,472 bytes (3 GiB)")],
)  # fmt: skip
def test_sizes(count: int, expected: str) -> None:
    assert words.size(count) == expected


def test_the_command_writes_it(tmp_path: Path) -> None:
    source, target = tmp_path / "net.gtr", tmp_path / "report.html"
    source.write_bytes(s.trace().build())
    done = CliRunner().invoke(main, ["report", str(source), "--no-run", "-o", str(target)])
    assert done.exit_code == 1, done.output  # for a warning
    assert str(target) in done.stdout
    is_sound(target.read_text(encoding="utf-8"))
    printed = CliRunner().invoke(main, ["report", str(source), "--no-run", "-o", "-"])
    assert printed.stdout == target.read_text(encoding="utf-8")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", s.trace().build()[:-1], EVIL.encode()])
def test_a_file_that_is_no_trace_has_a_page_that_says_so(tmp_path: Path, content: bytes) -> None:
    """Its reader is not who runs the command."""
    source, target = tmp_path / "net.sgtr", tmp_path / "report.html"
    source.write_bytes(content)
    done = CliRunner().invoke(main, ["report", str(source), "-o", str(target)])
    assert (done.exit_code, done.stdout) == (2, "")
    found = is_sound(target.read_text(encoding="utf-8"))
    assert "Not a trace that can be read" in found.text
    assert done.stderr.removeprefix("error: ").strip() in found.text
    assert hashlib.sha256(content).hexdigest() in found.text


def test_memory_with_two_addresses_counts_once(recording: facts.Report) -> None:
    """A V3D's recording maps what it uses again at other addresses: pages of all regions are more than memory."""
    mapped = sum(region.bytes for region in recording.regions if "w" in region.access)
    assert 0 < recording.needs.writable_bytes <= mapped
    assert words.size(recording.needs.writable_bytes) in words.sentence(recording)


@pytest.mark.parametrize(("noun", "expected"), [("Arm Mali-G71", "an Arm Mali-G71"), ("V3D 4.2", "a V3D 4.2")])
def test_articles(noun: str, expected: str) -> None:
    assert words.an(noun) == expected


def test_a_file_s_name_keeps_its_letters() -> None:
    assert words.capital("net.sgtr: signed by", "net.sgtr") == "net.sgtr: signed by"
    assert words.capital("it carries no signature", "net.sgtr") == "It carries no signature"


RULINGS = [  # errors, warnings, a recording
    (1, 0, False, "bad", "Do not deploy it before somebody has explained its 1 error."),
    (0, 2, False, "open", "It can be deployed once somebody has read its 2 warnings."),
    (0, 0, False, "good", "It can be deployed: nothing speaks against it."),
    (0, 0, True, "open", "Do not deploy it as it is: it is a recording, which"),
    (1, 0, True, "bad", "Do not deploy it as it is: it is a recording, which"),
]


@pytest.mark.parametrize(("errors", "warnings", "raw", "kind", "expected"), RULINGS)
def test_the_decision(errors: int, warnings: int, raw: bool, kind: str, expected: str) -> None:
    counts = {"error": errors, "warning": warnings, "note": 3}
    found = report(s.trace().build(), run=False)
    signature = facts.Signature(facts.VERIFIED, "this is why", "ES256", "00" * 16, None)
    found = replace(found, signature=signature, counts=counts, about=replace(found.about, raw=raw))
    assert words.decision(found)[0] == kind
    assert words.decision(found)[1].startswith(expected)


def test_findings_lead_to_job_shader_and_line(recording: facts.Report) -> None:
    """And of many of one rule all but three are folded."""
    code = recording.shaders[0]
    job = code.jobs[0]
    finding = facts.Finding("GR705", "t", "warning", "r", "d", 1, "text", None, job, 0, 2)
    text = page(replace(recording, findings=[finding] * 5))
    found = is_sound(text)
    for place in (f"job-{job}", "shader-0", "line-0-2"):
        assert f'href="#{place}"' in text
        assert place in found.values("id")
    assert "2 more of GR705" in found.text


def test_what_is_large_is_folded(recording: facts.Report) -> None:
    """Parameters, jobs, regions and registers; nothing of it is lost."""
    slots = [replace(recording.slots[0], name=f"w{number}", kind="parameter") for number in range(40)]
    text = page(replace(recording, slots=[*recording.slots, *slots]))
    is_sound(text)
    outside = re.sub(r"<details.*?</details>", "", text, flags=re.S)
    assert "w39" in text
    assert "w39" not in outside
    assert 'id="region-0"' not in outside
    assert 'id="register-0"' not in outside


def test_the_script_is_xml_as_it_is() -> None:
    assert not set("<&") & set((Path(words.__file__).parent / "page.js").read_text(encoding="utf-8"))
