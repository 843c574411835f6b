"""Random models, partitioned with every tensor cut, against themselves in float64."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch

import smex
from support.random_models import Generator, build, tensor

WORKERS = (2, 3, 4, 6, 8)
CHUNKS, PER_CHUNK = 30, 10


def close(actual, expected, what, rtol=1e-10):
    if actual is None and expected is None:
        return
    actual = torch.zeros_like(expected) if actual is None else actual
    expected = torch.zeros_like(actual) if expected is None else expected
    scale = expected.abs().max().item() if expected.numel() else 0.0
    torch.testing.assert_close(
        actual, expected, rtol=rtol, atol=rtol * max(scale, 1e-3), msg=lambda m: f"{what}: {m}"
    )


def scalar(outputs):
    """One number that depends on every output element differently."""
    return sum(
        (output * tensor(seed, *output.shape)).sum()
        for seed, output in enumerate(outputs)
        if output.is_floating_point()
    )


def compare(source, workers, input_grads):
    """Runs one iteration of the model and of its partition."""
    model, args = build(source)
    reference = copy.deepcopy(model)
    ours = [x.clone().requires_grad_(input_grads and x.is_floating_point()) for x in args]
    theirs = [x.clone().requires_grad_(input_grads and x.is_floating_point()) for x in args]
    net = smex.partition(model, workers=workers, replicate_bytes=0)
    expected = reference(*theirs)
    outputs = net(*ours)
    assert len(outputs) == len(expected)
    for position, (output, other) in enumerate(zip(outputs, expected)):
        close(output, other, f"output {position}")
    if any(output.requires_grad for output in expected):
        scalar(outputs).backward()
        scalar(expected).backward()
    grads = net.full_grads()
    for name, parameter in reference.named_parameters():
        close(grads.get(name), parameter.grad, f"gradient of {name}")
    for position, (x, other) in enumerate(zip(ours, theirs)):
        close(x.grad, other.grad, f"gradient of input {position}")
    state = net.state_dict()
    for name, value in reference.state_dict().items():
        close(state[name], value, name)
    stats = net.stats()
    assert stats["bytes_moved"] == stats["predicted_bytes_moved"]


@pytest.mark.costly(cases=8)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_graphs_equal_the_model(chunk, caplog):
    caplog.set_level("INFO", logger="torch.__trace")  # thousands of empty lines otherwise
    for seed in range(chunk * PER_CHUNK, (chunk + 1) * PER_CHUNK):
        source = Generator(seed).source()
        workers = WORKERS[seed % len(WORKERS)]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", smex.MissingSpecWarning)
                compare(source, workers, input_grads=seed % 3 == 0)
        except Exception as error:
            text = f"seed {seed}, {workers} workers: {error!r}\n{source}"
            pytest.fail(text, pytrace=False)
