"""Programs of sparse matrices, as text, that DGL and SMEX both run; nothing here knows either.

``tools/record_dgl.py`` writes what DGL 2.1 finds.
"""

import itertools

import torch


def numbers(*shape, start=1, dtype=torch.float64):
    """Numbers between -2 and 2 without ties, the same with any version of torch."""
    count = 1
    for size in shape:
        count *= size
    steps = (torch.arange(start, start + count, dtype=torch.float64) * 7919) % 997
    return (steps / 249.25 - 2).reshape(shape).to(dtype)


PLACES = {
    "plain": ([4, 0, 2, 0, 1, 4, 2], [1, 3, 0, 0, 2, 3, 2], (5, 4)),
    "other": ([0, 4, 1, 2, 3], [3, 3, 0, 0, 1], (5, 4)),
    "square": ([3, 0, 1, 2, 0], [1, 0, 3, 2, 2], (4, 4)),
    "empty": ([], [], (5, 4)),
    "thin": ([0, 0, 0], [4, 1, 2], (1, 6)),
    "twice": ([1, 0, 1, 2, 1], [2, 1, 2, 0, 2], (3, 3)),
    "tall": ([2, 0, 3, 1, 3], [0, 2, 1, 1, 2], (4, 3)),
}


def operands(sparse, dtype):
    """The names that programs have, and the leaves of their gradients."""
    leaves = {}

    def leaf(name, *shape, start):
        leaves[name] = numbers(*shape, start=start, dtype=dtype).requires_grad_()
        return leaves[name]

    names = {"sp": sparse, "torch": torch, "leaves": leaves}
    for i, (name, (row, col, shape)) in enumerate(PLACES.items()):
        row, col = torch.tensor(row).long(), torch.tensor(col).long()
        nnz = row.shape[0]
        names[name] = sparse.from_coo(row, col, leaf(f"{name}.val", nnz, start=i + 1), shape)
        vector = leaf(f"{name}_v.val", nnz, 3, start=i + 20)
        names[name + "_v"] = sparse.from_coo(row, col, vector, shape)
        whole = (numbers(nnz, start=i + 1) * 8).long()
        names[name + "_i"] = sparse.from_coo(row, col, whole, shape)
    names["csr"] = sparse.from_csr(
        torch.tensor([0, 2, 2, 3, 5, 6]), torch.tensor([3, 0, 1, 2, 0, 3]),
        leaf("csr.val", 6, start=50), (5, 4),
    )  # fmt: skip
    names["csc"] = sparse.from_csc(
        torch.tensor([0, 2, 3, 3, 6]), torch.tensor([4, 0, 1, 2, 0, 3]),
        leaf("csc.val", 6, start=60), (5, 4),
    )  # fmt: skip
    names["diag"] = sparse.diag(leaf("diag.val", 4, start=70))
    names["diag2"] = sparse.diag(leaf("diag2.val", 4, start=75))
    names["flat"] = sparse.diag(leaf("flat.val", 4, start=80), (4, 5))
    names["upright"] = sparse.diag(leaf("upright.val", 3, start=85), (5, 3))
    names["diag_v"] = sparse.diag(leaf("diag_v.val", 4, 3, start=90))
    for size in (1, 3, 4, 5, 6):
        names[f"x{size}"] = leaf(f"x{size}", size, start=100 + size)
        names[f"X{size}"] = leaf(f"X{size}", size, 2, start=200 + 20 * size)
        names[f"Y{size}"] = leaf(f"Y{size}", 2, size, start=400 + 20 * size)
        names[f"B{size}"] = leaf(f"B{size}", size, 2, 3, start=600 + 40 * size)
        names[f"C{size}"] = leaf(f"C{size}", 2, size, 3, start=1000 + 40 * size)
    names["two"] = leaf("two", start=300)
    return names


GENERAL = ["plain", "square", "empty", "thin", "twice", "tall", "csr", "csc", "diag", "flat"]
VECTORS = ["plain_v", "empty_v", "twice_v", "thin_v", "diag_v"]
WHOLE = ["plain_i", "twice_i", "thin_i"]
COLUMNS = {"square": 4, "thin": 6, "twice": 3, "tall": 3, "flat": 5, "upright": 3}
ROWS = {"square": 4, "thin": 1, "twice": 3, "tall": 4, "diag": 4, "flat": 4}


def _size(table, name, other):
    return table.get(name.partition("_")[0], other)


def programs():
    """Every program once."""
    every = [*GENERAL, *VECTORS, *WHOLE, "upright"]
    for a in every:
        yield from (f"{a}.shape", f"{a}.nnz", f"{a}.is_diag()", f"{a}.has_duplicate()")
        yield from (f"{a}.T", f"-{a}", f"{a} * 3", f"0.5 * {a}", f"{a} / 4", f"{a} ** 2")
        yield from (f"{a}.coalesce()", f"{a}.float()", f"{a}.long()")
        if not a.startswith("twice"):
            yield f"{a}.to_dense()"
        yield from (f"sp.from_torch_sparse(sp.to_torch_sparse_{x}({a}))" for x in ("coo",))
        for how, dim in itertools.product(("sum", "smax", "smin", "smean", "sprod"), (0, 1, None)):
            if a.startswith("empty") and dim is None:
                continue
            if a in WHOLE and how == "smean":
                continue
            yield f"{a}.reduce({dim}, '{how}')"
        columns, rows = _size(COLUMNS, a, 4), _size(ROWS, a, 5)
        for how in ("add", "sub", "mul", "div"):
            yield f"sp.sp_{how}_v({a}, x{columns})"
            yield f"sp.sp_{how}_v({a}, x{rows}.view(-1, 1))"
        for dim, size in ((0, rows), (1, columns)):
            if size > 1:
                yield f"{a}.index_select({dim}, torch.tensor([{size - 1}, 0, {size - 1}]))"
                yield f"{a}.range_select({dim}, slice(1, {size}))"
            yield f"{a}.sample({dim}, 9, torch.tensor([0, {size - 1}]))"
            yield f"{a}.compact({dim})"
            yield f"{a}.compact({dim}, torch.tensor([{size - 1}]))"
        if a not in WHOLE:
            yield from (f"{a}.softmax({dim})" for dim in (0, 1))
            yield f"{a} * two"
    for a in [*GENERAL, "upright"]:
        columns, rows = _size(COLUMNS, a, 4), _size(ROWS, a, 5)
        yield from (f"{a} @ x{columns}", f"{a} @ X{columns}", f"{a}.T @ X{rows}")
        yield from (f"sp.sddmm({a}, x{rows}, x{columns})", f"sp.sddmm({a}, X{rows}, Y{columns})")
        yield f"sp.bsddmm({a}, B{rows}, C{columns})"
        yield f"sp.spmm({a}, x{columns + 1 if columns + 1 in (4, 5, 6) else 1})"
    for a in VECTORS:
        columns, rows = _size(COLUMNS, a, 4), _size(ROWS, a, 5)
        yield from (f"{a} @ B{columns}", f"{a}.T @ B{rows}", f"{a} @ X{columns}")
        yield f"sp.bsddmm({a}, B{rows}, C{columns})"
    same = [
        ("plain", "other"), ("other", "plain"), ("plain", "empty"), ("empty", "plain"),
        ("csr", "csc"), ("csr", "plain"), ("square", "diag"), ("diag", "square"),
        ("diag", "diag2"), ("plain_v", "other_v"), ("plain_v", "plain_v"), ("csr", "csr"),
        ("diag_v", "diag_v"), ("plain_i", "other_i"), ("plain", "square"), ("plain", "plain_i"),
    ]  # fmt: skip
    for a, b in same:
        yield from (f"{a} + {b}", f"{a} - {b}", f"{a} * {b}", f"{a} / {b}")
    yield from ("twice + twice", "plain / plain.T.T", "csr / csr.coalesce()", "diag / diag2")
    products = [
        ("plain", "square"), ("square", "square"), ("square", "tall"), ("tall.T", "square"),
        ("plain.T", "plain"), ("plain", "plain.T"), ("csr.T", "csc"), ("csr", "csc.T"),
        ("plain", "diag"), ("diag", "square"), ("diag", "diag2"), ("empty", "square"),
        ("flat", "upright"), ("diag", "flat"), ("upright.T", "plain"), ("plain", "plain"),
        ("square_v", "square_v"), ("square", "square_i"), ("upright", "tall.T"),
    ]  # fmt: skip
    for a, b in products:
        yield f"{a} @ {b}"
    yield from ("diag.inv()", "flat.inv()", "square.inv()", "diag_v.inv()")
    yield from ("sp.identity((3, 5))", "sp.identity((3, 3), d=2)", "sp.diag(x4, (4, 6))")
    yield from ("sp.diag(x4, (5, 6))", "sp.val_like(plain, x6)", "plain.index_select(2, x3)")
    yield from ("plain.csr()[:1]", "plain.csc()[:1]", "csr.csr()[:2]", "csc.csc()[:2]")
    yield from ("plain.reduce(1, 'mean')", "plain + 1", "plain ** plain", "x4 @ plain")


def _canonical(matrix):
    """Entries by row, then column, then value, with weights that depend on their places."""
    row, col, val = matrix.row.long(), matrix.col.long(), matrix.val
    key = val.detach().double().reshape(val.shape[0], -1).sum(1) if val.numel() else row.double()
    order = sorted(range(row.shape[0]), key=lambda i: (int(row[i]), int(col[i]), float(key[i])))
    order = torch.tensor(order).long()
    weight = 1 + ((row * 3 + col * 5) % 7).to(val.dtype) / 4
    weight = weight.view(-1, *(1,) * (val.dim() - 1))
    facts = {"shape": list(matrix.shape), "diag": matrix.is_diag(), "dtype": str(matrix.dtype)}
    entries = {"row": row[order].tolist(), "col": col[order].tolist(), "val": val[order].tolist()}
    return {**facts, **entries}, (val * weight).sum()


def _described(result):
    """What a program found, as JSON has it, and a number to differentiate."""
    if isinstance(result, (bool, int)):
        return result, None
    if isinstance(result, torch.Tensor):
        weight = torch.arange(result.numel()).reshape(result.shape) % 5 + 1
        described = {"dtype": str(result.dtype), "tensor": result.tolist()}
        return {**described, "size": list(result.shape)}, (result * weight).sum()
    if isinstance(result, tuple):
        parts = [_described(each) for each in result]
        return [described for described, _ in parts], parts[0][1]
    return _canonical(result)


def found(sparse, program, dtype=torch.float64):
    """What a program gives: values and gradients, or ``error``."""
    names = operands(sparse, dtype)
    try:
        described, total = _described(eval(program, dict(names)))
    except Exception:
        return "error"
    result = {"value": described, "grads": {}}
    if total is not None and total.requires_grad:
        total.backward()
        for name, leaf in names["leaves"].items():
            if leaf.grad is not None and bool((leaf.grad != 0).any()):
                result["grads"][name] = leaf.grad.tolist()
    return result
