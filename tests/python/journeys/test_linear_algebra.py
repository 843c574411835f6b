"""Linear algebra and Fourier transforms: each beside the plain module.

| call | test |
| --- | --- |
| `torch.linalg`, `torch.fft` | test_linear_algebra, test_fourier_transforms |
"""

import copy

import pytest
import torch
from pairs import WIDTH, Calls, close, pair, rows, weight
from torch import nn

import smex

pytestmark = [pytest.mark.costly, pytest.mark.filterwarnings("ignore::smex.MissingSpecWarning")]


def spd(a):
    return a @ a.mH + torch.eye(len(a), dtype=a.dtype)


def _of_eigenvectors(values, vectors):
    return (vectors @ torch.diag(values.to(vectors.dtype)) @ torch.linalg.inv(vectors)).abs()


LINALG = {
    "cholesky": lambda a, x: torch.linalg.cholesky(spd(a)),
    "cholesky_ex": lambda a, x: torch.linalg.cholesky_ex(spd(a)),
    "cond": lambda a, x: torch.linalg.cond(a),
    "cross": lambda a, x: torch.linalg.cross(a[:, :3], x[:, :3]),
    "det": lambda a, x: torch.linalg.det(a),
    "diagonal": lambda a, x: torch.linalg.diagonal(a),
    "eig": lambda a, x: _of_eigenvectors(*torch.linalg.eig(a)),
    "eigh": lambda a, x: _of_eigenvectors(*torch.linalg.eigh(a + a.mH)),
    "eigvals": lambda a, x: torch.linalg.eigvals(a).abs().sum(),
    "eigvalsh": lambda a, x: torch.linalg.eigvalsh(a + a.mH),
    "householder_product": lambda a, x: torch.linalg.householder_product(a[:, :3], x[0, :3]),
    "inv": lambda a, x: torch.linalg.inv(a),
    "inv_ex": lambda a, x: torch.linalg.inv_ex(a),
    "ldl_factor": lambda a, x: [*torch.linalg.ldl_factor(spd(a.detach())), a],
    "ldl_solve": lambda a, x: (
        a * torch.linalg.ldl_solve(*torch.linalg.ldl_factor(spd(a.detach())), x)
    ),
    "lu": lambda a, x: torch.linalg.lu(a),
    "lu_factor": lambda a, x: torch.linalg.lu_factor(a),
    "lu_solve": lambda a, x: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), x),
    "matmul": lambda a, x: torch.linalg.matmul(a, x),
    "matrix_exp": lambda a, x: torch.linalg.matrix_exp(a),
    "matrix_norm": lambda a, x: [torch.linalg.matrix_norm(a, p) for p in ("fro", "nuc", 2, 1)],
    "matrix_power": lambda a, x: [torch.linalg.matrix_power(a, n) for n in (3, -2)],
    "matrix_rank": lambda a, x: torch.linalg.matrix_rank(a) * a,
    "multi_dot": lambda a, x: torch.linalg.multi_dot([a, x, a]),
    "norm": lambda a, x: torch.linalg.norm(a, 3, dim=1),
    "pinv": lambda a, x: torch.linalg.pinv(a[:, :4]),
    "qr": lambda a, x: torch.linalg.qr(a),
    "slogdet": lambda a, x: torch.linalg.slogdet(a),
    "solve": lambda a, x: torch.linalg.solve(a, x),
    "solve_triangular": lambda a, x: torch.linalg.solve_triangular(a.triu(), x, upper=True),
    "svd": lambda a, x: (lambda u, s, v: (u * s) @ v)(*torch.linalg.svd(a[:, :4], False)),
    "svdvals": lambda a, x: torch.linalg.svdvals(a),
    "tensorinv": lambda a, x: torch.linalg.tensorinv(a.reshape(2, 3, 6), ind=2),
    "tensorsolve": lambda a, x: torch.linalg.tensorsolve(a.reshape(2, 3, 6), x[0].reshape(2, 3)),
    "vander": lambda a, x: torch.linalg.vander(a[0]),
    "vecdot": lambda a, x: torch.linalg.vecdot(a, x),
    "vector_norm": lambda a, x: torch.linalg.vector_norm(a, 3),
}

NEWER = {  # than torch 2.11
    "matrix_sqrth": lambda a, x: torch.linalg.matrix_sqrth(spd(a)),
    "polar": lambda a, x: torch.linalg.polar(a),
}

LINALG |= {name: function for name, function in NEWER.items() if hasattr(torch.linalg, name)}


def trained_alike(net, plain, x):
    """Results and gradients with and without gradients, on what has no sign or phase to choose."""
    for training in (True, False):
        with torch.set_grad_enabled(training):
            found, wanted = net(x), plain(x)
        torch.testing.assert_close(found, wanted, rtol=1e-7, atol=1e-9)
        if training:
            for result in (found, wanted):
                leaves = [t for t in torch.utils._pytree.tree_leaves(result) if t.requires_grad]
                sum((leaf * leaf.conj()).real.sum() for leaf in leaves).backward()
    for name, grad in net.full_grads().items():
        torch.testing.assert_close(grad, getattr(plain, name).grad, rtol=1e-6, atol=1e-8)


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("case", LINALG)
def test_linear_algebra(case, dtype):
    a = torch.eye(6, dtype=dtype) + 0.3 * torch.randn(6, 6, dtype=dtype)
    model = Calls(lambda self, x: LINALG[case](self.a, x), a=nn.Parameter(a))
    net = smex.partition(copy.deepcopy(model), workers=2, replicate_bytes=0)
    trained_alike(net, model, torch.randn(6, 6, dtype=dtype))


def test_all_of_linear_algebra_is_tested():
    public = {name for name in dir(torch.linalg) if name[0].islower()}
    public -= {name for name in public if not callable(getattr(torch.linalg, name))}
    assert public - {"common_notes", "lstsq"} <= {
        *LINALG, "ldl_factor_ex", "lu_factor_ex", "solve_ex"
    }  # fmt: skip


def test_least_squares_are_refused():
    net = smex.partition(Calls(lambda self, x: torch.linalg.lstsq(self.w, x)[0], w=weight()))
    with pytest.raises(
        smex.CaptureError, match=r"lstsq.* at test_linear_algebra.py:\d+: write .*pinv"
    ):
        net(rows(WIDTH))


def test_what_has_no_derivative_is_refused():
    net, plain = pair(Calls(lambda self, x: torch.linalg.ldl_factor(spd(x @ self.w)), w=weight()))
    x = rows(WIDTH)
    with pytest.raises(smex.CaptureError, match=r"derivative for .*ldl.*; detach\(\)"):
        net(x)
    with torch.no_grad():
        close(net(x), plain(x))


TRANSFORMED = [
    "fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2", "hfft2",
    "ihfft2", "fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn",
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "dtype"),
    [(case, torch.float64) for case in TRANSFORMED]
    + [(c, torch.complex128) for c in TRANSFORMED if not c.startswith(("rfft", "ihfft"))],
)
def test_fourier_transforms(case, dtype):
    function = getattr(torch.fft, case)
    sizes = [{}, {"s": (4, 7)}] if case[-1] in "2n" else [{}, {"n": 4, "dim": 0}, {"n": 9}]

    def step(self, x):
        return [
            function(self.a * x, norm=norm, **size) for norm in ("ortho", None) for size in sizes
        ]

    model = Calls(step, a=nn.Parameter(torch.randn(6, 6, dtype=dtype)))
    net = smex.partition(copy.deepcopy(model), workers=2, replicate_bytes=0)
    trained_alike(net, model, torch.randn(6, 6, dtype=dtype))
