"""Milliseconds for each token that a transformer generates, beside eager PyTorch.

    python benchmarks/runtime/decoding.py [--layers 2 8] [--workers 1 2] [--threads 1]

A text of one sample is generated token by token from a prompt of 8, greedily, in four ways: without
a cache, so that each call has one token more; with keys and values that are given and returned, one
longer each time; and with a static cache, a buffer that is written in place at a position, which is
an int or a tensor. "First" is a text of lengths that were never seen, "again" the same text once
more; both are medians over the tokens, after the first few, of which one traces the model with
symbols. Both ways end in the same tokens; the command ends with an error otherwise.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import smex

_PROMPT = 8
_FEW = 8
"""Tokens at which models are captured and searched for."""


class Block(nn.Module):
    """Attention of the new tokens to all, then a gated network."""

    def __init__(self, embed: int, heads: int, most: int) -> None:
        super().__init__()
        self.heads, self.size = heads, embed // heads
        self.norm1, self.norm2 = nn.LayerNorm(embed), nn.LayerNorm(embed)
        self.project, self.out = nn.Linear(embed, 3 * embed), nn.Linear(embed, embed)
        self.up, self.down = nn.Linear(embed, 4 * embed), nn.Linear(4 * embed, embed)
        self.register_buffer("keys", torch.zeros(1, heads, most, self.size))
        self.register_buffer("values", torch.zeros(1, heads, most, self.size))

    def split(self, x: Tensor) -> list[Tensor]:
        """Queries, keys and values by head."""
        n, t, _ = x.shape
        parts = self.project(self.norm1(x)).chunk(3, dim=-1)
        return [part.view(n, t, self.heads, self.size).transpose(1, 2) for part in parts]

    def finish(self, x: Tensor, mixed: Tensor) -> Tensor:
        """The rest of the block, of what attention has found."""
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """`[1, T] tokens -> [1, vocab]`, what comes after the last one."""

    def __init__(self, layers: int, embed: int = 128, heads: int = 4, most: int = 128) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(1000, embed), nn.Embedding(most, embed)
        self.blocks = nn.ModuleList(Block(embed, heads, most) for _ in range(layers))
        self.head = nn.Linear(embed, 1000)


class Whole(Transformer):
    """Without a cache."""

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            q, k, v = block.split(x)
            x = block.finish(x, F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return self.head(x[:, -1])


class Growing(Transformer):
    """With a cache that is given and returned."""

    def forward(self, token: Tensor, cache: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        x = self.tokens(token) + self.places.weight[cache[0].shape[2]]
        grown = []
        for block, old_keys, old_values in zip(self.blocks, cache[::2], cache[1::2], strict=True):
            q, k, v = block.split(x)
            keys, values = torch.cat([old_keys, k], 2), torch.cat([old_values, v], 2)
            grown += [keys, values]
            x = block.finish(x, F.scaled_dot_product_attention(q, keys, values))
        return self.head(x[:, -1]), grown


class AtInt(Transformer):
    """With a static cache, written at a position that is an int."""

    def forward(self, token: Tensor, position: int) -> Tensor:
        x = self.tokens(token) + self.places.weight[position]
        for block in self.blocks:
            q, k, v = block.split(x)
            block.keys[:, :, position : position + 1] = k
            block.values[:, :, position : position + 1] = v
            keys, values = block.keys[:, :, : position + 1], block.values[:, :, : position + 1]
            x = block.finish(x, F.scaled_dot_product_attention(q, keys, values))
        return self.head(x[:, -1])


class AtTensor(Transformer):
    """With a static cache, written at a position that is a tensor `[1]`."""

    def forward(self, token: Tensor, position: Tensor) -> Tensor:
        x = self.tokens(token) + self.places(position)
        for block in self.blocks:
            q, k, v = block.split(x)
            block.keys.index_copy_(2, position, k)
            block.values.index_copy_(2, position, v)
            seen = (torch.arange(block.keys.shape[2]) <= position)[None]
            x = block.finish(
                x, F.scaled_dot_product_attention(q, block.keys, block.values, attn_mask=seen)
            )
        return self.head(x[:, -1])


Seconds = list[float]


def whole(model: Callable, prompt: list[int], count: int, layers: int) -> tuple[list[int], Seconds]:
    """The text, and the seconds of each call."""
    text, seconds = list(prompt), []
    for _ in range(count):
        tokens = torch.tensor([text])
        started = time.perf_counter()
        logits = model(tokens)
        seconds.append(time.perf_counter() - started)
        text.append(int(logits.argmax()))
    return text, seconds


def growing(
    model: Callable, prompt: list[int], count: int, layers: int
) -> tuple[list[int], Seconds]:
    text, seconds = list(prompt), []
    cache = [torch.zeros(1, 4, 0, 32) for _ in range(2 * layers)]
    for n in range(len(prompt) + count - 1):
        token = torch.tensor([[text[n]]])
        started = time.perf_counter()
        logits, cache = model(token, cache)
        seconds.append(time.perf_counter() - started)
        if n >= len(prompt) - 1:
            text.append(int(logits.argmax()))
    return text, seconds[len(prompt) - 1 :]


def at(position: Callable[[int], int | Tensor]) -> Callable:
    def static(
        model: Callable, prompt: list[int], count: int, layers: int
    ) -> tuple[list[int], Seconds]:
        text, seconds = list(prompt), []
        for n in range(len(prompt) + count - 1):
            token, place = torch.tensor([[text[n]]]), position(n)
            started = time.perf_counter()
            logits = model(token, place)
            seconds.append(time.perf_counter() - started)
            if n >= len(prompt) - 1:
                text.append(int(logits.argmax()))
        return text, seconds[len(prompt) - 1 :]

    return static


WAYS: dict[str, tuple[type[Transformer], Callable]] = {
    "no cache": (Whole, whole),
    "growing cache": (Growing, growing),
    "static cache, int": (AtInt, at(lambda n: n)),
    "static cache, tensor": (AtTensor, at(lambda n: torch.tensor([n]))),
}


def milliseconds(seconds: Seconds) -> str:
    few = seconds[_FEW:]
    return f"{statistics.median(few) * 1e3:.2f} [{min(few) * 1e3:.2f}, {max(few) * 1e3:.2f}]"


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--threads", type=int, help="torch's intra-op threads")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    print(f"torch {torch.__version__}, CPU, {torch.get_num_threads()} threads", flush=True)
    for layers in options.layers:
        for way in options.ways:
            kind, generate = WAYS[way]
            for workers in options.workers:
                torch.manual_seed(0)
                model = kind(layers)
                prompt = torch.randint(0, 1000, (_PROMPT,)).tolist()
                net = smex.partition(copy.deepcopy(model), workers=workers)
                first, new = generate(net, prompt, options.tokens, layers)
                again, seen = generate(net, prompt, options.tokens, layers)
                wanted, eager = generate(model, prompt, options.tokens, layers)
                assert first == again == wanted, (way, first, again, wanted)
                traces = sum(alike.captures.traces for alike in net._calls._known.values())
                print(
                    f"| {layers} | {way} | {workers} | {milliseconds(eager)} | {milliseconds(seen)}"
                    f" | {milliseconds(new)} | {traces} | {len(net._programs)} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
