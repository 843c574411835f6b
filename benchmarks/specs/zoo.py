"""Models of other people, small and with random weights: what `models.py` partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Case = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]
"""A model with its arguments."""

BATCH = 4
WORDS = 13
"""Length of a sentence; no multiple of the number of workers."""


def images(size: int, channels: int = 3) -> torch.Tensor:
    """A batch of square images."""
    return torch.randn(BATCH, channels, size, size, dtype=torch.float64)


def tokens(vocabulary: int = 99, length: int = WORDS) -> torch.Tensor:
    """A batch of sentences; no padding token."""
    return torch.randint(3, vocabulary, (BATCH, length))


def without_dropout(model: torch.nn.Module) -> torch.nn.Module:
    """Training without chance, so that two runs can be compared."""
    for module in model.modules():
        kind = type(module).__name__.lower()
        is_dropout = "drop" in kind or "stochastic" in kind
        for name, value in vars(module).items():
            if isinstance(value, float) and ("drop" in name or (is_dropout and name == "p")):
                setattr(module, name, 0.0)
    return model


def torchvision(name: str, size: int = 64, **options: Any) -> Callable[[], Case]:
    """A model of torchvision on images."""

    def make() -> Case:
        from torchvision.models import get_model

        options.setdefault("num_classes", 10)
        return get_model(name, weights=None, **options), (images(size),), {}

    return make


def video(name: str) -> Callable[[], Case]:
    """A model of torchvision on films of 4 frames."""

    def make() -> Case:
        from torchvision.models import get_model

        frames = torch.randn(BATCH, 3, 4, 32, 32, dtype=torch.float64)
        return get_model(name, weights=None, num_classes=10), (frames,), {}

    return make


def segmentation(name: str) -> Callable[[], Case]:
    """A model of torchvision that labels every pixel."""
    return torchvision(name, size=65, weights_backbone=None)


def timm(name: str, size: int = 64, call_first: bool = False, **options: Any) -> Callable[[], Case]:
    """A model of timm on images; `call_first` where it makes some buffers when it is called."""

    def make() -> Case:
        from timm import create_model

        options.setdefault("num_classes", 10)
        model = create_model(name, pretrained=False, **options)
        if call_first:
            model(images(size).float())
        return model, (images(size),), {}

    return make


SMALL = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
BERT = {**SMALL, "intermediate_size": 37, "max_position_embeddings": 64}
LLAMA = {**BERT, "num_key_value_heads": 2, "use_cache": False}


def transformers(
    name: str, inputs: Callable[[], dict[str, Any]] | None = None, **options: Any
) -> Callable[[], Case]:
    """A model of transformers, by its class; `options` are those of its configuration."""

    def make() -> Case:
        import transformers as library

        cls = getattr(library, name)
        model = cls(cls.config_class(**options))
        return model, (), inputs() if inputs else {"input_ids": tokens()}

    return make


def two_sentences() -> dict[str, Any]:
    """What encoders with decoders read."""
    return {"input_ids": tokens(), "decoder_input_ids": tokens(length=7), "use_cache": False}


def masked() -> dict[str, Any]:
    """Sentences of different lengths."""
    lengths = torch.tensor([13, 9, 5, 2])
    return {
        "input_ids": tokens(),
        "attention_mask": (torch.arange(WORDS) < lengths[:, None]).long(),
    }


def without_cache() -> dict[str, Any]:
    """Sentences for a decoder that would keep keys and values."""
    return {"input_ids": tokens(), "use_cache": False}


TEXT = {**BERT, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
VISION = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37,
    "image_size": 32, "patch_size": 8,
}  # fmt: skip


def image_and_text() -> dict[str, Any]:
    """What models of both read."""
    return {"input_ids": tokens(), "pixel_values": images(32)}


MODELS: dict[str, Callable[[], Case]] = {
    # torchvision
    "alexnet": torchvision("alexnet"),
    "vgg11_bn": torchvision("vgg11_bn", size=32),
    "resnet18": torchvision("resnet18"),
    "resnext50_32x4d": torchvision("resnext50_32x4d"),
    "densenet121": torchvision("densenet121"),
    "googlenet": torchvision("googlenet", init_weights=False),
    "inception_v3": torchvision(
        "inception_v3", size=80, aux_logits=False, init_weights=False
    ),
    "mobilenet_v3_small": torchvision("mobilenet_v3_small"),
    "shufflenet_v2_x0_5": torchvision("shufflenet_v2_x0_5"),
    "squeezenet1_0": torchvision("squeezenet1_0"),
    "efficientnet_b0": torchvision("efficientnet_b0"),
    "regnet_y_400mf": torchvision("regnet_y_400mf"),
    "convnext_tiny": torchvision("convnext_tiny"),
    "swin_t": torchvision("swin_t"),
    "swin_v2_t": torchvision("swin_v2_t"),
    "vit_b_32": torchvision("vit_b_32", image_size=64),
    "lraspp_mobilenet_v3_large": segmentation("lraspp_mobilenet_v3_large"),
    "deeplabv3_mobilenet_v3_large": segmentation("deeplabv3_mobilenet_v3_large"),
    "r3d_18": video("r3d_18"),
    # timm
    "mixer_s32_224": timm("mixer_s32_224", img_size=64),
    "cait_xxs24_224": timm("cait_xxs24_224", img_size=64, depth=4),
    "beit_base_patch16_224": timm(
        "beit_base_patch16_224", img_size=64, depth=2, embed_dim=48, num_heads=4
    ),
    "poolformer_s12": timm("poolformer_s12"),
    "xcit_nano_12_p16_224": timm("xcit_nano_12_p16_224", img_size=64, depth=2),
    "mobilevit_xxs": timm("mobilevit_xxs"),
    "hrnet_w18_small": timm("hrnet_w18_small"),
    "res2net50_14w_8s": timm("res2net50_14w_8s"),
    "nfnet_l0": timm("nfnet_l0"),
    "volo_d1_224": timm("volo_d1_224", img_size=64),
    "convit_tiny": timm("convit_tiny", img_size=64, call_first=True),
    "repvgg_a0": timm("repvgg_a0"),
    "edgenext_xx_small": timm("edgenext_xx_small"),
    "levit_128s": timm("levit_128s", img_size=64),
    "eva02_tiny_patch14_224": timm("eva02_tiny_patch14_224", size=56, img_size=56, depth=2),
    "coatnet_nano_rw_224": timm("coatnet_nano_rw_224", img_size=64),
    "vit_tiny_patch16_224": timm("vit_tiny_patch16_224", img_size=64, depth=4),
    "deit3_small_patch16_224": timm("deit3_small_patch16_224", img_size=64, depth=2),
    "gmlp_s16_224": timm("gmlp_s16_224", img_size=64),
    "resmlp_12_224": timm("resmlp_12_224", img_size=64),
    "visformer_tiny": timm("visformer_tiny", img_size=64),
    "ghostnet_050": timm("ghostnet_050"),
    "tinynet_e": timm("tinynet_e"),
    # transformers
    "BertForSequenceClassification": transformers(
        "BertForSequenceClassification", masked, **BERT, num_labels=3
    ),
    "DistilBertModel": transformers(
        "DistilBertModel", vocab_size=99, dim=32, hidden_dim=37, n_layers=2, n_heads=4
    ),
    "AlbertModel": transformers("AlbertModel", **BERT, embedding_size=24),
    "GPT2LMHeadModel": transformers(
        "GPT2LMHeadModel", without_cache, vocab_size=99, n_embd=32, n_layer=2, n_head=4
    ),
    "OPTForCausalLM": transformers(
        "OPTForCausalLM", without_cache, **SMALL, ffn_dim=37, word_embed_proj_dim=32,
        max_position_embeddings=64,
    ),
    "BloomForCausalLM": transformers(
        "BloomForCausalLM", without_cache, vocab_size=99, hidden_size=32, n_layer=2, n_head=4
    ),
    "T5ForConditionalGeneration": transformers(
        "T5ForConditionalGeneration", two_sentences, vocab_size=99, d_model=32, d_kv=8, d_ff=37,
        num_layers=2, num_heads=4,
    ),
    "BartModel": transformers(
        "BartModel", two_sentences, vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=37,
        decoder_ffn_dim=37, max_position_embeddings=64,
    ),
    "LlamaForCausalLM": transformers("LlamaForCausalLM", **LLAMA),
    "Qwen2ForCausalLM": transformers("Qwen2ForCausalLM", **LLAMA),
    "MistralForCausalLM": transformers("MistralForCausalLM", **LLAMA),
    "GemmaForCausalLM": transformers("GemmaForCausalLM", **LLAMA, head_dim=8),
    "GPTNeoXForCausalLM": transformers("GPTNeoXForCausalLM", without_cache, **BERT),
    "PhiForCausalLM": transformers("PhiForCausalLM", without_cache, **BERT),
    "RobertaModel": transformers("RobertaModel", masked, **BERT),
    "ElectraModel": transformers("ElectraModel", masked, **BERT, embedding_size=24),
    "DebertaV2Model": transformers("DebertaV2Model", masked, **BERT),
    "WhisperModel": transformers(
        "WhisperModel",
        lambda: {
            "input_features": torch.randn(BATCH, 16, 26, dtype=torch.float64),
            "decoder_input_ids": tokens(length=7), "use_cache": False,
        },
        vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37, num_mel_bins=16,
        max_source_positions=13, max_target_positions=20, pad_token_id=1,
    ),
    "CLIPModel": transformers(
        "CLIPModel", image_and_text, text_config=TEXT, vision_config=VISION, projection_dim=16
    ),
    "BlipModel": transformers(
        "BlipModel", image_and_text, text_config={**TEXT, "encoder_hidden_size": 32},
        vision_config=VISION, projection_dim=16,
    ),
    "SwinModel": transformers(
        "SwinModel", lambda: {"pixel_values": images(32)},
        image_size=32, patch_size=2, embed_dim=16, depths=[1, 2], num_heads=[2, 4], window_size=4,
    ),
    "FNetModel": transformers("FNetModel", **SMALL, intermediate_size=37),
    "Wav2Vec2Model": transformers(
        "Wav2Vec2Model",
        lambda: {"input_values": torch.randn(BATCH, 2000, dtype=torch.float64)},
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37,
        conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3),
        num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2,
        layerdrop=0.0, mask_time_prob=0.0, apply_spec_augment=False,
    ),
    "ViTForImageClassification": transformers(
        "ViTForImageClassification", lambda: {"pixel_values": images(32)},
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37,
        image_size=32, patch_size=8, num_labels=10,
    ),
    "SegformerForSemanticSegmentation": transformers(
        "SegformerForSemanticSegmentation", lambda: {"pixel_values": images(64)},
        hidden_sizes=[16, 16, 32, 32], num_attention_heads=[1, 2, 2, 4], depths=[1, 1, 1, 1],
        decoder_hidden_size=16, num_labels=10,
    ),
}  # fmt: skip
"""What makes each model and its arguments, by name."""
