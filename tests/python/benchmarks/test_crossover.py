"""Sequences are cut when there are more rows than columns, columns when there are fewer."""

import crossover
import pytest

SIZE, LAYERS = 64, 3


@pytest.mark.parametrize("mesh", [[2], [4]])
@pytest.mark.parametrize("rows", [8, 32, SIZE - 4, SIZE, SIZE + 4, 128, 512])
def test_rows_and_columns_change_where_there_are_as_many(mesh, rows):
    row = crossover.choose(rows, SIZE, LAYERS, mesh)
    assert row.products == 3 * LAYERS
    assert row.moved == row.bound
    if rows > SIZE:
        assert row.by_rows == row.products
        assert set(row.activations) == {f"S0/{mesh[0]}"}
    elif rows < SIZE:
        assert row.by_rows == 0


def test_two_steps_cut_both():
    """Between half and twice as many rows as columns, a step of each beats both alone."""
    for rows in (SIZE // 2 + 4, SIZE, 2 * SIZE - 4):
        row = crossover.choose(rows, SIZE, LAYERS, [2, 2])
        assert row.moved < row.bound, rows
    row = crossover.choose(4 * SIZE, SIZE, LAYERS, [2, 2])
    assert row.moved == row.bound and row.by_rows == row.products
