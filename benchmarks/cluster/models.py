"""The eight models of HeteroG's Table 1, captured for training, and small forms of them.

    python benchmarks/peers/environments.py models
    python benchmarks/cluster/models.py [NAME ...]
    python benchmarks/cluster/models.py --reduced [NAME ...]

The graphs are of forward, loss and backward in float32, with the dropout that the libraries have by
default, at the paper's batches for 8 GPUs; nothing is allocated. Images are 224×224 and sentences
10 words (Transformer) or 128 (BERT), as in HeteroG's published code, which has no XLNet: it reads
what BERT does. Both answer questions about a text. The code's NASNet is that of CIFAR-10 on images
of 224×224, of which a batch of 24 would not fit its GPUs; ours is NASNet-A-large.
"Operations" are counted as the cost model does, a multiplication and an addition being two; the
seconds of capture are those of the run that made the graph, and seconds of an iteration the
paper's. Graphs are kept in build/captured/ until capture or this file changes, and other benchmarks
read them with `captured(name)`, without the models' libraries once they are there.

With `--reduced`, models of the same parts with few and narrow layers, in float64 and without
dropout, are trained for one step over 1 to 4 workers with every tensor cut that may be
(`replicate_bytes=0`). The largest error of the loss, the gradients and the buffers, which is at
most 1e-10, is relative to the largest element of the tensor. "Zero" counts tensors that are zero
but for rounding, of which it is relative to the largest gradient or buffer: gradients of the biases
of BERT's keys, which softmax cancels, and of batch normalisations before a convolution and another
normalisation, and the running means of the latter.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import hashlib
import importlib.util
import json
import math
import os
import pathlib
import pickle
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from sailor import head, row
from torch import nn
from torch.nn import functional as F

import smex
from smex.capture import CapturedGraph

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "peers"))
sys.path.append(str(pathlib.Path(__file__).parents[1] / "specs"))  # last: it has models.py too

import environments
import zoo

CACHE = environments.ROOT / "build" / "captured"
CLASSES = 1000
PLANNERS = ("data_parallel", "tofu")
WORKERS = (1, 2, 3, 4)
TOLERANCE = 1e-10
ZERO = 1e-13
"""What part of the largest gradient or buffer is rounding."""

Training = tuple[nn.Module, tuple[torch.Tensor, ...], Callable[..., torch.Tensor]]
"""A model, its arguments with the target behind them, and the loss of output and target."""


def images(batch: int, size: int = 224, classes: int = CLASSES) -> tuple[torch.Tensor, ...]:
    """Square images and their classes."""
    return torch.randn(batch, 3, size, size), torch.randint(classes, (batch,))


def vgg(batch: int) -> Training:
    from torchvision.models import vgg19

    return vgg19(), images(batch), F.cross_entropy


def small_vgg() -> Training:
    """All 16 convolutions, of a 32nd of the channels."""
    from torchvision.models import vgg

    widths = [width if width == "M" else width // 32 for width in vgg.cfgs["E"]]
    top = nn.Sequential(nn.Flatten(), nn.Linear(16, 24), nn.ReLU(), nn.Dropout(), nn.Linear(24, 10))
    return nn.Sequential(vgg.make_layers(widths), top), images(zoo.BATCH, 32, 10), F.cross_entropy


def resnet(batch: int) -> Training:
    from torchvision.models.resnet import Bottleneck, ResNet

    return ResNet(Bottleneck, [3, 24, 36, 3]), images(batch), F.cross_entropy


def small_resnet() -> Training:
    """A narrow block of each size."""
    from torchvision.models.resnet import Bottleneck, ResNet

    model = ResNet(Bottleneck, [1, 1, 1, 1], num_classes=10, width_per_group=8)
    return model, images(zoo.BATCH, 32, 10), F.cross_entropy


def inception(batch: int) -> Training:
    from torchvision.models import inception_v3

    return inception_v3(aux_logits=False, init_weights=False), images(batch), F.cross_entropy


def small_inception() -> Training:
    """One block of each kind."""
    from torchvision.models import inception as blocks

    model = nn.Sequential(
        blocks.BasicConv2d(3, 8, kernel_size=3, stride=2),
        blocks.InceptionA(8, pool_features=4),
        blocks.InceptionB(228),
        blocks.InceptionC(708, channels_7x7=8),
        blocks.InceptionD(768),
        blocks.InceptionE(1280),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2048, 10),
    )
    return model, images(zoo.BATCH, 32, 10), F.cross_entropy


def mobilenet(batch: int) -> Training:
    from torchvision.models import mobilenet_v2

    return mobilenet_v2(), images(batch), F.cross_entropy


def small_mobilenet() -> Training:
    """Five blocks, of a quarter of the channels."""
    from torchvision.models import MobileNetV2

    blocks = [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 2, 2]]  # expansion, channels, number, stride
    model = MobileNetV2(num_classes=10, width_mult=0.25, inverted_residual_setting=blocks)
    return model, images(zoo.BATCH, 32, 10), F.cross_entropy


def nasnet(batch: int) -> Training:
    from timm import create_model

    return create_model("nasnetalarge"), images(batch), F.cross_entropy


class Skipped(nn.Module):
    """In place of a cell, which has the outputs of the two before."""

    def forward(self, last: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        return last


def small_nasnet() -> Training:
    """A narrow cell of each kind."""
    from timm.models.nasnet import NASNetALarge

    model = NASNetALarge(num_classes=10, stem_size=8, num_features=24 * 8)
    for number in range(18):
        if number not in (0, 1, 6, 12):  # the first after each reduction, and one that is like most
            setattr(model, f"cell_{number}", Skipped())
    return model, images(zoo.BATCH, 64, 10), F.cross_entropy


class Translator(nn.Module):
    """A Transformer (Vaswani et al. 2017) from words `[N, S]` and `[N, T]` to logits of words."""

    def __init__(
        self, vocabulary: int, length: int, width: int, heads: int, layers: int, inner: int
    ):
        super().__init__()
        self.source = nn.Embedding(vocabulary, width)
        self.target = nn.Embedding(vocabulary, width)
        angles = torch.arange(length)[:, None] / 1e4 ** (torch.arange(0, width, 2) / width)
        self.register_buffer("places", torch.stack([angles.sin(), angles.cos()], 2).flatten(1))
        self.dropout = nn.Dropout(0.1)
        self.layers = nn.Transformer(width, heads, layers, layers, inner, batch_first=True)
        self.words = nn.Linear(width, vocabulary)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        length = target.shape[1]
        later = nn.Transformer.generate_square_subsequent_mask(length, dtype=self.places.dtype)
        found = self.layers(
            self.dropout(self.source(source) + self.places[: source.shape[1]]),
            self.dropout(self.target(target) + self.places[:length]),
            tgt_mask=later,
            tgt_is_causal=True,
        )
        return self.words(found)


def loss_of_words(logits: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """Cross entropy of `[N, T, vocabulary]` and `[N, T]`."""
    return F.cross_entropy(logits.flatten(0, 1), words.flatten())


def transformer(batch: int) -> Training:
    model = Translator(50_000, length=10, width=512, heads=8, layers=6, inner=2048)
    return model, tuple(torch.randint(50_000, (batch, 10)) for _ in range(3)), loss_of_words


def small_transformer() -> Training:
    model = Translator(37, length=7, width=16, heads=4, layers=2, inner=24)
    return model, tuple(torch.randint(37, (zoo.BATCH, 7)) for _ in range(3)), loss_of_words


class Answers(nn.Module):
    """An encoder of transformers and logits `[N, L, 2]` of where answers begin and end."""

    def __init__(self, encoder: nn.Module, width: int):
        super().__init__()
        self.encoder = encoder
        self.answers = nn.Linear(width, 2)

    def forward(
        self, words: torch.Tensor, mask: torch.Tensor, segments: torch.Tensor
    ) -> torch.Tensor:
        encoded = self.encoder(words, attention_mask=mask, token_type_ids=segments)
        return self.answers(encoded[0])


def questions(batch: int, length: int, vocabulary: int) -> tuple[torch.Tensor, ...]:
    """Words, which of them are none, whether they are of the question or the text, and answers."""
    lengths = torch.randint(length // 2, length + 1, (batch, 1))
    places = torch.arange(length)
    mask, segments = (places < lengths).long(), (places >= length // 4).long().expand(batch, -1)
    words, answers = (
        torch.randint(3, vocabulary, (batch, length)),
        torch.randint(length, (batch, 2)),
    )
    return words, mask, segments.contiguous(), answers


BERT_LARGE = {
    "vocab_size": 30522,
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}
XLNET_LARGE = {"vocab_size": 32000, "d_model": 1024, "n_layer": 24, "n_head": 16, "d_inner": 4096}
SMALL_XLNET = {"vocab_size": 99, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 37}


def bert_of(sizes: dict[str, int], batch: int, length: int) -> Training:
    from transformers import BertConfig, BertModel

    model = Answers(BertModel(BertConfig(**sizes), add_pooling_layer=False), sizes["hidden_size"])
    return model, questions(batch, length, sizes["vocab_size"]), F.cross_entropy


def xlnet_of(sizes: dict[str, int], batch: int, length: int) -> Training:
    from transformers import XLNetConfig, XLNetModel

    model = Answers(XLNetModel(XLNetConfig(**sizes)), sizes["d_model"])
    return model, questions(batch, length, sizes["vocab_size"]), F.cross_entropy


@dataclasses.dataclass(frozen=True)
class Case:
    """A model of the paper.

    Attributes:
        batch: on 8 GPUs together.
        seconds: of an iteration there: HeteroG's, EV-PS, EV-AR, CP-PS and CP-AR.
        library: what makes it.
    """

    whole: Callable[[int], Training]
    small: Callable[[], Training]
    batch: int
    seconds: tuple[float, float, float, float, float]
    library: str = "torchvision"


CASES = {
    "VGG-19": Case(vgg, small_vgg, 192, (0.462, 0.907, 0.653, 0.853, 0.591)),
    "ResNet-200": Case(resnet, small_resnet, 192, (0.693, 1.431, 0.955, 1.273, 0.897)),
    "Inception-v3": Case(inception, small_inception, 192, (0.528, 0.933, 0.701, 0.911, 0.659)),
    "MobileNet-v2": Case(mobilenet, small_mobilenet, 192, (0.232, 0.413, 0.368, 0.394, 0.325)),
    "NASNet": Case(nasnet, small_nasnet, 192, (0.862, 1.244, 1.028, 1.203, 1.116), "timm"),
    "Transformer": Case(
        transformer, small_transformer, 720, (0.298, 0.961, 0.496, 0.931, 0.361), "torch"
    ),
    "BERT-large": Case(
        lambda batch: bert_of(BERT_LARGE, batch, 128),
        lambda: bert_of(zoo.BERT, zoo.BATCH, zoo.WORDS),
        48,
        (0.451, 0.612, 1.064, 0.795, 1.049),
        "transformers",
    ),
    "XLNet-large": Case(
        lambda batch: xlnet_of(XLNET_LARGE, batch, 128),
        lambda: xlnet_of(SMALL_XLNET, zoo.BATCH, zoo.WORDS),
        48,
        (0.851, 1.232, 1.551, 1.283, 1.566),
        "transformers",
    ),
}
STRATEGIES = ("HeteroG", "EV-PS", "EV-AR", "CP-PS", "CP-AR")


def captured(name: str, batch: int | None = None) -> smex.SemanticGraph:
    """The graph of an iteration, at the paper's batch or another; kept for the next time."""
    batch = batch or CASES[name].batch
    path = CACHE / f"{name}-{batch}-{fingerprint()}.pickle"
    if not path.exists():
        if importlib.util.find_spec(CASES[name].library):
            keep(capture(name, batch), path)
        else:
            in_models_environment("--capture", name, "--batch", str(batch))
    return smex.SemanticGraph(pickle.loads(path.read_bytes()))


def capture(name: str, batch: int) -> CapturedGraph:
    """The records of an iteration on the meta device."""
    with torch.device("meta"):
        model, args, loss_fn = CASES[name].whole(batch)
    return smex.capture(model.train(), args, loss_fn=loss_fn)


def fingerprint() -> str:
    """Changes with this file, with capture and with torch."""
    package = pathlib.Path(smex.__file__).parent
    found = hashlib.sha256(torch.__version__.encode())
    for path in [pathlib.Path(__file__), *sorted((package / "capture").rglob("*.py"))]:
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


def operator(name: str, overload: str) -> torch._ops.OpOverload:
    """`aten::add`, `Tensor` → torch.ops.aten.add.Tensor."""
    namespace, packet = name.split("::")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


class Pickler(pickle.Pickler):
    """One that writes operators by their names."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, torch._ops.OpOverload):
            return operator, (value._schema.name, value._overloadname)
        return NotImplemented


def keep(graph: CapturedGraph, path: pathlib.Path) -> None:
    """Writes the file at once, so that no other process reads a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    with unfinished.open("wb") as file:
        Pickler(file, protocol=5).dump(graph)
    unfinished.rename(path)


def in_models_environment(*arguments: str) -> str:
    """What this script prints there."""
    python = environments.interpreter("models")
    if python is None:
        raise SystemExit("first: python benchmarks/peers/environments.py models")
    own = {**os.environ, "PYTHONPATH": str(pathlib.Path(smex.__file__).parents[1])}
    command = [str(python), __file__, *arguments]
    return subprocess.run(command, env=own, stdout=subprocess.PIPE, text=True, check=True).stdout


def operations(graph: smex.SemanticGraph) -> float:
    """Of an iteration: the seconds of one worker that does one each picosecond, and all else."""
    level = smex.Level(1, latency=0, bandwidth=1e18)
    machine = smex.Machine("operations", {"float32": 1e12}, 1e18, 0, 1e18, (level,))
    return 1e12 * smex.search(graph, 1, machine=machine).compute_seconds


def print_models(names: Sequence[str]) -> None:
    """Prints the table of graphs."""
    head(
        "batch", "parameters, M", "GiB", "calls forward", "backward", "with a Spec",
        "operations, TFLOP", "capture, s", *(f"{name}, s" for name in STRATEGIES),
    )  # fmt: skip
    for name in names:
        graph, case = captured(name), CASES[name]
        records = graph.captured
        parameters = records.with_role("parameter")
        sizes = [math.prod(value.shape) for value in parameters]
        held = sum(n * value.dtype.itemsize for n, value in zip(sizes, parameters))
        backward = sum(op.backward for op in records.ops)
        row(
            name,
            str(case.batch),
            f"{sum(sizes) / 1e6:.1f}",
            f"{held / 2**30:.2f}",
            str(len(records.ops) - backward),
            str(backward),
            f"{smex.Coverage(records).fraction:.0%}",
            f"{operations(graph) / 1e12:.2f}",
            f"{sum(records.timings.values()):.1f}",
            *(f"{seconds:.3f}" for seconds in case.seconds),
        )


def reduced(name: str) -> Training:
    """A small form in float64 and training mode, without dropout; the same numbers each time."""
    torch.manual_seed(0)
    model, args, loss_fn = CASES[name].small()
    doubled = (x.double() if x.is_floating_point() else x for x in args)
    return zoo.without_dropout(model).double().train(), tuple(doubled), loss_fn


Step = dict[str, torch.Tensor]
"""The loss, gradients and buffers of a step, by what they are."""


def whole_step(training: Training) -> Step:
    """A step of the model as it is."""
    model, args, loss_fn = training
    model = copy.deepcopy(model)
    loss = loss_fn(model(*args[:-1]), args[-1])
    loss.backward()
    found = {f"gradient of {name}": x.grad for name, x in model.named_parameters()}
    kept = model.state_dict()
    found |= {f"buffer {name}": kept[name] for name, _ in model.named_buffers() if name in kept}
    return {"loss": loss.detach()} | {key: x for key, x in found.items() if x is not None}


def divided_step(training: Training, planner: str, workers: int) -> Step:
    """A step over workers."""
    model, args, loss_fn = training
    net = smex.partition(
        copy.deepcopy(model), workers=workers, loss_fn=loss_fn, planner=planner, replicate_bytes=0
    )
    loss = net(*args)
    loss.backward()
    found = {f"gradient of {name}": x for name, x in net.full_grads().items()}
    found |= {f"buffer {name}": x for name, x in net.state_dict().items()}
    return {"loss": loss.detach()} | found


def scales(whole: Step) -> dict[str, tuple[torch.Tensor, bool]]:
    """By tensor what its error is relative to, and whether it is zero but for rounding."""
    own = {key: x.abs().max() for key, x in whole.items()}
    found = {}
    for key, size in own.items():
        kind = key.split()[0]
        largest = max(size for other, size in own.items() if other.split()[0] == kind)
        is_zero = bool(size <= ZERO * largest)
        found[key] = largest if is_zero else size, is_zero
    return found


def largest_error(whole: Step, found: Step) -> tuple[float, str]:
    """Over all tensors, and of which it is."""
    errors = []
    for key, (scale, _) in scales(whole).items():
        if found[key].shape != whole[key].shape:
            raise ValueError(
                f"{key}: expected {list(whole[key].shape)}, found {list(found[key].shape)}"
            )
        difference = (found[key] - whole[key]).abs().max()
        errors.append((float(difference / scale) if difference else 0.0, key))
    # Not a number is the largest error of all.
    return max(errors, key=lambda each: (each[0] != each[0], each[0]))


def check(name: str) -> dict[str, Any]:
    """The errors of a reduced model by planner and workers."""
    training = reduced(name)
    whole = whole_step(training)
    errors = {
        f"{planner}, {workers}": largest_error(whole, divided_step(training, planner, workers))
        for planner in PLANNERS
        for workers in WORKERS
    }
    zeros = sum(is_zero for _, is_zero in scales(whole).values())
    return {"tensors": len(whole), "zeros": zeros, "errors": errors}


def print_reduced(names: Sequence[str]) -> bool:
    """Prints the table of errors; returns whether all are within the tolerance."""
    columns = [f"{planner}, {workers}" for planner in PLANNERS for workers in WORKERS]
    head("tensors", "zero", *columns, "s")
    beyond = []
    for name in names:
        started = time.perf_counter()
        result = json.loads(in_models_environment("--check", name).splitlines()[-1])
        took = time.perf_counter() - started
        cells = [f"{result['errors'][column][0]:.0e}" for column in columns]
        row(name, str(result["tensors"]), str(result["zeros"]), *cells, f"{took:.0f}")
        for column, (error, key) in result["errors"].items():
            if not error <= TOLERANCE:
                beyond.append(f"{name}, {column}: {key}: {error:.1e}")
    print(*beyond, sep="\n")
    return not beyond


def main() -> int:
    """Prints a table; exit status 1 where a reduced model differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}; all")
    parser.add_argument("--reduced", action="store_true", help="errors of divided small models")
    parser.add_argument("--capture", metavar="NAME", help="keep its graph, and nothing else")
    parser.add_argument("--batch", type=int, help="of --capture")
    parser.add_argument("--check", metavar="NAME", help="errors of one model, as JSON")
    options = parser.parse_args()
    unknown = sorted({*options.names} - {*CASES})
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(CASES)}")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    names = options.names or list(CASES)
    if options.capture:
        captured(options.capture, options.batch)
    elif options.check:
        print(json.dumps(check(options.check)))
    elif options.reduced:
        return int(not print_reduced(names))
    else:
        print_models(names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
