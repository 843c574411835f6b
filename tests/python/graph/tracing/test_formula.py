"""Formulas as data, and their text."""

import pytest
import torch

import smex.graph.function as fn
from smex.formula import OPERATIONS, Message, Term
from smex.graph.ops.formula_values import FUNCTIONS, evaluate
from smex.graph.tracing.explanation import builtin_name

TEXTS = [
    "u0",
    "u0 * e1",
    "u0 - (v1 - e2)",
    "u0 / (v1 / e2)",
    "(u0 + v1) * c2",
    "-(u0 + v1)",
    "dot(u0, v1) * e2",
    "sum_last(u0 + v1)",
    "leaky_relu(u0 + v1, 0.2)",
    "pow(u0, -1.5)",
    "softplus(u0)",
    "maximum(u0, 0) - minimum(v1, 0.5)",
    "part(less(u0, v1), 1) + part(1 - less(u0, v1), e2)",
    "straight_through(u0, slope(e1, v2))",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_becomes_data_and_the_data_its_text(text):
    message = Message.parse(text)
    again = Message.parse(message.text)
    assert again.text == message.text
    assert (again.term, again.letters) == (message.term, message.letters)


def test_what_a_text_says():
    message = Message.parse("2 * u0 + exp(e1)")
    assert message.letters == ("u", "e")
    assert message.term.op == "+"
    twice, power = message.term.args
    assert twice == Term("*", (Term("number", (2.0,)), Term("leaf", (("u", 0),))))
    assert power == Term("exp", (Term("leaf", (("e", 1),)),))


def test_texts_that_are_wrong():
    with pytest.raises(ValueError, match='message "u0 \\+": expected an operand'):
        Message.parse("u0 +")


def test_messages_of_built_in_functions():
    assert fn.copy_e("w", "m").text == "e0"
    assert fn.u_sub_v("a", "b", "m").text == "u0 - v1"
    assert fn.e_dot_v("a", "b", "m").text == "dot(e0, v1)"
    assert fn.e_dot_v("a", "b", "m").message.term.op == "dot"
    assert fn.e_dot_v("a", "b", "m").message.letters == ("e", "v")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("u0", "copy_u"),
        ("v0", "copy_v"),
        ("u0 * e1", "u_mul_e"),
        ("e0 / v1", "e_div_v"),
        ("dot(u0, v1)", "u_dot_v"),
        ("u0 * u1", None),
        ("u0 * u0", None),
        ("c0", None),
        ("u0 * c1", None),
        ("u0 * e1 * e2", None),
        ("u0 * 2", None),
        ("exp(u0)", None),
    ],
)
def test_built_in_functions_of_messages(text, name):
    message = Message.parse(text)
    if text == "dot(u0, v1)":  # which the library reads as a sum of products
        message = Message.of("dot", "u", "v")
    assert builtin_name(message) == name


UNARY = [op for op, known in OPERATIONS.items() if known.torch and known.arguments == 1]


@pytest.mark.parametrize("op", UNARY)
def test_torch_has_the_functions_that_the_table_names(op):
    x = torch.tensor([0.5, 2.0])
    known = OPERATIONS[op]
    assert torch.equal(FUNCTIONS[op](x), getattr(torch.ops.aten, known.torch)(x))


def test_evaluation_takes_numbers_where_formulas_do():
    values = {0: torch.tensor([1.0, 4.0]), 1: torch.tensor([2.0, 2.0])}

    def value(text):
        return evaluate(Message.parse(text).term, lambda operand: values[operand.number]).tolist()

    assert value("2 - u0 * v1") == [0.0, -6.0]
    assert value("maximum(u0, 3)") == [3.0, 4.0]
    assert value("less(2, u0)") == [0.0, 1.0]
    assert value("equal(u0, 1) + pow(v1, 3)") == [9.0, 8.0]
    assert value("dot(u0, v1)") == [10.0]
    assert value("select(less(u0, v1), u0)") == [1.0, 0.0]
