# SPDX-License-Identifier: BSD-2-Clause
"""The kernels of a decoder beside its products, in GLSL with sizes as constants.

A vector that a product reads is `v` (`multiply.vector`), and `made` in the kernel that makes it. No lane takes
another way than its neighbours, because `lint --dynamic` could not tell then which bits depend on what: reductions
are done by all lanes, and what counts for nothing is masked. Each index that data decide is bounded here, so that
no value of a caller's or of state can reach other memory.
"""

from __future__ import annotations

from host_tools.extras.gguf.blocks import COLUMNS
from host_tools.extras.gguf.finishes import sums
from host_tools.extras.gguf.multiply import BARRIER, GROUP, SMALL
from host_tools.extras.gguf.products import XYZW, Matrix, row

HEAD_LANES = 64
RADIXES = (4, 4, 4)  # of a reduction over HEAD_LANES
SHARED_BYTES = 16384  # of a workgroup's memory: as much as a V3D's driver gives
CHOOSE_LANES = 256
LEAST = "-3.0e38"  # below all scores


def shader(lanes: int, buffers: dict[str, tuple[str, bool]], body: str) -> str:
    """A whole kernel; `buffers` by name, in the order of bindings: type of an element, whether it is written."""
    lines = ["#version 450", f"layout(local_size_x = {lanes}, local_size_y = 1, local_size_z = 1) in;"]
    for at, (name, (kind, is_written)) in enumerate(buffers.items()):
        readonly = "" if is_written else "readonly "
        lines.append(f"layout(std430, binding = {at}) {readonly}buffer B{at} {{ {kind} {name}[]; }};")
    return "\n".join([*lines, body, ""])


def embed(table: Matrix, first: int, tokens: int) -> str:
    """`x`: the row of a token, the caller's or, below 0, the one that was chosen last; and `made`, what the first
    norm has of it (finishes.py). A lane has a block.

    Args:
        table: a part of the table, from the row `first` on. It is read for any token, which shows that the job
            reads this part; `x` and `made` stay what they were if the row is not here.
        tokens: of the whole table.
    """
    lines, weights = row(table, "t", "b")
    stores: dict[str, str] = {}
    for at, weight in enumerate(weights):
        place = f"b*{COLUMNS}+{at}"
        lines.append(f"  float x{at} = {weight}, y{at} = x{at} * gain[{place}];")
        stores |= {f"x[{place}]": f"x{at}", f"made[{place}]": f"y{at}"}
    for group in range(COLUMNS // GROUP):
        columns = range(group * GROUP, (group + 1) * GROUP)
        place = f"made[{table.columns + group} + 4*b"
        sum_, squares = " + ".join(f"y{n}" for n in columns), " + ".join(f"x{n}*x{n}" for n in columns)
        stores |= {f"{place}]": f"({sum_}) * {SMALL:.9e}", f"{place} + 2]": squares}
    lines += [f"  {place} = {f'mix({place}, {new}, here)' if first else new};" for place, new in stores.items()]
    return f"""void main() {{
  int b = int(gl_LocalInvocationID.x);
  int at = clamp(mix(given[0], token[0], given[0] < 0), 0, {tokens - 1}) - {first};
  int t = clamp(at, 0, {table.rows - 1});
  bool here = t == at;
{chr(10).join(lines)}
}}"""


def together(heads: int, size: int, positions: int) -> int:
    """How many of the heads that share keys share a workgroup of `attend`, whose memory must suffice."""
    each = 4 * positions + 16 * HEAD_LANES + 4 * size
    return next(n for n in (4, 3, 2, 1) if heads % n == 0 and n * each <= SHARED_BYTES)


def attend(groups: int, heads: int, size: int, positions: int) -> str:
    """`made`: what heads take of the values. A workgroup has heads that share keys (`together`).

    A lane has the scores of four positions at a time, then four elements of the mixture and a part of positions.
    All positions are read; those after `position` count for nothing.

    Args:
        groups: of heads that share keys.
        heads: of queries, for each of keys.
        size: of a head: a power of two from 16 to 256.
        positions: of the caches: a multiple of 256.
    """
    n, quads = together(heads, size, positions), positions // 4
    lines = [
        f"shared vec4 s[{n * quads}];",
        f"shared vec4 m[{n * HEAD_LANES}];",
        f"shared float mine[{n * size}];",
        "void main() {",
        f"  int t = int(gl_LocalInvocationID.x), h = int(gl_WorkGroupID.x)*{n};",
        f"  int last = clamp(position[0], 0, {positions - 1});",
        *_scores(n, heads, size, positions),
        *_over_lanes("top", "max({}, {})"),
        "  vec4 whole = vec4(0.0);",
        f"  for (int i = 0; i < {quads // HEAD_LANES}; i++) {{ vec4 a; int p = i*{HEAD_LANES}+t;",
    ]
    for j in range(n):
        place, name = f"s[{j * quads} + p]", XYZW[j]
        lines.append(f"    a = exp({place} - top.{name}); {place} = a; whole.{name} += a.x + a.y + a.z + a.w;")
    lines += ["  }", *_over_lanes("whole", "({} + {})"), "  whole = 1.0 / whole;"]
    return "\n".join(
        [
            *lines,
            *_mixture(n, heads, size, positions),
            *sums(groups * heads * size, n * size, HEAD_LANES, f"h*{size}"),
            "}",
        ]
    )


def _over_lanes(name: str, function: str) -> list[str]:
    """A vector of all HEAD_LANES lanes, reduced, in each of them; by `m`, which may be written then."""
    lines, step = [], 1
    for radix in RADIXES:
        found = "m[b]"
        for k in range(1, radix):
            found = function.format(found, f"m[b + {k * step}]")
        lines.append(f"  m[t] = {name}; {BARRIER}")
        lines.append(f"  {{ int b = t - t / {step} % {radix} * {step}; {name} = {found}; {BARRIER} }}")
        step *= radix
    return lines


def _scores(n: int, heads: int, size: int, positions: int) -> list[str]:
    """Scores into `s`, and the largest ones of a lane."""
    quads, fours = positions // 4, size // 4
    names = [f"a{j}" for j in range(n)]
    lines = [
        f"  int base = (h / {heads}) * {quads * size};",
        f"  vec4 top = vec4({LEAST});",
        f"  for (int i = 0; i < {quads // HEAD_LANES}; i++) {{ int p = i*{HEAD_LANES}+t;",
        f"    vec4 {', '.join(f'{name} = vec4(0.0)' for name in names)};",
        f"    for (int k = 0; k < {fours}; k++) {{",
        *(f"      vec4 q{j} = q[(h+{j})*{fours}+k];" for j in range(n)),
    ]
    for k in range(4):
        lines.append(f"      vec4 k{k} = keys[base + (4*k+{k})*{quads} + p];")
        lines += [f"      a{j} += q{j}.{XYZW[k]} * k{k};" for j in range(n)]
    lines += ["    }", "    bvec4 counts = lessThanEqual(4*p + ivec4(0, 1, 2, 3), ivec4(last));"]
    for j, name in enumerate(names):
        most = f"max(max({name}.x, {name}.y), max({name}.z, {name}.w))"
        lines.append(f"    {name} = mix(vec4({LEAST}), {name}, counts); s[{j * quads} + p] = {name};")
        lines.append(f"    top.{XYZW[j]} = max(top.{XYZW[j]}, {most});")
    return [*lines, "  }"]


def _mixture(n: int, heads: int, size: int, positions: int) -> list[str]:
    """`made` and `mine`: the values, each position's times the exponential of its score, divided by their sum."""
    quads, fours = positions // 4, size // 4
    parts = HEAD_LANES // fours
    each = quads // parts
    lines = [
        f"  int quad = t % {fours}, from = (t / {fours})*{each};",
        f"  base = (h / {heads}) * {positions * fours} + quad;",
        f"  vec4 {', '.join(f'b{j} = vec4(0.0)' for j in range(n))};",
        f"  for (int i = 0; i < {each}; i++) {{ int p = from + i;",
        *(f"    vec4 v{k} = values[base + (4*p+{k})*{fours}];" for k in range(4)),
    ]
    for j in range(n):
        lines.append(f"    {{ vec4 o = s[{j * quads} + p];")
        lines.append(f"    b{j} += o.x*v0 + o.y*v1; b{j} += o.z*v2 + o.w*v3; }}")
    lines += ["  }", *(f"  m[{j * HEAD_LANES} + t] = b{j} * whole.{XYZW[j]};" for j in range(n)), f"  {BARRIER}"]
    for i in range(-(-n * size // HEAD_LANES)):
        lines.append(
            f"  {{ int o = ({i * HEAD_LANES}+t) % {n * size}, at = (o / {size})*{HEAD_LANES} + o % {size} / 4;"
        )
        found = " + ".join(f"m[at + {k * fours}][o & 3]" for k in range(parts))
        lines.append(f"  float y = {found}; mine[o] = y; made[h*{size} + o] = y; }}")
    return lines


_ORDERED = """uint ordered(float a) {
  int s = floatBitsToInt(a);
  return uint(s ^ ((s >> 31) & 0x7FFFFFFF)) ^ 0x80000000u;
}"""  # a word that is ordered as the float


def _each(tokens: int) -> str:
    """A loop over the tokens of a lane, each one `n`."""
    return (
        f"for (int i = 0, n = t; i < {-(-tokens // CHOOSE_LANES)}; i++, n = min(n+{CHOOSE_LANES}, {tokens - 1}))"
    )


def limit(tokens: int) -> str:
    """`least`: what `ordered` gives for the least logit of a token that may be drawn.

    These are the likeliest tokens, until there are `top_k` of them (0: any number) or they have `top_p` of all
    probability (1: all). Nothing is sorted: a round finds two bits of the least logit, by counting and weighing
    the tokens above four candidates. Without a limit there are no rounds. One workgroup.
    """
    loop = _each(tokens)
    return f"""shared float top[{CHOOSE_LANES}];
shared vec4 count[{CHOOSE_LANES}];
shared vec4 mass[{CHOOSE_LANES}];
{_ORDERED}
void main() {{
  int t = int(gl_LocalInvocationID.x);
  float warm = max(temperature[0], 0.0), high = {LEAST}, whole = 0.0;
  float most = mix({tokens}.0, float(top_k[0]), top_k[0] > 0), part = mix(2.0, max(top_p[0], 0.0), top_p[0] < 1.0);
  bool limited = bool(int(warm > 0.0) & (int(most < {tokens}.0) | int(part < 1.0)));
  {loop} high = max(high, logits[n]);
  top[t] = high; {BARRIER}
  for (int n = {CHOOSE_LANES // 2}; n > 0; n >>= 1) {{
    float o = top[t ^ n]; {BARRIER} top[t] = max(top[t], o); {BARRIER}
  }}
  high = top[0];
  uint found = 0u;
  for (int round = mix(16, 0, limited); round < 16; round++) {{
    uint unit = 0x40000000u >> 2*round;
    uvec4 from = found + unit * uvec4(0, 1, 2, 3);
    vec4 many = vec4(0.0), heavy = vec4(0.0);
    {loop} {{
      vec4 kept = vec4(lessThanEqual(from, uvec4(ordered(logits[n])))) * float(i*{CHOOSE_LANES}+t < {tokens});
      many += kept; heavy += kept * exp((logits[n] - high) / warm);
    }}
    count[t] = many; mass[t] = heavy; {BARRIER}
    for (int n = {CHOOSE_LANES // 2}; n > 0; n >>= 1) {{
      vec4 c = count[t ^ n], m = mass[t ^ n]; {BARRIER} count[t] += c; mass[t] += m; {BARRIER}
    }}
    many = count[0]; heavy = mass[0]; {BARRIER}
    whole = mix(whole, heavy.x, round == 0);
    for (int k = 1; k < 4; k++) {{
      bool enough = bool(int(many[k] >= most) | int(heavy[k] >= part * whole));
      found = mix(found, from[k], enough);
    }}
  }}
  least[0] = min(found, ordered(high));
}}"""


def choose(tokens: int, positions: int) -> str:
    """The token with the largest logit, to which a random number times `temperature` is added (Gumbel's
    distribution: tokens are then drawn with the probabilities of a softmax); the position is counted. Tokens below
    `least` are left out.

    One workgroup. After the last position, `chosen` is -1.
    """
    return f"""shared float top[{CHOOSE_LANES}];
shared int place[{CHOOSE_LANES}];
{_ORDERED}
uint mixed(uint a) {{
  a = a * 747796405u + 2891336453u;
  a = ((a >> ((a >> 28) + 4u)) ^ a) * 277803737u;
  return (a >> 22) ^ a;
}}
void main() {{
  int t = int(gl_LocalInvocationID.x), at = clamp(position[0], 0, {positions}), best = 0;
  uint draw = mixed(uint(at) ^ mixed(uint(seed[0])));
  float warm = temperature[0], high = {LEAST};
  {_each(tokens)} {{
    float u = (float(mixed(uint(n) ^ draw) >> 8) + 0.5) * {2.0**-24:.9e};
    float a = mix({LEAST}, logits[n] - warm * log(-log(u)), ordered(logits[n]) >= least[0]);
    bool more = a > high;
    best = mix(best, n, more); high = mix(high, a, more);
  }}
  top[t] = high; place[t] = best; {BARRIER}
  for (int n = {CHOOSE_LANES // 2}; n > 0; n >>= 1) {{
    float o = top[t ^ n], a = top[t]; int p = place[t ^ n], k = place[t]; {BARRIER}
    bool more = bool(int(o > a) | (int(o == a) & int(p < k)));
    top[t] = mix(a, o, more); place[t] = mix(k, p, more); {BARRIER}
  }}
  int next = min(at + 1, {positions}), found = mix(place[0], -1, at == {positions});
  chosen[0] = found; token[0] = found; position[0] = next; left[0] = {positions} - next;
}}"""
