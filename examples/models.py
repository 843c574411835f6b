"""Six models that the examples, tests and benchmarks share.

Each is a plain `nn.Module`; `small()` gives an instance for tests and `small_inputs()` arguments
for it. All work in float64 and on the meta device.
"""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolution with a shortcut: `[N, inputs, H, W] -> [N, 4 width, H', W']`."""

    expansion = 4

    def __init__(self, inputs: int, planes: int, width: int, stride: int) -> None:
        super().__init__()
        inner, outputs = planes * width, planes * width * self.expansion
        self.conv1 = nn.Conv2d(inputs, inner, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.shortcut(x))


class WResNet(nn.Module):
    """Wide residual network: `[N, in_channels, H, W] -> [N, num_classes]`.

    A ResNet of bottleneck blocks with every channel count multiplied by `width` (Zagoruyko and
    Komodakis, 2016), as Tofu §7 evaluates it.

    Args:
        depth: 26, 50, 101 or 152.
        small_stem: a 3×3 convolution without pooling, for images of 8×8 to 32×32.
    """

    BLOCKS: ClassVar = {26: (2, 2, 2, 2), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}

    def __init__(
        self,
        depth: int = 50,
        width: int = 1,
        num_classes: int = 1000,
        in_channels: int = 3,
        base_channels: int = 64,
        small_stem: bool = False,
    ) -> None:
        super().__init__()
        if depth not in self.BLOCKS:
            raise ValueError(f"WResNet: depth {depth}, expected one of {sorted(self.BLOCKS)}")
        stem = base_channels * width
        if small_stem:
            self.conv1 = nn.Conv2d(in_channels, stem, 3, padding=1, bias=False)
            self.pool: nn.Module = nn.Identity()
        else:
            self.conv1 = nn.Conv2d(in_channels, stem, 7, stride=2, padding=3, bias=False)
            self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.bn1 = nn.BatchNorm2d(stem)
        layers, inputs = [], stem
        for stage, count in enumerate(self.BLOCKS[depth]):
            planes = base_channels * 2**stage
            blocks = []
            for i in range(count):
                blocks.append(Bottleneck(inputs, planes, width, 2 if stage and not i else 1))
                inputs = planes * width * Bottleneck.expansion
            layers.append(nn.Sequential(*blocks))
        self.layer1, self.layer2, self.layer3, self.layer4 = layers
        self.fc = nn.Linear(inputs, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))

    @classmethod
    def small(cls) -> WResNet:
        """For 8×8 digits of one channel, ten classes."""
        return cls(26, 1, num_classes=10, in_channels=1, base_channels=4, small_stem=True)

    @staticmethod
    def small_inputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
        """`[6, 1, 8, 8]` images and their classes."""
        return torch.randn(6, 1, 8, 8, dtype=dtype), torch.randint(10, (6,))


class LSTMCell(nn.Module):
    """One LSTM step: `x [N, inputs], (h, c) [N, hidden] -> (h, c)`."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.input = nn.Linear(inputs, 4 * hidden)
        self.recurrent = nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        h, c = state
        i, f, g, o = (self.input(x) + self.recurrent(h)).chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class RNN(nn.Module):
    """A stack of LSTM layers unrolled over the steps of its input.

    Args:
        vocab: over tokens `[N, steps] -> [N, steps, vocab]`; with None over features
            `[N, steps, inputs] -> [N, steps, hidden]`.
        inputs: width of the features or of the embedding; by default `hidden`.
    """

    def __init__(
        self,
        layers: int = 10,
        hidden: int = 1024,
        vocab: int | None = None,
        inputs: int | None = None,
    ) -> None:
        super().__init__()
        self.hidden = hidden
        inputs = hidden if inputs is None else inputs
        self.embedding = None if vocab is None else nn.Embedding(vocab, inputs)
        widths = [inputs] + [hidden] * (layers - 1)
        self.cells = nn.ModuleList(LSTMCell(width, hidden) for width in widths)
        self.decoder = None if vocab is None else nn.Linear(hidden, vocab)

    def forward(self, x: Tensor) -> Tensor:
        if self.embedding is not None:
            x = self.embedding(x)
        zero = x.new_zeros(x.shape[0], self.hidden)
        states = [(zero, zero)] * len(self.cells)
        outputs = []
        for step in range(x.shape[1]):
            h = x[:, step]
            for layer, cell in enumerate(self.cells):
                states[layer] = cell(h, states[layer])
                h = states[layer][0]
            outputs.append(h)
        y = torch.stack(outputs, dim=1)
        return y if self.decoder is None else self.decoder(y)

    @classmethod
    def small(cls) -> RNN:
        """Two layers over a vocabulary of eleven."""
        return cls(layers=2, hidden=6, vocab=11)

    @staticmethod
    def small_inputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
        """`[4, 3]` tokens and, as targets, `[4, 3]` tokens."""
        return torch.randint(11, (4, 3)), torch.randint(11, (4, 3))


class SelfAttention(nn.Module):
    """Causal multi-head attention: `[N, T, E] -> [N, T, E]`."""

    def __init__(self, embed: int, heads: int, dropout: float, fused: bool) -> None:
        super().__init__()
        self.heads, self.dropout, self.fused = heads, dropout, fused
        self.query = nn.Linear(embed, embed)
        self.key = nn.Linear(embed, embed)
        self.value = nn.Linear(embed, embed)
        self.proj = nn.Linear(embed, embed)

    def forward(self, x: Tensor) -> Tensor:
        n, t, e = x.shape
        shape = (n, t, self.heads, e // self.heads)
        q, k, v = (f(x).view(shape).transpose(1, 2) for f in (self.query, self.key, self.value))
        p = self.dropout if self.training else 0.0
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        else:
            future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
            scores = q @ k.transpose(-2, -1) * (e // self.heads) ** -0.5
            y = F.dropout(scores.masked_fill(future, -torch.inf).softmax(-1), p) @ v
        return self.proj(y.transpose(1, 2).reshape(n, t, e))


class GPTBlock(nn.Module):
    """Attention and a GELU network, each normalised first and added to its input."""

    def __init__(self, embed: int, heads: int, dropout: float, fused: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(embed), nn.LayerNorm(embed)
        self.attention = SelfAttention(embed, heads, dropout, fused)
        self.up, self.down = nn.Linear(embed, 4 * embed), nn.Linear(4 * embed, embed)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop(self.attention(self.norm1(x)))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    """Decoder-only transformer, output tied to the embedding: `[N, T] tokens -> [N, T, vocab]`.

    Args:
        fused_attention: use `scaled_dot_product_attention` in place of matmul, mask and softmax.
    """

    def __init__(
        self,
        layers: int = 12,
        embed: int = 768,
        heads: int = 12,
        vocab: int = 50257,
        context: int = 1024,
        dropout: float = 0.0,
        fused_attention: bool = False,
    ) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, embed), nn.Embedding(context, embed)
        self.blocks = nn.ModuleList(
            GPTBlock(embed, heads, dropout, fused_attention) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(embed)
        self.head = nn.Linear(embed, vocab, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(
            torch.arange(tokens.shape[1], device=tokens.device)
        )
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    @classmethod
    def small(cls, fused_attention: bool = False, dropout: float = 0.0) -> GPT:
        """Two layers over a vocabulary of 13."""
        return cls(2, 8, 2, 13, 6, dropout=dropout, fused_attention=fused_attention)

    @staticmethod
    def small_inputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
        """`[3, 5]` tokens and the tokens that follow them."""
        tokens = torch.randint(13, (3, 6))
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


class LlamaBlock(nn.Module):
    """Grouped-query attention with rotary positions, and SwiGLU: `[N, T, E] -> [N, T, E]`."""

    def __init__(self, embed: int, heads: int, kv_heads: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, embed // heads
        self.norm1, self.norm2 = nn.RMSNorm(embed, eps=1e-5), nn.RMSNorm(embed, eps=1e-5)
        self.query = nn.Linear(embed, embed, bias=False)
        self.key = nn.Linear(embed, kv_heads * self.size, bias=False)
        self.value = nn.Linear(embed, kv_heads * self.size, bias=False)
        self.proj = nn.Linear(embed, embed, bias=False)
        self.gate = nn.Linear(embed, hidden, bias=False)
        self.up = nn.Linear(embed, hidden, bias=False)
        self.down = nn.Linear(hidden, embed, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.proj(self.attend(self.norm1(x), cos, sin))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def attend(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        n, t, e = x.shape
        q = self.query(x).view(n, t, self.heads, self.size).transpose(1, 2)
        k = self.key(x).view(n, t, self.kv_heads, self.size).transpose(1, 2)
        v = self.value(x).view(n, t, self.kv_heads, self.size).transpose(1, 2)
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=self.kv_heads != self.heads
        )
        return y.transpose(1, 2).reshape(n, t, e)

    @staticmethod
    def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Halves of a head are the two coordinates that turn: `[N, H, T, D]`."""
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class Llama(nn.Module):
    """Llama 3 (Grattafiori et al., 2024): `[N, T] tokens -> [N, T, vocab]`.

    Args:
        kv_heads: how many heads of keys and values the `heads` of queries share.
        hidden: width of the gated network.
        theta: base of the rotary positions' wavelengths.
    """

    SIZES: ClassVar = {
        "8B": {"layers": 32, "embed": 4096, "heads": 32, "kv_heads": 8, "hidden": 14336},
        "70B": {"layers": 80, "embed": 8192, "heads": 64, "kv_heads": 8, "hidden": 28672},
        "405B": {"layers": 126, "embed": 16384, "heads": 128, "kv_heads": 8, "hidden": 53248},
    }

    def __init__(
        self,
        layers: int = 32,
        embed: int = 4096,
        heads: int = 32,
        kv_heads: int = 8,
        hidden: int = 14336,
        vocab: int = 128256,
        theta: float = 500000.0,
    ) -> None:
        super().__init__()
        self.size, self.theta = embed // heads, theta
        self.tokens = nn.Embedding(vocab, embed)
        self.blocks = nn.ModuleList(
            LlamaBlock(embed, heads, kv_heads, hidden) for _ in range(layers)
        )
        self.norm = nn.RMSNorm(embed, eps=1e-5)
        self.head = nn.Linear(embed, vocab, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        kind = {"device": x.device, "dtype": torch.promote_types(x.dtype, torch.float32)}
        waves = self.theta ** (-torch.arange(0, self.size, 2, **kind) / self.size)
        angles = torch.arange(tokens.shape[1], **kind)[:, None] * waves
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))

    @classmethod
    def of_size(cls, size: str, layers: int | None = None) -> Llama:
        """Llama 3 "8B", "70B" or "405B", with all or some of its layers."""
        sizes = cls.SIZES[size]
        return cls(**{**sizes, "layers": layers or sizes["layers"]})

    @classmethod
    def small(cls) -> Llama:
        """Two layers over a vocabulary of 13; two heads of queries share one of keys."""
        return cls(layers=2, embed=16, heads=4, kv_heads=2, hidden=24, vocab=13)

    @staticmethod
    def small_inputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
        """`[3, 5]` tokens and the tokens that follow them."""
        return GPT.small_inputs(dtype)


class DoubleConv(nn.Sequential):
    """Two 3×3 convolutions with group norm and SiLU: `[N, inputs, H, W] -> [N, outputs, H, W]`."""

    def __init__(self, inputs: int, outputs: int, groups: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.GroupNorm(groups, outputs),
            nn.SiLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
            nn.GroupNorm(groups, outputs),
            nn.SiLU(),
        )


class UNet(nn.Module):
    """Encoder and decoder with skips: `[N, inputs, H, W] -> [N, outputs, H, W]`.

    `H` and `W` are multiples of `2 ** depth`.
    """

    def __init__(
        self, inputs: int = 3, outputs: int = 1, channels: int = 64, depth: int = 4, groups: int = 8
    ) -> None:
        super().__init__()
        sizes = [channels * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(
            DoubleConv(a, b, groups) for a, b in zip([inputs, *sizes[:-2]], sizes[:-1], strict=True)
        )
        self.middle = DoubleConv(sizes[-2], sizes[-1], groups)
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(size, size // 2, 2, stride=2) for size in sizes[:0:-1]
        )
        self.merge = nn.ModuleList(DoubleConv(size, size // 2, groups) for size in sizes[:0:-1])
        self.head = nn.Conv2d(channels, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for block in self.down:
            skips.append(block(x))
            x = F.max_pool2d(skips[-1], 2)
        x = self.middle(x)
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([skips.pop(), up(x)], dim=1))
        return self.head(x)

    @classmethod
    def small(cls) -> UNet:
        """Two levels from two channels to three."""
        return cls(inputs=2, outputs=3, channels=4, depth=2, groups=2)

    @staticmethod
    def small_inputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
        """`[2, 2, 8, 8]` images and target images of three channels."""
        return torch.randn(2, 2, 8, 8, dtype=dtype), torch.randn(2, 3, 8, 8, dtype=dtype)


def mlp(sizes: list[int]) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class DLRM(nn.Module):
    """Recommendation model (Naumov et al., 2019): one logit for each sample.

    `dense [N, features]`, `sparse [tables, N, bag]` indices `-> [N]`. The embeddings and the bottom
    network's output interact by the dot products of all pairs.
    """

    def __init__(
        self,
        rows: list[int],
        embed: int = 64,
        features: int = 13,
        bottom: tuple[int, ...] = (512, 256),
        top: tuple[int, ...] = (512, 256),
    ) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(n, embed, mode="sum") for n in rows)
        self.bottom = mlp([features, *bottom, embed])
        count = len(rows) + 1
        self.top = mlp([embed + count * (count - 1) // 2, *top, 1])

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        x = self.bottom(dense)
        rows = [x] + [table(sparse[i]) for i, table in enumerate(self.tables)]
        stacked = torch.stack(rows, dim=1)
        dots = stacked @ stacked.transpose(1, 2)
        pairs = [dots[:, i, :i] for i in range(1, len(rows))]
        return self.top(torch.cat([x, *pairs], dim=1)).squeeze(1)

    @classmethod
    def small(cls) -> DLRM:
        """Three tables of embeddings of four elements."""
        return cls([7, 5, 9], embed=4, features=3, bottom=(6,), top=(8,))

    @staticmethod
    def small_inputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
        """Five samples with bags of two indices, and their clicks."""
        dense = torch.randn(5, 3, dtype=dtype)
        return dense, torch.randint(5, (3, 5, 2)), torch.randint(2, (5,)).to(dtype)
