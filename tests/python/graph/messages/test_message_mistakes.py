"""Mistakes in message passing, and the names that their errors give."""

import pytest
import torch

import smex
import smex.graph as sg
import smex.graph.function as fn
from support.message_functions import small, two_ways, unfused

ADD = fn.sum("m", "o")


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda g: g.update_all(fn.copy_u("x", "m"), fn.sum("m", "o")),
            KeyError,
            'feature "x" is not set for source nodes; .* there are: "h"',
        ),
        (
            lambda g: g.update_all(fn.copy_u("h", "m"), fn.sum("n", "o")),
            ValueError,
            r"sum\('n', 'o'\) reads \"n\", but copy_u\('h', 'm'\) sends \"m\"",
        ),
        (
            lambda g: g.update_all(lambda e: {"m": e.src["h"]}, fn.sum("n", "o")),
            ValueError,
            'reads "n", which the message function does not send; it sends "m"',
        ),
        (
            lambda g: g.update_all(3, fn.sum("m", "o")),
            TypeError,
            "message function: expected a built-in message function or a callable, found 3",
        ),
        (
            lambda g: g.update_all(fn.copy_u("h", "m"), fn.copy_u("m", "o")),
            TypeError,
            "reduce function: expected a built-in reduce function",
        ),
        (
            lambda g: g.update_all(lambda e: e.src["h"], fn.sum("m", "o")),
            TypeError,
            r"message function: expected a dict .* found torch.float32 \[5, 2\]",
        ),
        (
            lambda g: g.update_all(lambda e: {"m": e.src["h"][:1]}, fn.sum("m", "o")),
            ValueError,
            'feature "m" from the message function: expected 5 rows, one for each edge, found',
        ),
        (
            lambda g: g.update_all(fn.copy_u("h", "m"), lambda n: None),
            TypeError,
            "reduce function: expected a dict from names to tensors as its result, found NoneType",
        ),
        (
            lambda g: g.apply_edges(fn.sum("h", "m")),
            TypeError,
            "message function: expected a built",
        ),
        (lambda g: g.group_apply_edges("u", None), ValueError, "group_by must be 'src' or 'dst'"),
        (lambda g: g.multi_update_all({}, "prod"), ValueError, "unknown cross reducer 'prod'"),
        (
            lambda g: g.multi_update_all({"_E": (fn.copy_u("h", "m"),)}, "sum"),
            TypeError,
            r"multi_update_all: expected \(message, reduce\)",
        ),
        (
            lambda g: g.pull([9], fn.copy_u("h", "m"), fn.sum("m", "o")),
            ValueError,
            "pull: .* found 9",
        ),
    ],
)
def test_mistakes(call, kind, text):
    g = small()
    with pytest.raises(smex.SmexError, match=text) as caught:
        call(g)
    assert isinstance(caught.value, kind)
    assert list(g.ndata) == ["h"] and list(g.edata) == ["w"]


@pytest.mark.parametrize("keep", [unfused, lambda function: function])
@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda g, keep: g.update_all(
                fn.copy_u("h", "m"), keep(lambda n: {"o": n.mailbox["zz"].sum(1)})
            ),
            '^message "zz" is not in the mailbox; the message function sends: "m"$',
        ),
        (
            lambda g, keep: g.update_all(keep(lambda e: {"m": e.src["zz"]}), ADD),
            'feature "zz" is not set for source nodes; .* there are: "h"',
        ),
        (
            lambda g, keep: g.update_all(keep(lambda e: {"m": e.dst["zz"]}), ADD),
            'feature "zz" is not set for destination nodes; .* there are: "h"',
        ),
        (
            lambda g, keep: g.apply_edges(keep(lambda e: {"m": e.data["zz"]})),
            'feature "zz" is not set for edges; .* there are: "w"',
        ),
        (
            lambda g, keep: g.apply_nodes(keep(lambda n: {"m": n.data["zz"]})),
            'feature "zz" is not set for nodes; .* there are: "h"',
        ),
        (
            lambda g, keep: g.group_apply_edges("dst", keep(lambda e: {"m": e.src["zz"]})),
            'feature "zz" is not set for source nodes; .* there are: "h"',
        ),
        (
            lambda g, keep: g.filter_edges(keep(lambda e: e.dst["zz"] > 0)),
            'feature "zz" is not set for destination nodes; .* there are: "h"',
        ),
    ],
)
def test_names_that_functions_mistake(call, text, keep):
    with pytest.raises(KeyError, match=text) as caught:
        call(small(), keep)
    assert isinstance(caught.value, smex.SmexValueError)


def test_errors_name_types_and_ends():
    g = two_ways()
    for function in (fn.copy_u("f", "m"), lambda e: {"m": e.src["f"]}):
        with pytest.raises(KeyError, match='is not set for source nodes of type "user"; .* "h"'):
            g.update_all(function, ADD, etype="plays")
    with pytest.raises(KeyError, match=r"is not set for edges of type \('user', 'plays', 'game'\)"):
        g.update_all(fn.u_mul_e("h", "f", "m"), ADD, etype="plays")
    with pytest.raises(KeyError, match='is not set for destination nodes of type "game"'):
        g.apply_edges(fn.u_mul_v("h", "f", "m"), etype="plays")
    with pytest.raises(KeyError, match='"f" is not set for nodes of type "user"'):
        g.nodes["user"].data["f"]
    with pytest.raises(
        smex.SmexValueError, match='3 rows, one for each node of type "user", found'
    ):
        g.nodes["user"].data["f"] = torch.ones(4)
    with pytest.raises(smex.SmexValueError, match="one for each edge of type .'dev', 'makes'"):
        g.edges["makes"].data["f"] = torch.ones(4)
    with pytest.raises(smex.SmexValueError, match='1 row, one for each selected node of type "us'):
        g.nodes[[0], "user"].data["f"] = torch.ones(4)
    block = sg.create_block(([0, 1], [0, 0]))
    with pytest.raises(KeyError, match="is not set for destination nodes; "):
        block.dstdata["f"]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda g: g.update_all(
                fn.copy_u("h", "m"), lambda n: {"o": n.mailbox["m"].sort(1)[0][:1]}
            ),
            ValueError,
            r'"o" from the reduce function: expected 2 rows, one for each node with 1 message, f',
        ),
        (
            lambda g: g.update_all(fn.copy_u("h", "m"), lambda n: {"o": n.mailbox["m"].sum(2)}),
            ValueError,
            r'found "o" torch.float32 \[1\] for 1 message and "o" torch.float32 \[3\] for 3 messages; '
            r"results are \[nodes, ...\]: reduce over dimension 1",
        ),
        (
            lambda g: g.group_apply_edges("dst", lambda e: {"q": e.data["w"].sum(1)}),
            ValueError,
            r'"q" from the group function: expected \[2, 1, ...\], .* found shape \[2\]',
        ),
        (
            lambda g: g.apply_edges(lambda e: {"q": None}),
            TypeError,
            '"q" from the message function: expected a tensor, found NoneType; leave it out',
        ),
        (
            lambda g: g.apply_nodes(lambda n: {"q": torch.eye(4).to_sparse()}),
            TypeError,
            "expected a dense tensor of numbers, found torch.sparse_coo; convert it with .to_dense",
        ),
        (
            lambda g: g.update_all(fn.copy_u("b", "m"), ADD),
            TypeError,
            'integers too for sum.* found torch.bool; .*; u0 is feature "b" of source nodes$',
        ),
        (
            lambda g: g.update_all(lambda e: {"m": e.src["b"]}, ADD),
            TypeError,
            'found torch.bool; convert them first; e0 is message "m"$',
        ),
        (
            lambda g: g.update_all(fn.u_mul_e("h", "b", "m"), ADD),
            TypeError,
            'one dtype, .*; u0 is feature "h" of source nodes, e1 is feature "b" of edges$',
        ),
        (
            lambda g: g.apply_edges(fn.v_dot_u("h", "h3", "k")),
            ValueError,
            'found 2 and 3; v0 is feature "h" of destination nodes, u1 is feature "h3" of source',
        ),
        (
            lambda g: g.multi_update_all({"_E": (lambda e: 1,)}, "sum"),
            TypeError,
            r"found \(<lambda>.<locals>.<lambda> \(line \d+\)\)$",
        ),
    ],
)
def test_mistakes_name_features_and_functions(call, kind, text):
    g = small()
    g.ndata["b"], g.edata["b"] = torch.ones(4, dtype=torch.bool), torch.ones(5, dtype=torch.bool)
    g.ndata["h3"] = torch.ones(4, 3)
    with pytest.raises(smex.SmexError, match=text) as caught:
        call(g)
    assert isinstance(caught.value, kind)


def test_errors_of_operators_name_features():
    g = small()
    g.ndata["h3"] = torch.ones(4, 3)
    for call in (
        lambda: g.update_all(fn.u_mul_v("h", "h3", "m"), ADD),
        lambda: g.apply_edges(fn.u_mul_v("h", "h3", "m")),
    ):
        with pytest.raises(
            ValueError, match=r'\[2\] and \[3\] .*; u0 is feature "h" of source nod'
        ):
            call()


def test_relations_whose_results_differ_are_named():
    g = two_ways()
    g.nodes["dev"].data["h"] = torch.ones(2, 4)
    pair = (fn.copy_u("h", "m"), ADD)
    text = r'"o" of one shape .* \[4, 1\] from .*plays.* \[4, 4\] from .*makes'
    for cross in ("sum", "max", "mean"):
        with pytest.raises(smex.SmexValueError, match=text):
            g.multi_update_all({"plays": pair, "makes": pair}, cross)
    with pytest.raises(smex.SmexValueError, match="from .*makes.* from .*plays"):
        g.multi_update_all({"plays": pair, "makes": pair}, "stack")
    with pytest.raises(RuntimeError, match="mine"):  # a function's errors are its own
        g.multi_update_all({"plays": pair, "makes": pair}, fails)


def fails(parts):
    raise RuntimeError("mine")


@pytest.mark.parametrize("name", ["h", 3])
def test_features_must_be_dense(name):
    g = small()
    other = torch.ones(4, 2)
    with pytest.raises(smex.SmexTypeError, match="found torch.sparse_coo; .* .to_dense"):
        g.ndata[name] = other.to_sparse()
    with pytest.raises(smex.SmexTypeError, match="expected a dense tensor"):
        g.nodes[[0, 1, 2, 3]].data[name] = other.to_sparse()
    with pytest.raises(smex.SmexTypeError, match="expected a dense tensor"):
        g.add_nodes(4, {name: other.to_sparse()})
    with pytest.raises(smex.SmexTypeError, match="expected a dense tensor"):
        two_ways().ndata[name] = {"game": other.to_sparse()}
    g.ndata[name] = other
    assert g.ndata[name] is other


@pytest.mark.filterwarnings("ignore:.*quantize_per_tensor")
def test_features_must_not_be_quantised():
    found = torch.quantize_per_tensor(torch.ones(4, 2), 1.0, 0, torch.qint8)
    with pytest.raises(smex.SmexTypeError, match="found torch.qint8; .* .dequantize"):
        small().ndata["q"] = found


def test_former_names_of_arguments():
    assert repr(fn.copy_e(edge="w", out="m")) == repr(fn.copy_e(e="w", out="m"))
    assert repr(fn.copy_src(src="h", out="m")) == repr(fn.copy_u("h", "m"))
    for wrong in ({}, {"e": "w"}, {"e": "w", "edge": "w", "out": "m"}):
        with pytest.raises(smex.SmexTypeError, match="copy_e: expected the name of a feature"):
            fn.copy_e(**wrong)
