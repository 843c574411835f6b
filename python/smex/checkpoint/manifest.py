"""The manifest of a checkpoint: what is in its files, and that it is complete."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import pathlib
import re
import zlib
from typing import Any, NamedTuple

import torch

from smex._C import relayout
from smex.errors import CheckpointError, SmexRuntimeError
from smex.execution.saved import Bounds, Contents, Group, State, numel, whole_box

NAME = "manifest.json"
FORMAT = "smex-checkpoint"
VERSION = 1


class SavedBox(NamedTuple):
    """A box of a tensor: which file has it, from which byte on."""

    file: int
    begin: int
    box: Bounds


class SavedTensor(NamedTuple):
    """A tensor of a checkpoint."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    names: list[str]
    boxes: list[SavedBox]


class SavedFile(NamedTuple):
    """A file of a checkpoint: its size in bytes, and the sums of its blocks."""

    name: str
    size: int
    sums: list[int]


@dataclasses.dataclass
class Manifest:
    """What a checkpoint says of itself.

    Attributes:
        nonce: another one for each save.
        time: of the save, in seconds since 1970.
        workers: of the net that was saved.
        files: with the tensors.
        tensors: by name; those of optimisers too.
        optimizers: by name what else there is of them.
        plan: of the net, as `Plan.contents` gives it.
        random: the state of torch's default generator.
        extra: what the caller gave.
    """

    nonce: str
    time: float
    workers: int
    files: list[SavedFile]
    tensors: dict[str, SavedTensor]
    optimizers: dict[str, Contents]
    plan: dict[str, Any]
    random: bytes
    extra: dict[str, Any]

    def text(self) -> str:
        """Returns the content of the file."""
        contents = {
            "nonce": self.nonce,
            "time": self.time,
            "torch": torch.__version__,
            "workers": self.workers,
            "files": [
                {"name": file.name, "size": file.size, "crc32": _hex(file.sums)}
                for file in self.files
            ],
            "tensors": {
                name: {
                    "dtype": str(tensor.dtype).removeprefix("torch."),
                    "shape": tensor.shape,
                    "names": tensor.names,
                    "boxes": tensor.boxes,
                }
                for name, tensor in self.tensors.items()
            },
            "optimizers": {
                name: {
                    "class": each.kind,
                    "groups": [vars(group) for group in each.groups],
                    "states": {
                        param: {key: _state_contents(state) for key, state in states.items()}
                        for param, states in each.states.items()
                    },
                }
                for name, each in self.optimizers.items()
            },
            "random": base64.b64encode(self.random).decode(),
            "plan": self.plan,
            "extra": self.extra,
        }
        inner = _dumped(contents)
        head = {"format": FORMAT, "version": VERSION, "crc32": zlib.crc32(inner.encode())}
        return f'{_dumped(head)[:-1]},\n"contents":{inner}}}\n'

    @property
    def step(self) -> int | None:
        """The step that the caller gave beside it."""
        step = self.extra.get("step")
        return step if type(step) is int else None


def _dumped(contents: Any) -> str:
    return json.dumps(contents, separators=(",", ":"))


def _hex(sums: list[int]) -> str:
    return "".join(f"{each:08x}" for each in sums)


def _state_contents(state: State) -> dict[str, Any]:
    contents: dict[str, Any] = {"kind": state.kind}
    if state.dtype is not None:
        contents["dtype"] = str(state.dtype).removeprefix("torch.")
    if state.kind == "whole":
        contents["shape"] = state.shape
    if state.kind == "value":
        contents["value"] = state.value
    return contents


def read(folder: str | os.PathLike) -> Manifest:
    """Returns the manifest of a folder.

    Raises:
        CheckpointError: there is none, or it is not what was written, or of a newer version.
    """
    path = pathlib.Path(folder) / NAME
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"load: {path} cannot be read: {error}") from error
    try:
        outer = json.loads(text)
    except ValueError as error:
        raise _corrupt(path, f"it is not JSON ({error})") from error
    if not isinstance(outer, dict) or outer.get("format") != FORMAT:
        raise CheckpointError(
            f'load: {path} is of something else; a checkpoint\'s says "format": "{FORMAT}"'
        )
    version = outer.get("version")
    if type(version) is int and version > VERSION:
        raise CheckpointError(
            f"load: {path} has version {version}, this SMEX reads up to {VERSION}: use the "
            "SMEX that wrote it, or a newer one"
        )
    contents: Any = outer.get("contents")
    if outer.get("crc32") != zlib.crc32(_dumped(contents).encode()):
        raise _corrupt(path, "its sum is another one")
    try:
        return _manifest(contents)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise _corrupt(path, f"{type(error).__name__}: {error}") from error


def _corrupt(path: pathlib.Path, why: str) -> CheckpointError:
    return CheckpointError(f"load: {path} is not what was saved: {why}; load another checkpoint")


def _manifest(contents: dict[str, Any]) -> Manifest:
    files = [
        SavedFile(file["name"], file["size"], _sums(file["crc32"])) for file in contents["files"]
    ]
    tensors = {name: _tensor(name, each, files) for name, each in contents["tensors"].items()}
    optimizers = {
        name: Contents(
            each["class"],
            [Group(group["params"], group["options"]) for group in each["groups"]],
            {
                param: {key: _state(state) for key, state in states.items()}
                for param, states in each["states"].items()
            },
        )
        for name, each in contents["optimizers"].items()
    }
    return Manifest(
        contents["nonce"], contents["time"], contents["workers"], files, tensors, optimizers,
        contents["plan"], base64.b64decode(contents["random"]), contents["extra"],
    )  # fmt: skip


def _sums(text: str) -> list[int]:
    return [int(text[begin : begin + 8], 16) for begin in range(0, len(text), 8)]


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{name!r} is no type")
    return dtype


def _state(contents: dict[str, Any]) -> State:
    dtype = _dtype(contents["dtype"]) if "dtype" in contents else None
    shape = tuple(contents.get("shape", ()))
    return State(contents["kind"], dtype, shape, contents.get("value"))


def _tensor(name: str, contents: dict[str, Any], files: list[SavedFile]) -> SavedTensor:
    dtype, shape = _dtype(contents["dtype"]), tuple(contents["shape"])
    boxes = [
        SavedBox(file, begin, tuple((lo, hi) for lo, hi in box))
        for file, begin, box in contents["boxes"]
    ]
    for file, begin, box in boxes:
        if begin + numel(box) * dtype.itemsize > files[file].size:
            raise ValueError(f'"{name}" ends after {files[file].name}')
    whole = whole_box(shape)
    if numel(whole):
        try:
            relayout([saved.box for saved in boxes], [whole])
        except SmexRuntimeError as error:
            raise ValueError(f'"{name}" is not whole ({error})') from error
    return SavedTensor(dtype, shape, contents["names"], boxes)


# ---- folders ----


def refuse_incomplete(folder: str | os.PathLike, manifest: Manifest) -> None:
    """Raises CheckpointError where a file is missing or has another size."""
    for name, size, _ in manifest.files:
        path = pathlib.Path(folder) / name
        try:
            found = path.stat().st_size
        except OSError as error:
            raise CheckpointError(
                f"load: {path} cannot be read: {error.strerror}; load another checkpoint"
            ) from error
        if found != size:
            raise CheckpointError(
                f"load: {path} has {found} bytes and was saved with {size}: it was cut short or "
                "replaced; load another checkpoint (smex.latest passes over this one)"
            )


def latest(folder: str | os.PathLike) -> str | None:
    """Returns the path of the last complete checkpoint in a folder, or None.

    The last is that with the highest step: `extra["step"]` or, without one, the last number in the
    name; of equal ones the one that was saved last. What is not complete, what a save that was
    killed left behind (`*.tmp-*`), files and other folders do not count; of files the sizes are
    looked at, their sums where they are loaded. `format="hf"` has no optimiser and does not count.

    Args:
        folder: of checkpoints; it need not exist.

    Example:
        >>> smex.latest("/no/such/folder") is None
        True
    """
    found = []
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    for name in names:
        path = os.path.join(os.fspath(folder), name)
        if is_temporary(name) or not os.path.isfile(os.path.join(path, NAME)):
            continue
        try:
            manifest = read(path)
            refuse_incomplete(path, manifest)
        except CheckpointError:
            continue
        numbers = re.findall(r"\d+", name)
        step = manifest.step
        if step is None:
            step = int(numbers[-1]) if numbers else -1
        found.append((step, manifest.time, path))
    return max(found)[2] if found else None


_TEMPORARY = re.compile(r"\.tmp-[0-9a-f]{12}$")


def temporary(path: str, nonce: str) -> str:
    """Returns the name under which a checkpoint is written."""
    return f"{path}.tmp-{nonce}"


def is_temporary(name: str) -> bool:
    """Returns whether a save that did not end left this."""
    return _TEMPORARY.search(name) is not None
