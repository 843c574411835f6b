"""The models of HeteroG's Table 1, their batches and seconds, and small forms of the same parts.

`models.py` captures the models and divides the small forms; what they are is said there.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

sys.path.append(str(pathlib.Path(__file__).parents[1] / "specs"))  # last: it has models.py too

import zoo

CLASSES = 1000

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
