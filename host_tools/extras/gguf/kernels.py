# SPDX-License-Identifier: BSD-2-Clause
"""The kernels of a decoder beside its products, in GLSL with sizes as constants.

A vector that a product reads is `v`, float32, with the sums of its groups of 16 elements in `sums`: a product
needs them for zeros and leasts. No lane takes another way than its neighbours, because `lint --dynamic` could not
tell then which bits depend on what: reductions are done by all lanes, and what counts for nothing is masked. Each
index that data decide is bounded here, so that no value of a caller's or of state can reach other memory.
"""

from __future__ import annotations

from collections.abc import Collection

from host_tools.extras.gguf.blocks import COLUMNS
from host_tools.extras.gguf.products import Matrix, row

GROUP = 16  # elements of a vector that share a sum
HEAD_LANES = 64
CHOOSE_LANES = 256
LEAST = "-3.0e38"  # below all scores
_BARRIER = "memoryBarrierShared(); barrier();"


def shader(lanes: int, buffers: dict[str, tuple[str, bool]], body: str) -> str:
    """A whole kernel; `buffers` by name, in the order of bindings: type of an element, whether it is written."""
    lines = ["#version 450", f"layout(local_size_x = {lanes}, local_size_y = 1, local_size_z = 1) in;"]
    for at, (name, (kind, is_written)) in enumerate(buffers.items()):
        readonly = "" if is_written else "readonly "
        lines.append(f"layout(std430, binding = {at}) {readonly}buffer B{at} {{ {kind} {name}[]; }};")
    return "\n".join([*lines, body, ""])


def embed(table: Matrix, first: int, tokens: int) -> str:
    """`x`: the row of a token, the caller's or, below 0, the one that was chosen last. A lane has a block.

    Args:
        table: a part of the table, from the row `first` on. It is read for any token, which shows that the job
            reads this part; `x` stays what it was if the row is not here.
        tokens: of the whole table.
    """
    lines, weights = row(table, "t", "b")
    places = [f"x[b*{COLUMNS}+{at}]" for at in range(len(weights))]
    kept = [f"mix({place}, {new}, here)" for place, new in zip(places, weights, strict=True)] if first else weights
    stores = [f"  {place} = {new};" for place, new in zip(places, kept, strict=True)]
    return f"""void main() {{
  int b = int(gl_LocalInvocationID.x);
  int at = clamp(mix(given[0], token[0], given[0] < 0), 0, {tokens - 1}) - {first};
  int t = clamp(at, 0, {table.rows - 1});
  bool here = t == at;
{chr(10).join([*lines, *stores])}
}}"""


def norm(width: int, epsilon: float) -> str:
    """`v`: `x` divided by its root of the mean square, times `gain`. One workgroup; a lane has a group."""
    lanes = width // GROUP
    return f"""shared float part[{lanes}];
void main() {{
  int t = int(gl_LocalInvocationID.x);
  vec4 a[4]; float s = 0.0;
  for (int k = 0; k < 4; k++) {{ a[k] = x[t*4+k]; s += dot(a[k], a[k]); }}
  part[t] = s; {_BARRIER}
  s = 0.0;
  for (int k = 0; k < {lanes}; k++) s += part[k];
  float r = 1.0 / sqrt(s * {1 / width:.9e} + {epsilon:.9e}), all_ = 0.0;
  for (int k = 0; k < 4; k++) {{ vec4 y = a[k] * r * gain[t*4+k]; v[t*4+k] = y; all_ += dot(y, vec4(1.0)); }}
  sums[t] = all_;
}}"""


def turn(heads: int, size: int, positions: int, apart: bool, bound: Collection[str], epsilon: float) -> str:
    """Queries and this position's keys turned by its angles, keys and values put into the caches where they lie.

    A workgroup has a head of keys and the queries that share it; a lane a pair of elements.

    Args:
        heads: of queries, for each of keys.
        size: of a head.
        positions: of the caches.
        apart: a pair is (i, i + size / 2), not (2 i, 2 i + 1).
        bound: buffers that only some architectures have: `bias` is added to `qkv`; `gains`, a head's of queries
            and one of keys, are what a head is times after it was divided by its root of the mean square.
        epsilon: of that.
    """
    one, two = ("t", f"t+{size // 2}") if apart else ("2*t", "2*t+1")
    load = "qkv[{0}] + bias[{0}]" if "bias" in bound else "qkv[{0}]"

    def loads(first: str) -> str:
        return f"float a = {load.format(f'{first}+{one}')}, b = {load.format(f'{first}+{two}')};"

    def normed(first: int) -> str:
        if "gains" not in bound:
            return ""
        every = f"for (int k = 0; k < {size // 2}; k++) s += part[k];"
        scale = f"1.0 / sqrt(s * {1 / size:.9e} + {epsilon:.9e})"
        return f"""part[t] = a*a + b*b; {_BARRIER}
    float s = 0.0; {every} {_BARRIER}
    s = {scale}; a *= s * gains[{first}+{one}]; b *= s * gains[{first}+{two}];"""

    return f"""shared float part[{size // 2}];
void main() {{
  int t = int(gl_LocalInvocationID.x), g = int(gl_WorkGroupID.x), groups = int(gl_NumWorkGroups.x);
  int at = clamp(position[0], 0, {positions - 1});
  vec2 c = angles[at*{size // 2}+t];
  for (int h = g*{heads}; h < g*{heads}+{heads}; h++) {{
    {loads(f"h*{size}")}
    {normed(0)}
    q[h*{size}+{one}] = (a*c.x - b*c.y) * {size**-0.5:.9e};
    q[h*{size}+{two}] = (a*c.y + b*c.x) * {size**-0.5:.9e};
  }}
  {{
    {loads(f"(groups*{heads}+g)*{size}")}
    {normed(size)}
    keys[(g*{size}+{one})*{positions}+at] = a*c.x - b*c.y;
    keys[(g*{size}+{two})*{positions}+at] = a*c.y + b*c.x;
  }}
  {{
    {loads(f"(groups*{heads + 1}+g)*{size}")}
    values[(g*{positions}+at)*{size}+{one}] = a;
    values[(g*{positions}+at)*{size}+{two}] = b;
  }}
}}"""


def _over_lanes(function: str) -> str:
    """r[t] of all lanes, reduced, in each of them."""
    steps = "for (int n = 32; n > 0; n >>= 1)"
    return f"{steps} {{ float o = r[t ^ n]; {_BARRIER} r[t] = {function.format('r[t]', 'o')}; {_BARRIER} }}"


def attend(heads: int, size: int, positions: int) -> str:
    """`v`: what each head takes of the values. A workgroup is a head.

    A lane has the scores of four positions, then four elements of the mixture and a part of the positions. All
    positions are read; those after `position` count for nothing.

    Args:
        heads: of queries, for each of keys.
        size: of a head: a power of two from 16 to 256.
        positions: of the caches: a multiple of 256.
    """
    fours, lanes = positions // 4, size // 4
    parts = HEAD_LANES // lanes
    return f"""shared vec4 s[{fours}];
shared float r[{HEAD_LANES}];
shared vec4 m[{HEAD_LANES}];
shared float e[{size}];
void main() {{
  int t = int(gl_LocalInvocationID.x), h = int(gl_WorkGroupID.x), last = clamp(position[0], 0, {positions - 1});
  int base = (h / {heads}) * {fours * size};
  float top = {LEAST};
  for (int i = 0; i < {fours // HEAD_LANES}; i++) {{
    int p = i*{HEAD_LANES}+t;
    vec4 a = vec4(0.0);
    for (int k = 0; k < {size}; k += 8) {{
      int at = base + k*{fours} + p;
      for (int n = 0; n < 8; n++) a += q[h*{size}+k+n] * keys[at+n*{fours}];
    }}
    a = mix(vec4({LEAST}), a, lessThanEqual(ivec4(4*p, 4*p+1, 4*p+2, 4*p+3), ivec4(last)));
    s[p] = a; top = max(top, max(max(a.x, a.y), max(a.z, a.w)));
  }}
  r[t] = top; {_BARRIER}
  {_over_lanes("max({}, {})")}
  top = r[0]; {_BARRIER}
  float whole = 0.0;
  for (int i = 0; i < {fours // HEAD_LANES}; i++) {{
    vec4 a = exp(s[i*{HEAD_LANES}+t] - top); s[i*{HEAD_LANES}+t] = a; whole += dot(a, vec4(1.0));
  }}
  r[t] = whole; {_BARRIER}
  {_over_lanes("{} + {}")}
  whole = 1.0 / r[0];
  vec4 a = vec4(0.0);
  for (int p = (t / {lanes})*{fours // parts}; p < (t / {lanes} + 1)*{fours // parts}; p++) {{
    vec4 w = s[p]; int at = base + p*{size} + t % {lanes};
    a += w.x*values[at] + w.y*values[at+{lanes}] + w.z*values[at+{2 * lanes}] + w.w*values[at+{3 * lanes}];
  }}
  m[t] = a; {_BARRIER}
  for (int i = 0; i < {max(size // HEAD_LANES, 1)}; i++) {{
    int n = (i*{HEAD_LANES}+t) % {size};
    float mine = 0.0;
    for (int k = 0; k < {parts}; k++) mine += m[k*{lanes} + n/4][n & 3];
    mine *= whole; e[n] = mine; v[h*{size}+n] = mine;
  }}
  {_BARRIER}
  for (int i = 0; i < {max(size // HEAD_LANES, 1)}; i++) {{
    int n = (i*{HEAD_LANES}+t) % {size} / {GROUP};
    float all_ = 0.0;
    for (int k = 0; k < {GROUP}; k++) all_ += e[n*{GROUP}+k];
    sums[h*{size // GROUP}+n] = all_;
  }}
}}"""


def gate(hidden: int) -> str:
    """`v`: the first half of `both` by SiLU (times its own logistic function), times the second half."""
    return f"""void main() {{
  int t = int(gl_GlobalInvocationID.x);
  float all_ = 0.0;
  for (int k = 0; k < 4; k++) {{
    vec4 g = both[t*4+k], y = g / (1.0 + exp(-g)) * both[{hidden // 4}+t*4+k];
    v[t*4+k] = y; all_ += dot(y, vec4(1.0));
  }}
  sums[t] = all_;
}}"""


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
  top[t] = high; {_BARRIER}
  for (int n = {CHOOSE_LANES // 2}; n > 0; n >>= 1) {{
    float o = top[t ^ n]; {_BARRIER} top[t] = max(top[t], o); {_BARRIER}
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
    count[t] = many; mass[t] = heavy; {_BARRIER}
    for (int n = {CHOOSE_LANES // 2}; n > 0; n >>= 1) {{
      vec4 c = count[t ^ n], m = mass[t ^ n]; {_BARRIER} count[t] += c; mass[t] += m; {_BARRIER}
    }}
    many = count[0]; heavy = mass[0]; {_BARRIER}
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
  top[t] = high; place[t] = best; {_BARRIER}
  for (int n = {CHOOSE_LANES // 2}; n > 0; n >>= 1) {{
    float o = top[t ^ n], a = top[t]; int p = place[t ^ n], k = place[t]; {_BARRIER}
    bool more = bool(int(o > a) | (int(o == a) & int(p < k)));
    top[t] = mix(a, o, more); place[t] = mix(k, p, more); {_BARRIER}
  }}
  int next = min(at + 1, {positions}), found = mix(place[0], -1, at == {positions});
  chosen[0] = found; token[0] = found; position[0] = next; left[0] = {positions} - next;
}}"""
