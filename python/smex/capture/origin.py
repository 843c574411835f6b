"""Which module and source line each traced node comes from."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.overrides import TorchFunctionMode

from smex.capture.symbolic_calls import keeping_symbols

_LIBRARY_FOLDERS = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
)


def _is_user_file(filename: str) -> bool:
    return not filename.startswith(_LIBRARY_FOLDERS) and not filename.startswith("<")


def _line(filename: str, number: int) -> str:
    return f"{os.path.basename(filename)}:{number}"


def user_frame(frame: FrameType | None) -> FrameType | None:
    """Returns the innermost frame outside torch and this package."""
    while frame is not None and not _is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def user_line(frame: FrameType | None) -> str:
    """`file.py:12` of the innermost frame outside torch and this package, or ''."""
    frame = user_frame(frame)
    return "" if frame is None else _line(frame.f_code.co_filename, frame.f_lineno)


def user_stacklevel() -> int:
    """The `stacklevel` at which a warning of the caller names the line outside torch and SMEX."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LIBRARY_FOLDERS):
        frame = frame.f_back
        level += 1
    return level


def error_line(error: BaseException, entry: str) -> str:
    """`file.py:12` of the innermost user frame of a traceback, inside the frame named `entry`."""
    lines = ""
    inside = False
    for frame, number in _walk(error.__traceback__):
        code = frame.f_code
        inside = inside or code.co_name == entry
        if inside and _is_user_file(code.co_filename):
            lines = _line(code.co_filename, number)
    return lines


def script_line(text: str) -> str:
    """`file.py:12` of the innermost call in the traceback that TorchScript puts into its errors."""
    found = re.findall(r'File "([^"]+)", line (\d+)', text)
    return _line(found[-1][0], int(found[-1][1])) if found else ""


def _walk(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


class OriginMode(TorchFunctionMode):
    """Notes on each traced node the module path and the user's line that called it.

    Sets `node.meta["smex_origin"] = (module_path, source)`, and inside of activation checkpoints
    `node.meta["smex_region"]`, the checkpoint's number. Calls that name a device are moved to
    the CPU, where every capture takes place. `note` is told each call's result, its new nodes,
    oldest first, and their origin. `before` gives what runs in the place of a call.
    """

    def __init__(
        self,
        module_names: dict[int, str],
        note: Callable[[Any, list[torch.fx.Node], str, str], None],
        before: Callable[[Callable, Any, dict], Any],
    ) -> None:
        super().__init__()
        self.module_names = module_names
        self._note = note
        self._before = before
        self._thread = threading.get_ident()
        self._path: list[str] = []
        self._handles: list[torch.utils.hooks.RemovableHandle] = []
        self._regions = 0
        self._region: int | None = None
        self.failed_module = ""

    def __enter__(self):
        modules = torch.nn.modules.module
        self._path = [""]
        self._region = None
        self._thread = threading.get_ident()
        self._handles = [
            modules.register_module_forward_pre_hook(self._enter_module),
            modules.register_module_forward_hook(self._leave_module, always_call=True),
        ]
        return super().__enter__()

    def __exit__(self, *exc):
        for handle in self._handles:
            handle.remove()
        return super().__exit__(*exc)

    @property
    def path(self) -> str:
        """The module that is running."""
        return self._path[-1]

    @property
    def region(self) -> int | None:
        """The checkpoint's region that is running."""
        return self._region

    @contextlib.contextmanager
    def noted(self, made: Callable[[torch.Tensor], None]) -> Iterator[None]:
        """Tells also `made` each tensor that is returned inside."""
        note = self._note

        def both(result: Any, nodes: list[torch.fx.Node], path: str, line: str) -> None:
            for tensor in result if isinstance(result, (list, tuple)) else (result,):
                if isinstance(tensor, torch.Tensor):
                    made(tensor)
            note(result, nodes, path, line)

        self._note = both
        try:
            yield
        finally:
            self._note = note

    @contextlib.contextmanager
    def checkpoint(self) -> Iterator[None]:
        """Marks what is called inside as one checkpoint's region; inner ones are part of it."""
        outer = self._region
        if outer is None:
            self._region = self._regions
            self._regions += 1
        try:
            yield
        finally:
            self._region = outer

    def _enter_module(self, module, args):
        if threading.get_ident() == self._thread:
            self._path.append(self.module_names.get(id(module), self._path[-1]))

    def _leave_module(self, module, args, result):
        if threading.get_ident() == self._thread:
            self._path.pop()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": "cpu"}
        elif func is torch.Tensor.cuda:
            return args[0]
        func = keeping_symbols(func, args, kwargs)
        try:
            return self._call(*self._before(func, args, kwargs))
        except Exception:
            self.failed_module = self._path[-1]
            raise

    def _call(self, func, args, kwargs):
        mode = get_proxy_mode()
        if mode is None:
            result = func(*args, **kwargs)
            self._note(result, [], self._path[-1], user_line(sys._getframe(2)))
            return result
        root = mode.tracer.graph._root
        before = root._prev
        result = func(*args, **kwargs)
        node = root._prev
        if node is not before:
            origin = (self._path[-1], user_line(sys._getframe(2)))
            made = []
            while node is not before:
                node.meta.setdefault("smex_origin", origin)
                if self._region is not None:
                    node.meta.setdefault("smex_region", self._region)
                made.append(node)
                node = node._prev
            self._note(result, made[::-1], *origin)
        return result
