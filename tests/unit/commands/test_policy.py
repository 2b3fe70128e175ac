# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone policy`, and signing under one, as a user types it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from signing import key_files
from signing.trust_chain import Chain
from tests.support import hostile_ids
from tests.support import trust_samples as t
from tests.support.signing_commands import run, run_json
from tests.support.trust_case import resigned
from tests.support.trust_samples import rule

NAMES = "abcdefg"
INIT = (
    "policy init fleet --root a.pub --root b.pub --root c.pub --root-threshold 2 "
    "--trace-key d.pub --trace-key e.pub --trace-key f.pub --trace-threshold 2 -o fleet.gtp"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, signer in zip(NAMES, t.SIGNERS, strict=True):
        Path(f"{name}.pem").write_bytes(key_files.private_pem(signer.key))
        Path(f"{name}.pub").write_bytes(signer.public.pem())
    Path("net.gtr").write_bytes(t.small())


def typed(line: str, status: int = 0) -> str:
    found = run(*line.split(), status=status)
    return found.stderr if status == 2 else found.stdout


def signed_by(*names: str, file: str = "fleet.gtp") -> None:
    for name in names:
        typed(f"policy sign {file} --signing-key {name}.pem")


def test_from_keys_to_a_rotation() -> None:
    """Two of three, a trace, a new key, a revocation; each step says what is missing."""
    assert "not signed yet" in typed(INIT)
    assert "1 of the root keys of version 1" in typed("policy sign fleet.gtp --signing-key a.pem")
    typed("policy show fleet.gtp", status=1)
    signed_by("b")
    typed("policy show fleet.gtp")
    first = typed("sign net.gtr --trust-policy fleet.gtp --signing-key d.pem -o one.sgtr")
    assert "not enough for devices yet" in first
    assert "found 1" in typed("verify trace one.sgtr --key fleet.gtp", status=1)
    second = typed("sign one.sgtr --trust-policy fleet.gtp --signing-key e.pem -o net.sgtr")
    assert "not enough" not in second
    assert "under version 1 of trust policy fleet" in typed("verify trace net.sgtr --key fleet.gtp")
    found = run_json("verify", "trace", "net.sgtr", "--key", "fleet.gtp")["trust"]
    assert (found["status"], found["threshold"], len(found["signed"]), found["missing"]) == ("OK", 2, 2, 0)
    Path("old.gtp").write_bytes(Path("fleet.gtp").read_bytes())

    typed("policy rotate fleet.gtp d.pub g.pub")
    signed_by("a", "c")
    assert "revoked" in typed("verify trace net.sgtr --key fleet.gtp", status=1)
    typed("sign net.sgtr --trust-policy fleet.gtp --signing-key g.pem -o new.sgtr")
    assert "under version 2" in typed("verify trace new.sgtr --key fleet.gtp")
    assert "under version 2" in typed("verify trace new.sgtr --key old.gtp")  # a device that has version 1
    typed("policy publish fleet.gtp --after old.gtp -o out.gtp")
    assert Path("out.gtp").read_bytes() == Path("fleet.gtp").read_bytes()


def test_what_changes_is_said() -> None:
    """By every command that shows a policy, of the version before: keys, rights, and what comes back."""
    kid = {name: signer.kid.hex() for name, signer in zip(NAMES, t.SIGNERS, strict=True)}
    typed(INIT)
    assert "since version" not in typed("policy show fleet.gtp", status=1)
    signed_by("a", "b")
    typed("policy add-key fleet.gtp g.pub --role root")
    text = typed("policy threshold fleet.gtp 1 --role *")
    two, three = f"{kid['a']}, {kid['b']}, {kid['c']}", f"{kid['a']}, {kid['b']}, {kid['c']}, {kid['g']}"
    tracers = f"{kid['d']}, {kid['e']}, {kid['f']}"
    rows = [
        f"since version 1  added {kid['g']}: nothing before, policies now",
        f"since version 1  was: policies: 2 of 3: {two}",
        f"since version 1  was: traces *: 2 of 3: {tracers}",
        f"since version 1  now: policies: 2 of 4: {three}",
        f"since version 1  now: traces *: 1 of 3: {tracers}",
    ]
    assert [line for line in text.splitlines() if line.startswith("since")] == rows
    shown = typed("policy sign fleet.gtp --signing-key a.pem")
    assert [line for line in shown.splitlines() if line.startswith("since")] == rows
    signed_by("b")
    chain = Chain.decode(Path("fleet.gtp").read_bytes())
    without = replace(t.policy(rule(threshold=1)), version=3)
    back = replace(chain.last.policy, version=4)
    links = (*chain.links, *(t.signed_policy(one) for one in (without, back)))
    Path("fleet.gtp").write_bytes(Chain(links[:3]).encode())
    removed = run_json("policy", "show", "fleet.gtp")["changes"]
    assert (removed["since"], removed["keys"]) == (
        2,
        [{"key": kid["g"], "what": "removed", "before": ["policies"], "after": []}],
    )
    Path("fleet.gtp").write_bytes(Chain(links).encode())
    assert f"given back {kid['g']}: nothing before, policies now" in typed("policy show fleet.gtp")
    typed("policy revoke fleet.gtp g.pub")
    assert f"revoked {kid['g']}: policies before, nothing now" in typed("policy show fleet.gtp", status=1)
    signed_by("a", "b")
    typed("policy expire fleet.gtp never")
    assert "since version 5  nothing changed" in typed("policy show fleet.gtp", status=1)


@pytest.mark.parametrize("line", ["show", "sign --signing-key b.pem", "publish -o out", "expire never", "drop"])
def test_what_changes_is_not_told_against_a_version_that_nobody_signed(line: str) -> None:
    """A forged version before the newest could hide what that changes: here, that one key signs traces."""
    forged = t.signed_policy(t.policy(rule(threshold=1)), t.ROOTS[:1])
    newest = t.signed_policy(replace(forged.policy, version=2), t.ROOTS[:1])
    Path("fleet.gtp").write_bytes(Chain((forged, newest)).encode())
    command, *rest = line.split()
    text = typed(" ".join(["policy", command, "fleet.gtp", *rest]), status=2)
    assert "fleet.gtp: version 1 lacks signatures, and a newer one follows it" in text
    assert not Path("out").exists()


TAKING_A_POLICY = (
    "policy show bad.gtp",
    "policy sign bad.gtp --signing-key a.pem",
    "policy publish bad.gtp -o out",
    "policy expire bad.gtp never",
    "generate --gpu v3d42 --platform qemu-virt --key bad.gtp -o out",
    "sign net.gtr --trust-policy bad.gtp --signing-key d.pem -o out",
    "verify trace net.gtr --key bad.gtp",
    "inspect bad.gtp",
)


@pytest.mark.parametrize("line", TAKING_A_POLICY)
def test_a_key_under_another_ones_id_is_shown_by_nobody(line: str) -> None:
    """Nor is such a policy signed, published or built into firmware, nor one where a person has two keys."""
    ids = {name: case for name, case in hostile_ids.CASES.items() if case.malformed and "another key's" in name}
    people = {name: case for name, case in hostile_ids.CASES.items() if case.malformed and "people: ES" in name}
    assert (len(ids), len(people)) == (8, 8)
    for name, case in (ids | people).items():
        Path("bad.gtp").write_bytes(resigned(case.malformed).encode())
        text = typed(line, status=2)
        assert "bad.gtp at offset" in text
        assert (": id of a key (" if name in ids else "are one person's") in text
        assert not Path("out").exists()


def test_signing_elsewhere() -> None:
    """Policies and traces: the bytes go out, the signature comes in."""
    typed(INIT)
    for name in "ab":
        typed(f"policy sign fleet.gtp --public-key {name}.pub --to-be-signed -o tbs")
        subprocess.run(["openssl", "dgst", "-sha256", "-sign", f"{name}.pem", "-out", "sig", "tbs"], check=True)
        typed(f"policy sign fleet.gtp --public-key {name}.pub --signature sig")
    typed("policy show fleet.gtp")
    typed("sign net.gtr --trust-policy fleet.gtp --public-key d.pub --to-be-signed -o tbs")
    subprocess.run(["openssl", "dgst", "-sha256", "-sign", "d.pem", "-out", "sig", "tbs"], check=True)
    typed("sign net.gtr --trust-policy fleet.gtp --public-key d.pub --signature sig -o net.sgtr")
    found = run(
        "sign",
        "net.sgtr",
        "--trust-policy",
        "fleet.gtp",
        "--public-key",
        "e.pub",
        "-o",
        "net2.sgtr",
        "--signer-command",
        "openssl dgst -sha256 -sign e.pem",
    )
    assert found.exit_code == 0
    typed("verify trace net2.sgtr --key fleet.gtp")


def test_rules() -> None:
    typed(INIT)
    line = (
        "policy allow fleet.gtp net* --key d.pub --key e.pub --threshold 2 --gpu v3d42 --platform qemu-virt "
        "--device-id 000102030405060708090a0b0c0d0e0f --min-security-version 3 --max-carveout-mib 16 "
        "--max-seconds 60 --signed-weights"
    )
    text = typed(line)
    assert (
        "on v3d42; on qemu-virt; on devices 000102030405060708090a0b0c0d0e0f; security version 3 or newer; "
        "at most 16777216 bytes; at most 60 s; with signed weights"
    ) in text
    typed("policy threshold fleet.gtp 1 --role *")
    typed("policy add-key fleet.gtp g.pub --role net*")
    found = run_json("policy", "expire", "fleet.gtp", "2200-12-31")
    assert found["roles"][1]["role"] == "net*"
    assert len(found["roles"][1]["keys"]) == 3
    assert found["roles"][2]["threshold"] == 1
    assert found["not_after"] == 7_289_654_399
    assert "to 2200-12-31 23:59:59 UTC" in typed("policy show fleet.gtp", status=1)
    assert run_json("policy", "expire", "fleet.gtp", "never")["not_after"] == 0


def test_a_dry_run_writes_nothing() -> None:
    typed(INIT)
    before = Path("fleet.gtp").read_bytes()
    for line in (
        "policy rotate fleet.gtp a.pub g.pub",
        "policy revoke fleet.gtp a.pub",
        "policy sign fleet.gtp --signing-key a.pem",
        "policy sign fleet.gtp --public-key a.pub --to-be-signed -o tbs",
        "policy expire fleet.gtp 2200-01-01",
    ):
        typed(f"{line} --dry-run")
        assert Path("fleet.gtp").read_bytes() == before
    assert not Path("tbs").exists()
    assert "nothing was written" in typed(INIT.replace("fleet.gtp", "other.gtp") + " --dry-run")
    assert not Path("other.gtp").exists()


def test_a_version_is_taken_back() -> None:
    typed(INIT)
    signed_by("a", "b")
    before = Path("fleet.gtp").read_bytes()
    typed("policy revoke fleet.gtp a.pub")
    signed_by("b")
    assert "some of its signatures" in typed("policy expire fleet.gtp never", status=2)
    typed("policy drop fleet.gtp")
    assert Path("fleet.gtp").read_bytes() == before


def test_a_key_on_a_token_signs_a_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support import tokens

    tokens.make(tmp_path, monkeypatch, "owner")
    tokens.put(tmp_path, t.SIGNERS[0].key, token="owner", label="root")
    Path("pin").write_bytes(tokens.PIN)
    typed(INIT)
    typed("policy sign fleet.gtp --pkcs11 pkcs11:token=owner;object=root --passphrase-file pin")
    assert Chain.decode(Path("fleet.gtp").read_bytes()).last.signatures.by_kid.keys() == {t.SIGNERS[0].kid}


WRONG = {
    INIT: "fleet.gtp: exists; a trust policy in use would be lost",
    "policy init x --root a.pub --root-threshold 2 -o x.gtp": "error: threshold of the role that signs policies: "
    "expected 1 to 1, as many as it has keys, found 2",
    "policy init x --root a.pub --trace-key d.pub --trace-threshold 2 -o x.gtp": "traces named *: expected 1 to 1",
    "policy init x --root a.pub --trace-threshold 2 -o x.gtp": "--trace-threshold requires --trace-key",
    "policy allow fleet.gtp a* --key d.pub --threshold 2": "the role that signs traces named a*: expected 1 to 1",
    "policy init x --root a.pem -o x.gtp": "a.pem: not a public key",
    "policy init x --root a.pub --expires 2001-01-01 -o x.gtp": "this day is over",
    "policy init x --root a.pub --expires soon -o x.gtp": "expected a day as 2028-01-31, or never",
    "policy revoke fleet.gtp zz": "'zz' names 0 keys of version 1",
    "policy revoke fleet.gtp g.pub": "fleet.gtp: version 1 has no key",
    "policy add-key fleet.gtp a.pub --role root": "fleet.gtp: key",
    "policy add-key fleet.gtp g.pub --role none": "fleet.gtp: no such role: expected one of root, *, found none",
    "policy threshold fleet.gtp 9 --role root": "the role that signs policies: expected 1 to ",
    "policy sign fleet.gtp --signing-key d.pem": "a key that does not sign trust policies",
    "policy sign fleet.gtp --signing-key a.pem -o tbs": "-o and --to-be-signed require each other",
    "policy sign fleet.gtp --public-key a.pub --to-be-signed": "-o and --to-be-signed require each other",
    "policy publish fleet.gtp -o out.gtp": "version 1 of the trust policy lacks signatures",
    "policy show net.gtr": "net.gtr at offset 0x0: a COSE_Sign message in its one encoding",
    "policy drop fleet.gtp": "version 1 is the only one",
    "sign net.gtr --trust-policy fleet.gtp --signing-key g.pem -o net.sgtr": "does not sign traces named 'net'",
    "sign net.gtr --trust-policy fleet.gtp --signing-key d.pem -o net.sgtr": "version 1 is not signed",
    "verify trace net.gtr --key fleet.gtp --key a.pub": "version 1 of trust policy fleet is not signed by enough",
    "generate --gpu v3d42 --platform qemu-virt --key a.pub --device-id 00 -o x": "expected 32 digits",
}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_use(line: str) -> None:
    typed(INIT)
    before = {path: path.read_bytes() for path in Path().iterdir()}
    assert WRONG[line] in typed(line, status=2)
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_what_would_lock_a_fleet_out() -> None:
    """A revocation that leaves too few, and a file that does not go on from what devices have."""
    typed(INIT)
    signed_by("a", "b")
    typed("policy publish fleet.gtp -o out.gtp")
    typed("policy revoke fleet.gtp a.pub")
    assert "nobody could sign policies any more" in typed("policy revoke fleet.gtp b.pub", status=2)
    Path("fleet.gtp").unlink()
    typed(INIT)
    typed("policy expire fleet.gtp 2200-01-01")
    signed_by("b", "c")
    assert "it does not continue out.gtp" in typed("policy publish fleet.gtp -o out.gtp", status=2)


def test_a_trace_is_judged_as_a_device_does() -> None:
    """By where it is, by what it is, and by today: the policy holds no more."""
    typed(INIT)
    typed(f"policy allow fleet.gtp net --key d.pub --platform qemu-virt --device-id {t.DEVICE_ID.hex()}")
    signed_by("a", "b")
    typed("sign net.gtr --trust-policy fleet.gtp --signing-key d.pem -o net.sgtr")
    line = "verify trace net.sgtr --key fleet.gtp"
    typed(line)
    typed(f"{line} --platform qemu-virt --device-id {t.DEVICE_ID.hex()}")
    assert "on another platform only" in typed(f"{line} --platform rpi4", status=1)
    assert "on other devices only" in typed(f"{line} --device-id {'9' * 32}", status=1)
    assert "expected 32 digits" in typed(f"{line} --device-id 12", status=2)
    assert "are for trust policies" in typed("verify trace net.sgtr --key a.pub --platform rpi4", status=2)


def test_a_policy_that_has_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    typed(INIT)
    typed("policy expire fleet.gtp 2100-01-01")
    signed_by("a", "b")
    typed("sign net.gtr --trust-policy fleet.gtp --signing-key d.pem -o net.sgtr")
    typed("sign net.sgtr --trust-policy fleet.gtp --signing-key e.pem -o two.sgtr")
    typed("verify trace two.sgtr --key fleet.gtp")
    monkeypatch.setattr("time.time", lambda: 4_102_531_200.0)  # the day after
    assert "does not hold at this time" in typed("verify trace two.sgtr --key fleet.gtp", status=1)


def test_other_commands_know_them() -> None:
    typed(INIT)
    signed_by("a", "b")
    typed("sign net.gtr --trust-policy fleet.gtp --signing-key d.pem -o net.sgtr")
    typed("sign net.sgtr --trust-policy fleet.gtp --signing-key e.pem -o net2.sgtr")
    both = ", ".join(signer.kid.hex() for signer in t.TRACERS[:2])
    found = run_json("inspect", "fleet.gtp")
    assert (found["kind"], found["figures"]["rules"]) == ("trust policy", ["*: 2 of 3"])
    assert run_json("inspect", "net2.sgtr")["figures"]["claimed key_id"] == both
    assert run_json("dump", "net2.sgtr")["signature"]["key_id"] == both
    assert f"claims to be signed by key {both}" in typed("report net2.sgtr --no-run")
    assert "verified: net2.sgtr" in typed("report net2.sgtr --no-run --key fleet.gtp")
    typed("lint net2.sgtr")
    typed("diff net.sgtr net2.sgtr")


def test_kinds_of_signed_files_are_told_apart() -> None:
    typed(INIT)
    signed_by("a", "b")
    typed("sign net.gtr --signing-key d.pem -o plain.sgtr")
    typed("sign net.gtr --trust-policy fleet.gtp --signing-key d.pem -o net.sgtr")
    assert "signed under a trust policy (--key takes one)" in typed("verify trace net.sgtr --key d.pub", status=2)
    assert "not under a trust policy" in typed("verify trace plain.sgtr --key fleet.gtp", status=2)
    assert "--key takes it alone" in typed("verify trace net.sgtr --key fleet.gtp --key d.pub", status=2)
    assert "not under a trust policy" in typed(
        "sign plain.sgtr --trust-policy fleet.gtp --signing-key e.pem -o x", status=2
    )
    typed("sign plain.sgtr --replace --trust-policy fleet.gtp --signing-key e.pem -o x")
    typed("strip net.sgtr -o same.gtr")
    assert Path("same.gtr").read_bytes() == Path("net.gtr").read_bytes()
