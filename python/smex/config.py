"""What this build of SMEX is and what it runs on: the first lines of any bug report."""

from __future__ import annotations

import html
import sys
from dataclasses import dataclass, fields

from smex import _native
from smex._version import __version__

__all__ = ["Config", "show_config"]


@dataclass(frozen=True)
class Config:
    """The facts of the native build and of the running process.

    Prints as aligned text, and as a table in a notebook. Facts of the build are None where the
    native library has never been built.
    """

    version: str
    """SMEX's version."""
    native: bool
    """Whether the native library is loaded."""
    native_reason: str | None
    """Why it is not, or None."""
    python: str
    """The running Python."""
    torch: str | None
    """The running torch, or None where torch cannot be imported."""
    torch_built: str | None
    """The torch that the native library was compiled against."""
    compiler: str | None
    """The C++ compiler and its version."""
    build_type: str | None
    """CMake's build type: Release or Debug."""
    cuda: str | None
    """The CUDA toolkit of the CUDA kernels, or None where there are none."""
    cuda_reason: str | None
    """Why there are no CUDA kernels, or None."""
    cuda_arch_list: str | None
    """GPU architectures of the CUDA kernels, as TORCH_CUDA_ARCH_LIST."""
    gpus: int
    """CUDA devices that torch sees now."""
    openmp: str | None
    """The OpenMP library that the CPU kernels share with torch."""
    threads: int
    """Threads of one CPU kernel: torch.get_num_threads()."""

    def _rows(self) -> list[tuple[str, str]]:
        def text(name: str) -> str:
            value = getattr(self, name)
            if name == "native":
                return "loaded" if value else f"missing: {self.native_reason}"
            if name == "cuda" and value is None:
                return f"no: {self.cuda_reason or 'not built'}"
            return "-" if value is None else str(value)

        shown = [f.name for f in fields(self) if f.name not in ("native_reason", "cuda_reason")]
        return [(name.replace("_", " "), text(name)) for name in shown]

    def __str__(self) -> str:
        """Returns one fact per line."""
        rows = self._rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)

    def __repr__(self) -> str:
        """Returns the same text, so that a terminal session shows it at once."""
        return str(self)

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in self._rows()
        )
        return f"<table>{cells}</table>"


def show_config() -> Config:
    """Returns what this build of SMEX is and what it runs on.

    Works without the native library, and says why it is missing. Costs nothing but, at the first
    call, torch's count of GPUs.

    Example:
        >>> import smex
        >>> smex.show_config().version
        '0.1.0'
    """
    try:
        import torch

        torch_version: str | None = str(torch.__version__)
        gpus, threads = torch.cuda.device_count(), torch.get_num_threads()
    except ImportError:
        torch_version, gpus, threads = None, 0, 0
    # An empty text in the build's facts means "none".
    info = {name: value or None for name, value in _native.build_info.items()}
    return Config(
        version=__version__,
        native=_native.missing_reason is None,
        native_reason=_native.missing_reason,
        python=sys.version.split()[0],
        torch=torch_version,
        torch_built=info.get("torch"),
        compiler=info.get("compiler"),
        build_type=info.get("build_type"),
        cuda=info.get("cuda"),
        cuda_reason=info.get("cuda_reason"),
        cuda_arch_list=info.get("cuda_arch_list"),
        gpus=gpus,
        openmp=info.get("openmp"),
        threads=threads,
    )
