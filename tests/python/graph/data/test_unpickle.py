"""Pickles from elsewhere: what they may hold is read, anything else is refused and never run."""

import collections
import io
import os
import pickle
import subprocess

import numpy as np
import pytest
import torch

import smex
import smex.graph as sg


def read(data, protocol=2):
    return sg.data.load_pickle(io.BytesIO(pickle.dumps(data, protocol)))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL))
def test_what_data_consists_of(protocol):
    data = {"a": [1, 2.5, None, True], "b": ("x", b"\xff\x00"), 3: {4, 5}}
    assert read(data, protocol) == data
    neighbours = collections.defaultdict(list, {0: [1, 2]})
    assert read(neighbours, protocol) == neighbours
    for array in (np.arange(6.0).reshape(2, 3), np.array([[1, 0]], np.int32), np.float32(3)):
        found = read(array, protocol)
        assert found.dtype == array.dtype and np.array_equal(found, array)


def test_tensors():
    for tensor in (torch.rand(3, 4), torch.arange(6).view(2, 3).T, torch.zeros(0, 2)):
        found = read(tensor)
        assert found.dtype == tensor.dtype and torch.equal(found, tensor)


def test_entries():
    sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    matrix = sparse.random(5, 4, 0.4, rng=0, format="coo")
    found = read(sparse.coo_matrix(matrix))
    assert isinstance(found, sg.data.Coordinates) and found.shape == (5, 4)
    row, column = found.ends
    assert row.tolist() == matrix.row.tolist() and column.tolist() == matrix.col.tolist()
    assert found.data.tolist() == matrix.data.tolist()


@pytest.mark.parametrize("kind", ["csr_matrix"])
def test_matrices(kind):
    sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    matrix = getattr(sparse, kind)(sparse.random(5, 4, 0.4, rng=0))
    found = read(matrix)
    assert isinstance(found, sg.data.CompressedRows) and found.shape == (5, 4)
    assert np.array_equal(found.to_dense().numpy(), matrix.toarray())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda m: setattr(m, "indices", m.indices + 100), "a column is outside of 4"),
        (lambda m: setattr(m, "indptr", m.indptr[:-1]), "no matrix of 5 rows"),
        (lambda m: setattr(m, "data", m.data[:-1]), "no matrix of 5 rows"),
    ],
)
def test_damaged_matrices(change, text):
    sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    found = read(sparse.csr_matrix(sparse.random(5, 4, 0.4, rng=0)))
    change(found)
    with pytest.raises(smex.SmexValueError, match=text):
        found.to_dense()


class Calls:
    """Pickles as a call of a function."""

    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL))
@pytest.mark.parametrize(
    ("function", "args"),
    [
        (os.system, ("touch {path}",)),
        (subprocess.call, (["touch", "{path}"],)),
        (eval, ("open('{path}', 'w')",)),
        (getattr, (np, "load")),
        (torch.load, ("{path}",)),
        (np.load, ("{path}",)),
        (collections.Counter, ("ab",)),
    ],
)
def test_nothing_is_run(tmp_path, function, args, protocol):
    path = tmp_path / "made"
    args = [
        a.format(path=path)
        if isinstance(a, str)
        else [str(x).format(path=path) for x in a]
        if isinstance(a, list)
        else a
        for a in args
    ]
    if function is getattr:
        args = ["text", "upper"]
    file = tmp_path / "bad.pickle"
    for data in (Calls(function, *args), {"deep": [Calls(function, *args)]}):
        file.write_bytes(pickle.dumps(data, protocol))
        with pytest.raises(smex.SmexValueError, match="bad.pickle is not read, expected arrays"):
            sg.data.load_pickle(file)
    with pytest.raises(smex.SmexValueError, match="is not read"):  # inside an array of objects
        read(np.array([Calls(function, *args)], dtype=object), 2)
    assert not path.exists()


def test_other_ways_to_reach_a_function():
    by_name = b"cbuiltins\ngetattr\n(c__builtin__\ndict\nVfromkeys\ntR."
    through_attributes = b"\x80\x04\x8c\x05numpy\x8c\x0cndarray.dump\x93."
    for data in (
        by_name,
        through_attributes,
        b"",
        b"\x80\x02]",
        b"garbage",
        b"c__builtin__\neval\n.",
    ):
        with pytest.raises(smex.SmexValueError, match="is not read"):
            sg.data.load_pickle(io.BytesIO(data))


def test_codecs_are_latin1_alone():
    data = pickle.dumps(b"\x00\xff", 2).replace(b"latin1", b"zip_00")
    with pytest.raises(smex.SmexValueError, match="is not read"):
        sg.data.load_pickle(io.BytesIO(data))


def test_attributes_that_a_pickle_sets_do_not_stay():
    before = dict(vars(sg.data.CompressedRows))
    on_class = b"cscipy.sparse.csr\ncsr_matrix\n(N(dVto_dense\nI1\nstb."
    on_function = b"c_codecs\nencode\n(N(dV__doc__\nVchanged\nstb."
    for data in (on_class, on_function):
        sg.data.load_pickle(io.BytesIO(data))
    assert dict(vars(sg.data.CompressedRows)) == before and read(b"\xff", 2) == b"\xff"
    assert "changed" not in (smex.graph.data.unpickle._encode.__doc__ or "")
