# SPDX-License-Identifier: BSD-2-Clause
"""The kernels of a decoder beside its products, in GLSL with sizes as constants.

A vector that a product reads is `v`, float32. Behind it lies its copy in the form of products.py: of four
neighbours the first two stand alone; from a sixteenth of the last two, the first two are taken off. `sums` has the
sum of each group of 16 elements, then for each group the sum of all such last two. A product needs them for zeros,
leasts, and its own form.

No lane takes another way than its neighbours, because `lint --dynamic` could not tell then which bits depend on
what: reductions are done by all lanes, and what counts for nothing is masked. Each index that data decide is
bounded here, so that no value of a caller's or of state can reach other memory.
"""

from __future__ import annotations

from host_tools.extras.gguf.blocks import COLUMNS
from host_tools.extras.gguf.products import LANES, XYZW, Matrix, Product, row

GROUP = 16  # elements of a vector that share a sum
HEAD_LANES = 64
CHOOSE_LANES = 256
MOST_SCORES = 3072  # of a workgroup: a V3D's driver gives 16 KiB of shared memory
TO = "to_"  # before the names of a vector that a product's kernel makes of another one
LEAST = "-3.0e38"  # below all scores
_BARRIER = "memoryBarrierShared(); barrier();"


def shader(lanes: int, buffers: dict[str, tuple[str, bool]], body: str) -> str:
    """A whole kernel; `buffers` by name, in the order of bindings: type of an element, whether it is written."""
    lines = ["#version 450", f"layout(local_size_x = {lanes}, local_size_y = 1, local_size_z = 1) in;"]
    for at, (name, (kind, is_written)) in enumerate(buffers.items()):
        readonly = "" if is_written else "readonly "
        lines.append(f"layout(std430, binding = {at}) {readonly}buffer B{at} {{ {kind} {name}[]; }};")
    return "\n".join([*lines, body, ""])


def embed(table: Matrix, tokens: int) -> str:
    """`x`: the row of a token, the caller's or, below 0, the one that was chosen last. A lane has a block."""
    lines, weights = row(table, "t", "b")
    stores = [f"  x[b*{COLUMNS}+{at}] = {weight};" for at, weight in enumerate(weights)]
    return f"""void main() {{
  int b = int(gl_LocalInvocationID.x);
  int t = clamp(mix(given[0], token[0], given[0] < 0), 0, {tokens - 1});
{chr(10).join([*lines, *stores])}
}}"""


def norm(width: int, epsilon: float) -> str:
    """The vector: `x` divided by its root of the mean square, times `gain`. One workgroup; a lane has a group."""
    lanes = width // GROUP
    return f"""shared float part[{lanes}];
void main() {{
  int t = int(gl_LocalInvocationID.x);
  vec4 a[4]; float s = 0.0;
  for (int k = 0; k < 4; k++) {{ a[k] = x[t*4+k]; s += dot(a[k], a[k]); }}
  part[t] = s; {_BARRIER}
  s = 0.0;
  for (int k = 0; k < {lanes}; k++) s += part[k];
  float r = 1.0 / sqrt(s * {1 / width:.9e} + {epsilon:.9e});
  vec2 all_ = vec2(0.0);
  for (int k = 0; k < 4; k++) {{
    vec4 y = a[k] * r * gain[t*4+k];
    v[t*4+k] = y; v[{width // 4}+t*4+k] = vec4(y.xy, y.zw * {1 / 16} - y.xy);
    all_ += vec2(dot(y, vec4(1.0)), y.z + y.w);
  }}
  sums[t] = all_.x; sums[{lanes}+t] = all_.y;
}}"""


def turn(heads: int, size: int, positions: int, apart: bool, biased: bool) -> str:
    """Queries and this position's keys turned by its angles, keys and values put into the caches where they lie.

    A workgroup has a head of keys and the queries that share it; a lane a pair of elements.

    Args:
        heads: of queries, for each of keys.
        size: of a head.
        positions: of the caches.
        apart: a pair is (i, i + size / 2), not (2 i, 2 i + 1).
        biased: `bias` is added to `qkv`.
    """
    one, two = ("t", f"t+{size // 2}") if apart else ("2*t", "2*t+1")
    load = "qkv[{0}] + bias[{0}]" if biased else "qkv[{0}]"

    def loads(first: str) -> str:
        return f"float a = {load.format(f'{first}+{one}')}, b = {load.format(f'{first}+{two}')};"

    return f"""void main() {{
  int t = int(gl_LocalInvocationID.x), g = int(gl_WorkGroupID.x), groups = int(gl_NumWorkGroups.x);
  int at = clamp(position[0], 0, {positions - 1});
  vec2 c = angles[at*{size // 2}+t];
  for (int h = g*{heads}; h < g*{heads}+{heads}; h++) {{
    {loads(f"h*{size}")}
    q[h*{size}+{one}] = (a*c.x - b*c.y) * {size**-0.5:.9e};
    q[h*{size}+{two}] = (a*c.y + b*c.x) * {size**-0.5:.9e};
  }}
  {{
    {loads(f"(groups*{heads}+g)*{size}")}
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
    return f"{steps} {{ vec4 o = r[t ^ n]; {_BARRIER} r[t] = {function.format('r[t]', 'o')}; {_BARRIER} }}"


def _paired(mine: str, other: str, at: str) -> str:
    """An element of the copy; `other`: the element two before, for the last two of four."""
    return f"mix({mine}, {mine} * {1 / 16} - {other}, ({at} & 2) != 0)"


# Of the elements e of group g.
_EVERY = " + ".join(f"vec2(e[g*{GROUP}+{k}], {f'e[g*{GROUP}+{k}]' if k & 2 else '0.0'})" for k in range(GROUP))
_SUM = f"({_EVERY})"


def together(heads: int, positions: int) -> int:
    """How many heads of queries a workgroup of `attend` has: their scores lie in shared memory."""
    return next(n for n in (4, 3, 2, 1) if n == 1 or (heads % n == 0 and n * positions <= MOST_SCORES))


def _scores(size: int, fours: int, many: int) -> list[str]:
    """GLSL of the scores of the four positions p, of each head, and of the largest one."""
    lines = [f"    vec4 a{h} = vec4(0.0);" for h in range(many)]
    lines.append(f"    for (int k = 0; k < {size}; k += 8) {{ for (int n = 0; n < 8; n++) {{")
    lines.append(f"      vec4 key = keys[base + (k+n)*{fours} + p];")
    lines += [f"      a{h} += q[(h+{h})*{size}+k+n] * key;" for h in range(many)] + ["    }}"]
    for h in range(many):
        lines.append(f"    a{h} = mix(vec4({LEAST}), a{h}, seen); s[{h * fours}+p] = a{h};")
        lines.append(f"    top.{XYZW[h]} = max(top.{XYZW[h]}, max(max(a{h}.x, a{h}.y), max(a{h}.z, a{h}.w)));")
    return lines


def _end(h: int, size: int, many: int) -> str:
    """GLSL that makes a part of the vector of what the lanes have of a head's mixture."""
    rounds, lanes = max(size // HEAD_LANES, 1), size // 4
    heads = f"int(gl_NumWorkGroups.x)*{many}"
    return f"""  m[t] = a{h}; {_BARRIER}
  for (int i = 0; i < {rounds}; i++) {{
    int n = (i*{HEAD_LANES}+t) % {size};
    float mine = 0.0;
    for (int k = 0; k < {HEAD_LANES // lanes}; k++) mine += m[k*{lanes} + n/4][n & 3];
    mine *= whole.{XYZW[h]}; e[n] = mine; v[(h+{h})*{size}+n] = mine;
  }}
  {_BARRIER}
  for (int i = 0; i < {rounds}; i++) {{
    int n = (i*{HEAD_LANES}+t) % {size}, g = n / {GROUP};
    v[({heads}+h+{h})*{size}+n] = {_paired("e[n]", "e[n & ~2]", "n")};
    vec2 all_ = {_SUM};
    sums[(h+{h})*{size // GROUP}+g] = all_.x; sums[({heads}+h+{h})*{size // GROUP}+g] = all_.y;
  }}
  {_BARRIER}"""


def attend(heads: int, size: int, positions: int) -> str:
    """The vector: what heads take of the values. A workgroup has `together` heads of the same keys and values.

    A lane has the scores of four positions, then four elements of the mixture and a part of the positions. All
    positions are read; those after `position` count for nothing.

    Args:
        heads: of queries, for each of keys.
        size: of a head: a power of two from 16 to 256.
        positions: of the caches: a multiple of 256.
    """
    fours, lanes, many = positions // 4, size // 4, together(heads, positions)
    parts, each = HEAD_LANES // lanes, range(many)
    powers = [f"    a = exp(s[{h * fours}+p] - top.{XYZW[h]}); s[{h * fours}+p] = a;" for h in each]
    powers = [f"{power} whole.{XYZW[h]} += dot(a, vec4(1.0));" for h, power in enumerate(powers)]
    mixed = [f"    w = s[{h * fours}+p]; a{h} += w.x*value0 + w.y*value1 + w.z*value2 + w.w*value3;" for h in each]
    return f"""shared vec4 s[{many * fours}];
shared vec4 r[{HEAD_LANES}];
shared vec4 m[{HEAD_LANES}];
shared float e[{size}];
void main() {{
  int t = int(gl_LocalInvocationID.x), h = int(gl_WorkGroupID.x)*{many};
  int last = clamp(position[0], 0, {positions - 1});
  int base = (h / {heads}) * {fours * size};
  vec4 top = vec4({LEAST}), whole = vec4(0.0), a, w;
  for (int i = 0; i < {fours // HEAD_LANES}; i++) {{
    int p = i*{HEAD_LANES}+t;
    bvec4 seen = lessThanEqual(ivec4(4*p, 4*p+1, 4*p+2, 4*p+3), ivec4(last));
{chr(10).join(_scores(size, fours, many))}
  }}
  r[t] = top; {_BARRIER}
  {_over_lanes("max({}, {})")}
  top = r[0]; {_BARRIER}
  for (int i = 0; i < {fours // HEAD_LANES}; i++) {{
    int p = i*{HEAD_LANES}+t;
{chr(10).join(powers)}
  }}
  r[t] = whole; {_BARRIER}
  {_over_lanes("{} + {}")}
  whole = 1.0 / r[0];
  vec4 {", ".join(f"a{h} = vec4(0.0)" for h in each)};
  for (int p = (t / {lanes})*{fours // parts}; p < (t / {lanes} + 1)*{fours // parts}; p++) {{
    int at = base + p*{size} + t % {lanes};
    vec4 {", ".join(f"value{n} = values[at+{n * lanes}]" for n in range(4))};
{chr(10).join(mixed)}
  }}
{chr(10).join(_end(h, size, many) for h in each)}
}}"""


def plain(product: Product, first: int, adds: bool) -> str:
    """`o`, from an element on: a product, added to what is there or not."""
    store = "+=" if adds else "="
    stores = [f"  o[{first} + (row+{r})*{LANES}+lane] {store} a{r};" for r in range(product.rows)]
    return "\n".join(["void main() {", product.sums_of_rows(), *stores, "}"])


def gate(product: Product) -> str:
    """Another vector, behind TO: SiLU (a value times its logistic function) of a lane's first row, third row and
    so on, times what the row after gives. It has an element for each two rows of the matrix (`alternating`).
    """
    ends = []
    for r in range(0, product.rows, 2):
        ends.append(f"""  {{
    float y = a{r} / (1.0 + exp(-a{r})) * a{r + 1};
    int g = {r // 2}, group = row/2+g;
    e[g*{GROUP}+lane] = y; {_BARRIER}
    {TO}v[group*{GROUP}+lane] = y;
    {TO}v[{product.matrix.rows // 2}+group*{GROUP}+lane] = {_paired("y", f"e[g*{GROUP}+(lane & ~2)]", "lane")};
    vec2 all_ = {_SUM};
    {TO}sums[group] = all_.x; {TO}sums[{product.matrix.rows // 2 // GROUP}+group] = all_.y;
  }}""")
    shared = f"shared float e[{product.rows // 2 * GROUP}];"
    return "\n".join([shared, "void main() {", product.sums_of_rows(), *ends, "}"])


def choose(tokens: int, positions: int) -> str:
    """The token with the largest logit, to which a random number times `temperature` is added (Gumbel's
    distribution: tokens are then drawn with the probabilities of a softmax); the position is counted.

    One workgroup. After the last position, `chosen` is -1.
    """
    rounds = -(-tokens // CHOOSE_LANES)
    return f"""shared float top[{CHOOSE_LANES}];
shared int place[{CHOOSE_LANES}];
uint mixed(uint a) {{
  a = a * 747796405u + 2891336453u;
  a = ((a >> ((a >> 28) + 4u)) ^ a) * 277803737u;
  return (a >> 22) ^ a;
}}
void main() {{
  int t = int(gl_LocalInvocationID.x), at = clamp(position[0], 0, {positions}), best = 0;
  uint draw = mixed(uint(at) ^ mixed(uint(seed[0])));
  float warm = temperature[0], high = {LEAST};
  for (int i = 0; i < {rounds}; i++) {{
    int n = min(i*{CHOOSE_LANES}+t, {tokens - 1});
    float u = (float(mixed(uint(n) ^ draw) >> 8) + 0.5) * {2.0**-24:.9e};
    float a = logits[n] - warm * log(-log(u));
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
