"""tqdm's progress bar, where it is there and asked for."""

from __future__ import annotations

import contextlib
from typing import Any


class Bar:
    """Tells the calls of a simulator and the best time so far.

    Args:
        calls: how many there will be, None where nobody knows.
        shown: whether to show it at all.
        what: the word before it.
    """

    def __init__(self, calls: int | None, shown: bool, what: str) -> None:
        self._bar: Any = None
        if shown:
            with contextlib.suppress(ImportError):
                from tqdm import tqdm

                self._bar = tqdm(total=calls, unit="call", desc=what)

    def told(self, call: int, best: float) -> None:
        """Shows that so many calls were made, and the best seconds of them."""
        if self._bar is not None:
            self._bar.set_postfix_str(f"best {best:.4g} s", refresh=False)
            self._bar.update(call - self._bar.n)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
