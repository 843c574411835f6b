"""Frames: columns, rows, initialisers, and columns that are gathered when they are read."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import smex
from smex.graph.features.column import MissingFeatureError, Scheme
from smex.graph.features.frame import Frame


def ones(shape, dtype, device, ids):
    return torch.ones(shape, dtype=dtype, device=device)


# ---- a mapping ----


def test_columns_by_name():
    h, w = torch.rand(3, 2), torch.arange(3)
    frame = Frame(3, {"h": h})
    frame["w"] = w
    assert frame.keys() == ["h", "w"] and list(frame) == ["h", "w"] and len(frame) == 2
    assert frame["h"] is h and frame.get("x", 5) == 5 and "w" in frame and "x" not in frame
    assert frame.pop("w") is w and frame.pop("w", None) is None
    del frame["h"]
    assert frame.items() == [] and frame.num_rows == 3


def test_a_missing_column_is_a_key_error_that_lists_the_others():
    with pytest.raises(MissingFeatureError, match='^feature "x" is not set; .* there are: "h"$'):
        Frame(1, {"h": torch.zeros(1)})["x"]
    with pytest.raises(KeyError):
        Frame(1)["x"]
    with pytest.raises(smex.SmexValueError, match="none"):
        Frame(1).pop("x")


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        ([1, 2, 3], smex.SmexTypeError, 'feature "bad": expected a tensor, found list'),
        (torch.zeros(4), smex.SmexValueError, r"expected 3 rows, .* shape \[4\]"),
        (torch.tensor(1.0), smex.SmexValueError, r"expected 3 rows, .* shape \[\]"),
    ],
)
def test_values_that_do_not_fit_leave_the_frame_as_it_was(value, error, text):
    frame = Frame(3, {"h": torch.zeros(3)})
    with pytest.raises(error, match=text):
        frame.update({"good": torch.zeros(3), "bad": value})
    assert frame.keys() == ["h"]


def test_maps_and_prints():
    frame = Frame(2, {"h": torch.zeros(2)})
    assert repr(frame.map(torch.exp)) == "{'h': tensor([1., 1.])}" and frame["h"].eq(0).all()


def test_no_rows_and_no_features():
    frame = Frame(0, {"h": torch.zeros(0, 3), "e": torch.zeros(0, 0)})
    assert frame.extended(2)["h"].tolist() == [[0.0] * 3] * 2
    assert frame.extended(2)["e"].shape == (2, 0)
    assert frame.subframe(torch.tensor([], dtype=torch.int64))["h"].shape == (0, 3)


def test_schemes():
    frame = Frame(2, {"h": torch.zeros(2, 3), "i": torch.zeros(2, dtype=torch.int8)})
    assert frame.schemes() == {"h": Scheme((3,), torch.float32), "i": Scheme((), torch.int8)}
    assert frame.subframe(torch.tensor([0])).schemes() == frame.schemes()


# ---- rows ----


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_rows_are_written_out_of_place(idtype):
    h = torch.zeros(3, 2)
    frame = Frame(3, {"h": h})
    value = torch.ones(2, 2, requires_grad=True)
    frame.update_rows(torch.tensor([2, 0], dtype=idtype), {"h": value, "new": value})
    assert h.eq(0).all()
    assert frame["h"].tolist() == frame["new"].tolist() == [[1, 1], [0, 0], [1, 1]]
    frame["h"].sum().backward()
    assert value.grad.eq(1).all()


@pytest.mark.parametrize(
    "value", [torch.ones(1, 3), torch.ones(1, 2, dtype=torch.float64), torch.ones(1)]
)
def test_rows_keep_the_scheme_of_their_column(value):
    frame = Frame(3, {"h": torch.zeros(3, 2), "k": torch.zeros(3, *value.shape[1:])})
    with pytest.raises(smex.SmexTypeError, match='feature "h": expected rows of torch.float32'):
        frame.update_rows(torch.tensor([0]), {"k": torch.ones_like(value).float(), "h": value})
    assert frame["k"].eq(0).all() and frame["h"].eq(0).all()


def test_new_rows_and_columns_are_initialised():
    frame = Frame(2, {"h": torch.zeros(2), "g": torch.zeros(2)})
    frame.set_initializer(ones)
    frame.set_initializer(lambda shape, dtype, device, ids: torch.full(shape, ids.start), "g")
    longer = frame.extended(2, {"k": torch.tensor([5, 6])})
    assert longer.num_rows == 4 and frame.num_rows == 2 and "k" not in frame
    assert longer["h"].tolist() == [0, 0, 1, 1]
    assert longer["g"].tolist() == [0, 0, 2, 2] and longer["g"].dtype == torch.float32
    assert longer["k"].tolist() == [1, 1, 5, 6]
    frame.update_rows(torch.tensor([1]), {"m": torch.tensor([7])})
    assert frame["m"].tolist() == [1, 7]


@pytest.mark.parametrize("answer", [torch.zeros(1), None])
def test_an_initialiser_of_the_wrong_shape(answer):
    frame = Frame(2, {"h": torch.zeros(2, 3)})
    frame.set_initializer(lambda *_: answer)
    with pytest.raises(smex.SmexValueError, match=r'initializer of "h": .* shape \[4, 3\], found'):
        frame.extended(4)


def test_extending_checks_dtype_shape_and_rows():
    frame = Frame(2, {"h": torch.zeros(2, 3)})
    with pytest.raises(smex.SmexTypeError, match="expected rows"):
        frame.extended(1, {"h": torch.zeros(1, 4)})
    with pytest.raises(smex.SmexValueError, match="expected 1 row, one for each new row"):
        frame.extended(1, {"h": torch.zeros(2, 3)})


# ---- copies ----


def test_clones_share_tensors_and_nothing_else():
    frame = Frame(2, {"h": torch.zeros(2)})
    frame.set_initializer(ones)
    clone = frame.clone()
    clone["x"] = torch.zeros(2)
    clone.set_initializer(lambda *a: torch.zeros(1), "h")
    assert clone["h"] is frame["h"] and "x" not in frame
    assert frame.extended(1)["h"].tolist() == [0, 0, 1]


def test_subframes_are_gathered_when_read():
    h = torch.arange(5.0)
    part = Frame(5, {"h": h}).subframe(torch.tensor([4, 1, 1])).subframe(torch.tensor([2, 0]))
    assert part.num_rows == 2
    h[4] = 9.0
    assert part["h"].tolist() == [1, 9]
    assert part["h"] is part["h"]
    h[4] = 0.0
    assert part["h"].tolist() == [1, 9]


def test_a_column_that_was_read_without_gradients_still_has_one():
    h = torch.arange(3.0, requires_grad=True)
    part = Frame(3, {"h": h}).subframe(torch.tensor([2]))
    with torch.no_grad():
        assert not part["h"].requires_grad
    part["h"].sum().backward()
    assert h.grad.tolist() == [0, 0, 1]


def test_devices_are_changed_when_read():
    frame = Frame(2, {"h": torch.zeros(2, 3)}).to(torch.device("meta"))
    assert frame["h"].device.type == "meta" and frame["h"].shape == (2, 3)


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_hold_their_own_rows_only(copier):
    source = torch.rand(1000, 8)
    part = Frame(1000, {"h": source}).subframe(torch.tensor([3, 5]))
    assert len(pickle.dumps(part)) < 4000
    other = copier(part)
    assert other["h"].equal(source[[3, 5]])
    other["h"][0] = 0
    assert part["h"].equal(source[[3, 5]])


def test_threads_read_pending_columns():
    source = torch.rand(100, 8)

    def total(frame):
        return float(sum(column.sum() for column in frame.values()))

    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            part = Frame(100, {"h": source, "g": source}).subframe(torch.arange(50))
            found = list(pool.map(total, [part] * 4))
            assert len(set(found)) == 1


def test_names_need_not_be_strings():
    frame = Frame(2, {3: torch.zeros(2), "h": torch.zeros(2)})
    assert frame[3].shape == (2,)
    with pytest.raises(KeyError, match='^feature 4 is not set; .* there are: 3, "h"$'):
        frame[4]


def test_none_is_no_feature():
    with pytest.raises(smex.SmexTypeError, match="expected a tensor, found NoneType; leave it out"):
        Frame(2)["h"] = None
