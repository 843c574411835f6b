"""Which implementations the operators of csrc/kernels have: the dispatcher chooses the device."""

import pytest
import torch

import smex  # noqa: F401

ON_MESSAGES = [
    "attention",
    "edge_softmax",
    "gat_attention",
    "sddmm",
    "spmm",
    "spmm_extremum",
]
BY_TYPE = ["gather_mm", "typed_outer", "typed_sddmm", "typed_spmm"]
DIFFERENTIABLE = [*ON_MESSAGES, "edge_softmax_backward", "gather_winners", "scatter_winners"]
WITH_KERNELS_ON_CUDA = [
    *(name for name in DIFFERENTIABLE if name != "gat_attention"),
    "add_rows",
    "dropout_mask",
    "pointwise",
    "pointwise_into",
    "scaled_dot_product",
    "scaled_dot_product_backward",
    "tree_lstm",
    "tree_lstm_backward",
    "tree_lstm_backward_into",
    "tree_lstm_into",
    "uniform",
]
GRAPH_ATTENTION = [
    "gat_attention",
    "gat_attention_backward",
    "gat_gradient_by_destination",
    "gat_gradient_by_source",
]
FOR_ANY_DEVICE = [
    *BY_TYPE,
    *GRAPH_ATTENTION,
    "gather_outer",
    "add_rows",
    "bounded",
    "centered_square_sum",
    "channel_combine",
    "channel_sums",
    "class_index",
    "gru_layer",
    "gru_layer_backward",
    "lstm_layer",
    "lstm_layer_backward",
    "max_pool2d_backward",
    "pointwise",
    "pointwise_into",
    "recurrent_gradient",
    "recurrent_product",
    "rnn_layer",
    "rnn_layer_backward",
    "row_gradient",
    "row_gradient_sums",
    "row_mean",
    "row_normalize",
    "row_squares",
    "scatter_sum",
    "tree_lstm",
    "tree_lstm_backward",
    "tree_lstm_backward_into",
    "tree_lstm_into",
]
ALL = sorted({*WITH_KERNELS_ON_CUDA, *FOR_ANY_DEVICE})


def has_kernel(name, key):
    return torch._C._dispatch_has_kernel_for_dispatch_key(f"smex::{name}", key)


@pytest.mark.parametrize("name", ALL)
def test_the_cpu_and_shapes(name):
    assert has_kernel(name, "CPU") or name in ("bounded", "gather_outer", *BY_TYPE)
    assert has_kernel(name, "Meta")


@pytest.mark.parametrize("name", FOR_ANY_DEVICE)
def test_calls_of_torch_for_any_device(name):
    assert has_kernel(name, "CompositeExplicitAutograd")


@pytest.mark.parametrize("name", [*ON_MESSAGES, *BY_TYPE])
def test_autocast(name):
    assert has_kernel(name, "AutocastCPU") and has_kernel(name, "AutocastCUDA")


@pytest.mark.parametrize("name", [*DIFFERENTIABLE, *BY_TYPE, "dropout_mask", "uniform"])
def test_gradients(name):
    assert has_kernel(name, "Autograd")


@pytest.mark.skipif(not has_kernel("spmm", "CUDA"), reason="built without CUDA kernels")
def test_cuda():
    found = {name for name in ALL if has_kernel(name, "CUDA")}
    assert found == set(WITH_KERNELS_ON_CUDA)
    # Of calls that have gradients themselves.
    assert has_kernel("gat_attention", "AutogradCUDA")
