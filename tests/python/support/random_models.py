"""Random models, drawn as source text, so that a failure prints a program that runs by itself."""

from __future__ import annotations

import math
import random
import re

import torch
from torch import nn
from torch.nn import functional as F

MAX_NUMEL = 300
MAX_SIZE = 1e3


def weight(seed, *shape):
    """A parameter that depends on its seed only."""
    generator = torch.Generator().manual_seed(seed)
    return nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64))


def tensor(seed, *shape):
    return weight(seed, *shape).detach()


class RejectedError(Exception):
    """A drawn call that the generator does not want."""


def away_from(kink, x):
    """Rejects values near, but not at, a kink: rounding would choose the side."""
    distance = (x - kink).abs()
    if ((distance > 0) & (distance < 1e-6)).any():
        raise RejectedError


def distinct(x):
    """Rejects near ties among all the elements."""
    x = x.flatten().sort().values
    away_from(0, x[1:] - x[:-1])


class Generator:
    """Draws a model line by line, each line run on real tensors so that its shape is known."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.seed = seed
        self.next_seed = 1000 * seed
        self.init, self.lines, self.inputs = [], [], []
        self.shared = {}  # shape -> parameter that a later op may use again
        self.module = nn.Module()
        self.env = {"torch": torch, "nn": nn, "F": F, "self": self.module, "weight": weight}
        self.values = []  # names of float values
        self.used = set()  # names in the lines

    # ---- drawing ----

    def size(self, low=1, high=7):
        return self.rng.randint(low, high)

    def some(self, rank):
        """A random nonempty list of dimensions."""
        return sorted(self.rng.sample(range(rank), self.rng.randint(1, rank)))

    def shape(self, name):
        return tuple(self.env[name].shape)

    def value(self, *ranks):
        """A value, of one of these ranks if given; likelier a late one that nothing uses yet."""
        known = [v for v in self.values if not ranks or len(self.shape(v)) in ranks]
        fresh = [v for v in known if v not in self.used]
        if not known:
            raise RejectedError
        if fresh and self.rng.random() < 0.6:
            known = fresh
        return known[-1 - min(int(self.rng.expovariate(0.6)), len(known) - 1)]

    def take_seed(self):
        self.next_seed += 1
        return self.next_seed

    def parameter(self, *shape):
        """A parameter; sometimes one that is used already."""
        if shape in self.shared and self.rng.random() < 0.3:
            return self.shared[shape]
        name = self.attribute("p", f"weight({self.take_seed()}{''.join(f', {s}' for s in shape)})")
        self.shared[shape] = name
        return name

    def attribute(self, prefix, text):
        name = f"self.{prefix}{len(self.init)}"
        self.pending.append(f"{name} = {text}")
        exec(self.pending[-1], self.env)
        self.module.double()
        self.init.append(self.pending[-1])
        return name

    def partner(self, name):
        """A value or parameter that broadcasts with the value."""
        shape = self.shape(name)
        fits = []
        for other in self.values:
            try:
                joint = torch.broadcast_shapes(shape, self.shape(other))
            except RuntimeError:
                continue
            if math.prod(joint) <= MAX_NUMEL:
                fits.append(other)
        if fits and self.rng.random() < 0.6:
            return self.rng.choice(fits)
        kept = shape[self.rng.choice([0, 0, self.rng.randint(0, len(shape))]) :]
        return self.parameter(*(1 if self.rng.random() < 0.3 else s for s in kept))

    def add_input(self, shape):
        name = f"x{len(self.inputs)}"
        self.inputs.append((name, f"tensor({self.take_seed()}{''.join(f', {s}' for s in shape)})"))
        self.env[name] = eval(self.inputs[-1][1], {"tensor": tensor})
        self.values.append(name)

    def add_index_input(self, high, shape):
        if len(self.inputs) > 3:
            raise RejectedError
        name = f"x{len(self.inputs)}"
        draw = (
            f"(tensor({self.take_seed()}{''.join(f', {s}' for s in shape)}) * 64).long() % {high}"
        )
        self.inputs.append((name, draw))
        self.env[name] = eval(draw, {"tensor": tensor})
        return name

    def try_line(self):
        """Draws one call; keeps it if it runs and its result is neither large nor on a kink."""
        state = (len(self.init), len(self.inputs), dict(self.shared))
        self.pending = []
        kind = self.rng.choice(KINDS)
        name = f"v{len(self.lines)}"
        try:
            text = kind(self)
            exec(f"{name} = {text}", self.env)
            result = self.env[name]
            if result.numel() > MAX_NUMEL or result.numel() == 0 or result.dim() > 5:
                raise RejectedError
            if not result.isfinite().all() or result.abs().max() > MAX_SIZE:
                raise RejectedError
        except (RejectedError, RuntimeError, ValueError, IndexError):
            del self.init[state[0] :], self.inputs[state[1] :]
            self.shared = state[2]
            return
        self.lines.append(f"{name} = {text}")
        self.values.append(name)
        self.used.update(_words(text))

    def source(self):
        rng = self.rng
        for _ in range(rng.choice([1, 1, 2])):
            rank = rng.choice([2, 2, 3, 4, 4])
            self.add_input([self.size(2, 5 if rank > 3 else 7) for _ in range(rank)])
        wanted = rng.randint(4, 11)
        for _ in range(12 * wanted):
            if len(self.lines) < wanted:
                self.try_line()
        made = [line.split(" = ")[0] for line in self.lines]
        results = [v for v in made if v not in self.used][-3:]
        if rng.random() < 0.2 and len(made) > 1:
            results.append(rng.choice(made))  # an output that is used inside as well
        kept, used = [], set(results)
        for line in reversed(self.lines):
            if line.split(" = ")[0] in used:
                kept.insert(0, line)
                used.update(_words(line))
        attributes = [line for line in self.init if line.split(" = ")[0] in used]
        if self.seed % 20 == 7:
            attributes.append("self.spare = weight(7, 3)  # no output depends on it")
        body = "\n".join(
            [
                "class Net(nn.Module):",
                "    def __init__(self):",
                "        super().__init__()",
                *(f"        {line}" for line in attributes),
                f"    def forward(self, {', '.join(name for name, _ in self.inputs)}):",
                *(f"        {line}" for line in kept),
                f"        return {', '.join(dict.fromkeys(results))},",
            ]
        )
        arguments = "".join(f"{draw}, " for _, draw in self.inputs)
        return f"{body}\nargs = ({arguments})\n"


def _words(text):
    """The names in a text, `self.p0` being one."""
    return re.findall(r"(?:self\.)?\b[a-zA-Z_]\w*", text)


# ---- the kinds of calls; each returns the text of an expression ----

UNARY = [
    "torch.tanh({})", "torch.sigmoid({})", "torch.sin({})", "torch.cos({})", "torch.erf({})",
    "F.gelu({})", "F.gelu({}, approximate='tanh')", "F.silu({})", "torch.exp(-({} ** 2))",
    "torch.sqrt(1 + {0} * {0})", "torch.log1p({0} * {0})", "{} ** 2", "-{}", "2 - {}",
    "torch.rsqrt(1 + {0} ** 2)", "torch.reciprocal(2 + {}.sin())", "torch.expm1({}.tanh())",
    "torch.log(1.5 + {}.cos())",
    "{}.clone()", "{}.contiguous() * 0.5", "{} / 3", "F.dropout({}, 0.0)",
]  # fmt: skip
KINKED = [
    ("torch.relu({})", 0), ("F.leaky_relu({}, 0.1)", 0),
    ("{}.clamp(min=-0.5)", -0.5), ("{}.clamp(max=0.75)", 0.75),
    ("F.relu({})", 0), ("torch.where({0} > 0.25, {0}, {0} * {0})", 0.25),
    ("torch.clamp_min({}, 0.125)", 0.125), ("{0}.masked_fill({0} > 1.25, -1.0)", 1.25),
]  # fmt: skip
BINARY = [
    "{} + {}", "{} - {}", "{} * {}", "{} / (1 + {} ** 2)", "torch.add({}, {}, alpha=0.5)",
    "torch.sub({}, {}, alpha=2)", "torch.addcmul({0}, {1}, {0}, value=0.5)",
    "torch.tanh({} * {})", "torch.addcdiv({0}, {0}, 2 + {1}.sin())",
]  # fmt: skip
KINKED_BINARY = [
    "torch.maximum({}, {})", "torch.minimum({}, {})", "torch.where({0} > {1}, {0}, {1} * 2)",
]  # fmt: skip


def unary(g):
    return g.rng.choice(UNARY).format(g.value())


def kinked(g):
    text, kink = g.rng.choice(KINKED)
    name = g.value()
    away_from(kink, g.env[name])
    away_from(-kink, g.env[name])
    return text.format(name)


def operands(g):
    a = g.value()
    b = g.partner(a)
    return (b, a) if g.rng.random() < 0.3 else (a, b)


def binary(g):
    return g.rng.choice(BINARY).format(*operands(g))


def kinked_binary(g):
    a, b = operands(g)
    away_from(0, eval(f"{a} - {b}", g.env))
    return g.rng.choice(KINKED_BINARY).format(a, b)


def cat(g):
    name = g.value(1, 2, 3, 4)
    shape = g.shape(name)
    dim = g.rng.randrange(len(shape))
    fits = [
        v
        for v in g.values
        if len(g.shape(v)) == len(shape)
        and all(d == dim or s == t for d, (s, t) in enumerate(zip(shape, g.shape(v))))
    ]
    parts = [name, *g.rng.choices(fits, k=g.rng.randint(1, 2))]
    if g.rng.random() < 0.3:
        extra = list(shape)
        extra[dim] = g.size()
        parts.append(g.parameter(*extra))
    return f"torch.cat([{', '.join(parts)}], dim={g.rng.choice([dim, dim - len(shape)])})"


def stack(g):
    name = g.value(1, 2, 3)
    fits = [v for v in g.values if g.shape(v) == g.shape(name)]
    parts = g.rng.choices(fits, k=g.rng.randint(2, 3))
    return f"torch.stack([{', '.join(parts)}], dim={g.rng.randint(0, len(g.shape(name)))})"


def _factors(rng, number):
    """A random list of factors of the number."""
    factors = []
    while number > 1 and len(factors) < 4:
        divisors = [d for d in range(2, number + 1) if number % d == 0]
        factors.append(rng.choice(divisors))
        number //= factors[-1]
    factors += [number] if number > 1 else []
    if rng.random() < 0.2:
        factors.insert(rng.randint(0, len(factors)), 1)
    return factors or [1]


def reshape(g):
    name = g.value()
    shape = _factors(g.rng, g.env[name].numel())
    if g.rng.random() < 0.3:
        shape[g.rng.randrange(len(shape))] = -1
    return f"{name}.reshape({shape})"


def split_dim(g):
    """One dimension into two, or two neighbours into one."""
    name = g.value(2, 3, 4)
    shape = g.shape(name)
    if g.rng.random() < 0.5:
        dim = g.rng.randrange(len(shape) - 1)
        return f"{name}.flatten({dim}, {dim + 1})"
    dims = [d for d, s in enumerate(shape) if s in (4, 6, 8, 9, 10, 12)]
    if not dims:
        raise RejectedError
    dim = g.rng.choice(dims)
    a = g.rng.choice([d for d in range(2, shape[dim]) if shape[dim] % d == 0])
    return f"{name}.unflatten({dim}, ({a}, {shape[dim] // a}))"


def permute(g):
    name = g.value(2, 3, 4, 5)
    rank = len(g.shape(name))
    order = g.rng.sample(range(rank), rank)
    a, b = g.rng.sample(range(rank), 2)
    return g.rng.choice(
        [f"{name}.permute({order})", f"{name}.transpose({a}, {b})", f"{name}.movedim({a}, {b})"]
    )


def unit_dims(g):
    name = g.value()
    rank = len(g.shape(name))
    if 1 in g.shape(name) and g.rng.random() < 0.6:
        dim = g.shape(name).index(1)
        return g.rng.choice([f"{name}.squeeze({dim})", f"{name}.squeeze()"])
    return f"{name}.unsqueeze({g.rng.randint(-rank - 1, rank)})"


def expand(g):
    name = g.value(0, 1, 2, 3)
    shape = [s if s > 1 else g.rng.choice([1, 2, 3, 5]) for s in g.shape(name)]
    shape = [g.size(2, 4)] * g.rng.choice([0, 1]) + shape
    return f"{name}.expand({shape})"


def slice_(g):
    name = g.value(1, 2, 3, 4)
    shape = g.shape(name)
    dim = g.rng.randrange(len(shape))
    start = g.rng.randint(0, shape[dim] - 1)
    stop = g.rng.randint(start + 1, shape[dim])
    head = ":, " * dim
    forms = [f"{name}[{head}{start}:{stop}]", f"{name}[{head}{start}]", f"{name}[{head}-1]",
             f"{name}[{head}::2]", f"{name}[{head}{start}:{stop}:2]",
             f"{name}.narrow({dim}, {start}, {stop - start})",
             f"{name}.chunk(2, {dim})[0]", f"{name}.split({stop - start}, {dim})[-1]",
             f"{name}.flip({dim})"]  # fmt: skip
    return g.rng.choice(forms)


def pad(g):
    name = g.value(1, 2, 3, 4)
    pads = [g.rng.randint(0, 2) for _ in range(2 * g.rng.randint(1, min(2, len(g.shape(name)))))]
    return f"F.pad({name}, {pads}, value={g.rng.choice([0.0, 0.5])})"


def linear(g):
    name = g.value(2, 3, 4)
    inner, outer = g.shape(name)[-1], g.size()
    p = g.parameter(outer, inner)
    bias = g.parameter(outer) if g.rng.random() < 0.5 else None
    return f"F.linear({name}, {p}, {bias}) / {inner}"


def matmul(g):
    name = g.value(1, 2, 3, 4)
    inner = g.shape(name)[-1]
    left = f"{name} @ {g.parameter(inner, g.size())}"
    texts = [left, f"{name} @ {g.parameter(inner)}"]
    if len(g.shape(name)) >= 2:
        texts += [f"{g.parameter(g.size(), g.shape(name)[-2])} @ {name}", f"{name} @ {name}.mT"]
    if len(g.shape(name)) == 2:
        texts.append(f"torch.addmm({g.parameter(4)}, {name}, {g.parameter(inner, 4)}, beta=0.5)")
    return f"({g.rng.choice(texts)}) / {inner}"


def bmm(g):
    name = g.value(3)
    n, rows, inner = g.shape(name)
    p = g.parameter(n, inner, g.size())
    texts = [
        f"torch.bmm({name}, {p})",
        f"torch.bmm({name}.transpose(1, 2), {name})",
        f"torch.einsum('nij,njk->nki', {name}, {p})",
        f"torch.einsum('nij,njk->ik', {name}, {p})",
        f"torch.baddbmm({g.parameter(rows, 1)}, {name}, {p})",
    ]
    return f"{g.rng.choice(texts)} / {max(inner, rows)}"


def conv(g):
    name = g.value(3, 4)
    shape = g.shape(name)
    spatial = len(shape) - 2
    groups = g.rng.choice([d for d in range(1, shape[1] + 1) if shape[1] % d == 0])
    inner, outer = shape[1] // groups, g.size(1, 3)
    kernel = [g.rng.randint(1, min(3, s)) for s in shape[2:]]
    stride = [g.rng.randint(1, 2) for _ in kernel]
    padding = [g.rng.randint(0, 2) for _ in kernel]
    dilation = [g.rng.choice([1, 1, 2]) for _ in kernel]
    bias = g.parameter(outer * groups) if g.rng.random() < 0.5 else None
    if g.rng.random() < 0.3:
        p = g.parameter(shape[1], outer, *kernel)
        more = [min(s - 1, g.rng.randint(0, 1)) for s in stride]
        return (
            f"F.conv_transpose{spatial}d({name}, {p}, {bias}, {stride}, {padding}, {more}, "
            f"{groups}, {dilation}) / {2 * inner}"
        )
    p = g.parameter(outer * groups, inner, *kernel)
    text = f"F.conv{spatial}d({name}, {p}, {bias}, {stride}, {padding}, {dilation}, {groups})"
    return f"{text} / {2 * inner}"


def pool(g):
    name = g.value(3, 4)
    shape = g.shape(name)
    kernel = [g.rng.randint(1, min(3, s)) for s in shape[-2:]]
    stride = [g.rng.randint(1, 2) for _ in kernel]
    padding = [g.rng.randint(0, k // 2) for k in kernel]
    ceil = g.rng.random() < 0.3
    if g.rng.random() < 0.5:
        distinct(g.env[name])
        dilation = g.rng.choice([1, 1, 2])
        return f"F.max_pool2d({name}, {kernel}, {stride}, {padding}, {dilation}, {ceil})"
    count = g.rng.random() < 0.5
    return g.rng.choice(
        [
            f"F.avg_pool2d({name}, {kernel}, {stride}, {padding}, {ceil}, {count})",
            f"F.adaptive_avg_pool2d({name}, {[g.rng.randint(1, s) for s in shape[-2:]]})",
        ]
    )


def reduce(g):
    name = g.value(1, 2, 3, 4)
    dims, keep = g.some(len(g.shape(name))), g.rng.random() < 0.5
    kind = g.rng.choice(["sum", "mean", "amax", "amin"])
    if kind in ("amax", "amin"):
        distinct(g.env[name])
    texts = [f"{name}.{kind}({dims}, {keep})"] * 4 + [f"{name}.sum()", f"{name}.mean()"]
    return g.rng.choice(texts)


def softmax(g):
    name = g.value(1, 2, 3, 4)
    kind = g.rng.choice(["softmax", "log_softmax"])
    return f"{name}.{kind}({g.rng.randrange(len(g.shape(name)))})"


def layer_norm(g):
    name = g.value(2, 3, 4)
    rows = list(g.shape(name)[-g.rng.randint(1, 2) :])
    affine = (g.parameter(*rows), g.parameter(*rows)) if g.rng.random() < 0.7 else (None, None)
    return f"F.layer_norm({name}, {rows}, {affine[0]}, {affine[1]}, eps=0.1)"


def batch_norm(g):
    name = g.value(2, 3, 4)
    shape = g.shape(name)
    if math.prod(shape) // shape[1] < 2:
        raise RejectedError
    suffix = {2: "1d", 3: "1d", 4: "2d"}[len(shape)]
    options = g.rng.choice(["", ", affine=False"])
    return f"{g.attribute('bn', f'nn.BatchNorm{suffix}({shape[1]}, eps=0.1{options})')}({name})"


def group_norm(g):
    name = g.value(3, 4)
    channels = g.shape(name)[1]
    groups = g.rng.choice([d for d in range(1, channels + 1) if channels % d == 0])
    p = g.parameter(channels)
    return f"F.group_norm({name}, {groups}, {p}, None, eps=0.1)"


def embedding(g):
    rows, width = g.size(2, 7), g.size()
    shape = [g.size(1, 5) for _ in range(g.rng.randint(1, 2))]
    index = g.add_index_input(rows, shape)
    return f"F.embedding({index}, {g.parameter(rows, width)})"


def embedding_bag(g):
    rows, width = g.size(2, 7), g.size()
    index = g.add_index_input(rows, [g.size(1, 5), g.size(1, 3)])
    return f"F.embedding_bag({index}, {g.parameter(rows, width)}, mode='sum')"


def loss(g):
    name = g.value(2)
    rows, classes = g.shape(name)
    index = g.add_index_input(classes, [rows])
    return f"F.cross_entropy({name}, {index}, reduction={g.rng.choice(['mean', 'none'])!r})"


KINDS = [
    unary, unary, kinked, binary, binary, kinked_binary, cat, stack, reshape, split_dim, permute,
    unit_dims, expand, slice_, slice_, pad, linear, matmul, bmm, conv, conv, conv, pool, pool,
    reduce, reduce, softmax, layer_norm, batch_norm, group_norm, embedding,
    embedding_bag, loss,
]  # fmt: skip


def build(source):
    """The module and its arguments that the text describes."""
    env = {"torch": torch, "nn": nn, "F": F, "weight": weight, "tensor": tensor}
    exec(source, env)
    return env["Net"]().double(), env["args"]
