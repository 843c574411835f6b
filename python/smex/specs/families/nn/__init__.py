"""Activations, windows, normalizations, attention, look-ups, distances and losses."""

from smex.specs.families.nn import (
    activation,
    attention,
    batch_norm,
    cells,
    class_loss,
    convolution,
    distance,
    embedding,
    loss,
    normalization,
    padding,
    pooling,
    resampling,
)

__all__ = [
    "activation",
    "attention",
    "batch_norm",
    "cells",
    "class_loss",
    "convolution",
    "distance",
    "embedding",
    "loss",
    "normalization",
    "padding",
    "pooling",
    "resampling",
]
