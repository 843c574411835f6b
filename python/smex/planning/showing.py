"""Where a page is shown: a notebook, a file, or a temporary one."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
from collections.abc import Callable


def show(
    what: str,
    fragment: Callable[[], str],
    page: Callable[[], str],
    path: str | os.PathLike[str] | None,
) -> pathlib.Path | None:
    """Writes a page, or displays it in a notebook where there is no path.

    Elsewhere a temporary file is written, and its path printed.

    Args:
        what: is shown, a word of the temporary file's name.
        fragment: makes what a notebook displays.
        page: makes the page.
        path: of the file.

    Returns:
        The path that was written, None in a notebook.
    """
    if path is None and _in_notebook():
        from IPython.display import HTML, display

        display(HTML(fragment()))
        return None
    if path is None:
        handle, path = tempfile.mkstemp(prefix=f"smex-{what}-", suffix=".html")
        os.close(handle)
        print(path)
    written = pathlib.Path(path)
    written.write_text(page(), encoding="utf-8")
    return written


def _in_notebook() -> bool:
    """Returns whether IPython runs with a front end that shows HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    return hasattr(shell, "kernel")
