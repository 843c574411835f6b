"""What containers hold, compared with later by identity."""

import collections
import gc
import weakref

import pytest

from smex._C import Contents


class Holder:
    pass


def _cell(value):
    def function():
        return value

    return function.__closure__[0]


@pytest.mark.parametrize(
    ("container", "change"),
    [
        ({"a": 1}, lambda c: c.update(a=True)),
        ({"a": 1}, lambda c: c.update(b=2)),
        ({"a": 1}, lambda c: c.pop("a")),
        (collections.OrderedDict(a=1), lambda c: c.update(a=1.0)),
        (vars(Holder()), lambda c: c.update(late=None)),
        ([1, 2], lambda c: c.append(3)),
        ([1, 2], lambda c: c.reverse()),
        ({1, 2}, lambda c: c.add(3)),
        (collections.deque([1, 2]), lambda c: c.rotate()),
        (_cell(1), lambda c: setattr(c, "cell_contents", 1.0)),
    ],
)
def test_a_change_is_seen(container, change):
    seen = Contents([{}, container])
    assert seen.same()
    change(container)
    assert not seen.same()


def test_an_empty_cell():
    cell = _cell(1)
    del cell.cell_contents
    seen = Contents([cell])
    assert seen.same()
    cell.cell_contents = None
    assert not seen.same()


def test_the_collector_sees_through_it():
    holder = Holder()
    holder.items = [holder]
    holder.seen = Contents([vars(holder), holder.items])
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None


def test_what_is_held_stays_alive():
    items = [Holder()]
    alive = weakref.ref(items[0])
    seen = Contents(items_of for items_of in [items])
    items.clear()
    gc.collect()
    assert alive() is not None  # its address is nobody else's
    assert not seen.same()
