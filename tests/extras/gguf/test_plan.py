# SPDX-License-Identifier: BSD-2-Clause
"""Plans of small decoders on lavapipe, against float64 of the tests' own; files that are no such decoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from host_tools.extras.gguf import products
from host_tools.extras.gguf.chat import settings
from host_tools.extras.gguf.conversation import CHOSEN, LEFT
from host_tools.extras.gguf.model import Model, read_model
from host_tools.extras.gguf.plan import LOGITS, plan
from host_tools.extras.gguf.reference import Reference
from host_tools.model.noted_states import NEXT
from host_tools.record.compiled import runner
from host_tools.record.compiled.layout import laid_out
from host_tools.record.compiled.plan import Kind, Plan
from host_tools.record.compiled.shaders import spirv
from host_tools.record.preflight import NetworkError
from tests.support.gguf_models import Decoder

POSITIONS = 256
WIDE: dict[str, Any] = {"width": 256, "hidden": 256}  # what blocks of 256 columns need
DECODERS = {
    "F32": Decoder("F32"),
    "F16": Decoder("F16", layers=1),
    "Q4_0": Decoder("Q4_0", layers=1),
    "Q4_1": Decoder("Q4_1", tied=False),
    "Q5_0": Decoder("Q5_0", layers=1),
    "Q5_1": Decoder("Q5_1", layers=1, tokens=64),
    "Q8_0": Decoder("Q8_0", layers=1),
    "Q4_K": Decoder("Q4_K", layers=1, tokens=64, **WIDE),
    "Q5_K": Decoder("Q5_K", layers=1, tokens=64, **WIDE),
    "Q6_K": Decoder("Q6_K", layers=1, tokens=64, **WIDE),
    "mixed, as Q4_K_M": Decoder(
        "Q4_K", kinds=(("attn_v.weight", "Q6_K"), ("down.weight", "Q6_K")), layers=1, tokens=64, **WIDE
    ),
    "qwen2, heads of 32": Decoder("Q8_0", "qwen2", heads=2, groups=1),
    "qwen3, heads wider than the residual vector": Decoder("Q4_0", "qwen3", head=32, layers=1),
    "nine heads of three groups": Decoder("Q4_1", layers=1, width=192, hidden=320, heads=9, groups=3, head=64),
    "32 heads of four groups": Decoder("Q4_0", layers=1, hidden=192, heads=32, groups=4, head=16, tokens=64),
    "a width of 896": Decoder("Q8_0", "qwen2", layers=1, width=896, hidden=448, heads=14, groups=2, tokens=64),
    "heads of 128": Decoder("Q8_0", heads=2, groups=2, layers=1, tokens=64, width=256),
}
Choosing = tuple[NDArray[np.float32], Callable[[int, dict[str, NDArray[Any]]], int]]


def run(made: Plan, shaders: list[bytes], **inputs: Any) -> dict[str, NDArray[Any]]:
    """One run on lavapipe."""
    given = {"given": np.array([-1], np.int32), **settings()}
    given |= {name: np.array([value], given[name].dtype) for name, value in inputs.items()}
    return runner.judged(laid_out(made), shaders, given)


def with_state(made: Plan, left: dict[str, NDArray[Any]]) -> Plan:
    """The plan with the state that a run has left, or other state."""
    buffers = [
        replace(one, data=left[NEXT + one.name].astype(one.dtype).tobytes()) if one.kind == Kind.STATE else one
        for one in made.buffers
    ]
    return Plan(buffers, made.kernels, made.calls)


@pytest.mark.parametrize("name", DECODERS)
def test_a_plan_computes_the_decoder(name: str, tmp_path: Path) -> None:
    """Two tokens: the caller's, then the one that was chosen; NumPy of `record` computes the same."""
    decoder = DECODERS[name]
    model = read_model(decoder.write(tmp_path / "m.gguf"))
    made = plan(model, POSITIONS)
    shaders, reference = spirv(made.kernels), Reference(model)
    tokens = [7]
    for number, given in enumerate((7, -1)):
        left = run(made, shaders, given=given)
        expected = decoder.logits(tokens)[number]
        assert np.abs(left[LOGITS] - expected).max() < 2e-5 * np.abs(expected).max()
        assert np.abs(reference(tokens[number]) - expected).max() < 2e-6 * np.abs(expected).max() + 1e-6
        assert left[CHOSEN][0] == expected.argmax()
        assert left[LEFT][0] == POSITIONS - number - 1
        tokens.append(int(left[CHOSEN][0]))
        made = with_state(made, left)


@pytest.mark.parametrize("name", ["F16", "Q4_1", "Q6_K"])
def test_a_table_in_parts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a token's row is, the same as from one table, to the bit."""
    model = read_model(replace(DECODERS[name], tied=True, layers=1).write(tmp_path / "m.gguf"))
    whole = plan(model, POSITIONS)
    table = products.laid_out(model.matrix("token_embd.weight"))
    monkeypatch.setattr(products, "PART_BYTES", sum(words.nbytes for words in table.parts.values()) // 3)
    parts = plan(model, POSITIONS)
    assert len(parts.calls) >= len(whole.calls) + 4  # two more of what embeds, and of the head
    shaders = [spirv(made.kernels) for made in (whole, parts)]
    rows = model.size.tokens
    for token in (0, rows // 2, rows - 1):
        one, other = (run(made, code, given=token) for made, code in zip((whole, parts), shaders, strict=True))
        assert one[LOGITS].tobytes() == other[LOGITS].tobytes()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, Plan, list[bytes]]:
    model = read_model(Decoder(layers=1).write(tmp_path_factory.mktemp("gguf") / "m.gguf"))
    made = plan(model, POSITIONS)
    return model, made, spirv(made.kernels)


def left_at(position: int) -> dict[str, NDArray[Any]]:
    """State at a position, with empty caches."""
    shape = {"keys": (1, 2, 16, POSITIONS), "values": (1, 2, POSITIONS, 16)}
    found: dict[str, NDArray[Any]] = {NEXT + name: np.zeros(size, np.float32) for name, size in shape.items()}
    return found | {NEXT + "token": np.array([3], np.int32), NEXT + "position": np.array([position], np.int32)}


def test_the_last_position_ends_the_text(tiny: tuple[Model, Plan, list[bytes]]) -> None:
    model, made, shaders = tiny
    left = run(with_state(made, left_at(POSITIONS - 1)), shaders, given=9)
    assert (left[LEFT][0], left[NEXT + "position"][0]) == (0, POSITIONS)
    assert left[CHOSEN][0] == Reference(model, POSITIONS - 1)(9).argmax()
    left = run(with_state(made, left), shaders, given=9)
    assert (left[CHOSEN][0], left[LEFT][0], left[NEXT + "position"][0]) == (-1, 0, POSITIONS)


@pytest.mark.parametrize(("token", "position"), [(256, -1), ((1 << 31) - 1, 1 << 30), (-(1 << 31), -(1 << 31))])
def test_odd_tokens_and_positions_reach_no_other_memory(
    token: int, position: int, tiny: tuple[Model, Plan, list[bytes]]
) -> None:
    """They count as the nearest that there are."""
    _, made, shaders = tiny
    left = run(with_state(made, left_at(position)), shaders, given=token)
    near = run(with_state(made, left_at(min(max(position, 0), POSITIONS))), shaders, given=min(token, 255))
    assert all(np.array_equal(left[name], near[name]) for name in (LOGITS, CHOSEN, LEFT, NEXT + "keys"))


def mixed(a: NDArray[Any]) -> NDArray[Any]:
    """PCG's hash (M. O'Neill; M. Jarzynski and M. Olano, JCGT 9, 2020), as in kernels.py."""
    a = a * np.uint32(747796405) + np.uint32(2891336453)
    a = ((a >> ((a >> 28) + 4)) ^ a) * np.uint32(277803737)
    return (a >> 22) ^ a


def kept(logits: NDArray[np.float32], warm: float, top_k: int, top_p: float) -> NDArray[np.bool_]:
    """Which tokens are drawn from, by sorting."""
    order = np.argsort(-logits, kind="stable")
    likely = np.exp((logits[order].astype(np.float64) - logits.max()) / warm)
    before = np.concatenate([[0], np.cumsum(likely)[:-1]])
    stays = (before < top_p * likely.sum()) & ((np.arange(len(logits)) < top_k) | (top_k == 0))
    stays[0] = True
    found = np.zeros(len(logits), bool)
    found[order] = stays
    return found


def drawn(
    logits: NDArray[np.float32], warm: float, seed: int, position: int, top_k: int = 0, top_p: float = 1
) -> int:
    """The token that a seed chooses."""
    draw = mixed(np.array([position], np.uint32) ^ mixed(np.array([seed], np.uint32)))
    u = ((mixed(np.arange(len(logits), dtype=np.uint32) ^ draw) >> 8) + 0.5) * 2.0**-24
    found = np.where(kept(logits, warm, top_k, top_p), logits - warm * np.log(-np.log(u)), -np.inf)
    return int(found.argmax())


@pytest.fixture(scope="module")
def choosing(
    tiny: tuple[Model, Plan, list[bytes]],
) -> Choosing:
    """Logits, and what the plan's last two kernels alone choose of them at a position."""
    _, made, shaders = tiny
    logits = np.random.default_rng(0).normal(0, 3, 256).astype(np.float32)
    buffers = [replace(one, kind=Kind.INPUT) if one.name == LOGITS else one for one in made.buffers]
    alone = Plan(buffers, made.kernels, made.calls[-2:]).trimmed()
    last = [shaders[call.kernel] for call in made.calls[-2:]]

    given = {"given": np.array([0], np.int32)}

    def chosen(position: int, how: dict[str, NDArray[Any]]) -> int:
        layout = laid_out(with_state(alone, left_at(position)))
        return int(runner.judged(layout, last, {LOGITS: logits, **given, **how})[CHOSEN][0])

    return logits, chosen


def test_what_is_drawn_has_the_softmax_s_probabilities(
    choosing: Choosing,
) -> None:
    """By 3,000 draws in NumPy: the likeliest come as often as they should. The kernel draws the same."""
    logits, chosen = choosing
    warm = 1.5
    likely = np.exp((logits.astype(np.float64) - logits.max()) / warm)
    likely /= likely.sum()
    found = np.bincount([drawn(logits, warm, seed, at) for seed in range(300) for at in range(10)], minlength=256)
    error = np.sqrt(likely * (1 - likely) * 3000)
    assert (np.abs(found - likely * 3000) < 4.5 * error + 1).all()
    for seed, position in ((0, 0), (1, 7), (-5, 200)):
        how = settings(temperature=warm, seed=seed)
        assert chosen(position, how) == drawn(logits, warm, seed & 0xFFFFFFFF, position)


@pytest.mark.parametrize(
    ("top_k", "top_p", "remain"),
    [
        (3, 1.0, 3),
        (1, 1.0, 1),
        (300, 1.0, 256),
        (0, 0.5, 79),
        (0, 0.0, 1),
        (20, 0.3, 20),
        (50, 0.1, 11),
        (5, 0.9, 5),
    ],
)
def test_only_the_likeliest_tokens_are_drawn(
    top_k: int,
    top_p: float,
    remain: int,
    choosing: Choosing,
) -> None:
    """So warm that all tokens are about as likely: without the limit nearly every seed draws another one."""
    logits, chosen = choosing
    warm = 20.0 if top_p == 1 else 6.0
    among = kept(logits, warm, top_k, top_p)
    assert among.sum() == remain
    for seed in range(8):
        how = settings(temperature=warm, seed=seed, top_k=top_k, top_p=top_p)
        assert chosen(seed, how) == drawn(logits, warm, seed, seed, top_k, top_p)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_odd_limits_choose_some_token(value: float, choosing: Choosing) -> None:
    logits, chosen = choosing
    for odd in ({"temperature": value}, {"temperature": 1.0, "top_p": value}, {"temperature": 1.0, "top_k": -7}):
        assert 0 <= chosen(0, settings(**odd)) < len(logits)


QWEN3 = Decoder(architecture="qwen3").values()  # the keys of one, beside llama's tensors
REFUSED: dict[str, tuple[Decoder, dict[str, Any], str]] = {
    "another architecture": (Decoder(architecture="mamba"), {}, "one of llama, qwen2, qwen3, found 'mamba'"),
    "gemma": (Decoder(architecture="gemma"), {}, "found 'gemma', which needs GELU in its gate and a"),
    "gemma3": (Decoder(architecture="gemma3"), {}, "found 'gemma3', which needs GELU in its gate, norms after"),
    "no architecture": (Decoder(), {"general__architecture": ""}, "expected one of llama, qwen2, qwen3, found"),
    "no layers": (Decoder(), {"llama__block_count": 0}, "llama.block_count: expected a number above 0, found 0"),
    "layers that are missing": (Decoder(), {"llama__block_count": 3}, "tensor blk.2.attn_norm.weight is missing"),
    "layers without end": (Decoder(), {"llama__block_count": 2**31 - 1}, "blk.2.attn_norm.weight is missing"),
    "too many layers": (Decoder(), {"llama__block_count": 1}, "architecture llama has no place for: blk.1."),
    "a text for a number": (Decoder(), {"llama__context_length": "9"}, "length: expected a number above 0"),
    "no norms of heads": (Decoder(), QWEN3, "tensor blk.0.attn_q_norm.weight is missing"),
    "another width": (Decoder(), {"llama__embedding_length": 128}, "token_embd.weight: expected 256x128, found"),
    "odd heads": (Decoder(heads=8, groups=2), {}, "head: expected one of 16, 32, 64, 128, 256, found 8"),
    "heads that share none": (Decoder(), {"llama__attention__head_count_kv": 3}, "heads: expected a multiple of"),
    "an odd width": (Decoder("F32", width=96, heads=3, groups=3), {}, "length: expected a multiple of 64"),
    "scaled positions": (Decoder(), {"llama__rope__scaling__type": "yarn"}, "scaling.type: expected none, found"),
    "RoPE of a half": (Decoder(), {"llama__rope__dimension_count": 8}, "RoPE of all 16 elements of a head"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_such_decoder(name: str, tmp_path: Path) -> None:
    decoder, values, sentence = REFUSED[name]
    with pytest.raises(NetworkError) as error:
        read_model(decoder.write(tmp_path / "m.gguf", **values))
    assert sentence in str(error.value)
