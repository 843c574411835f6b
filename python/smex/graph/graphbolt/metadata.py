"""What a data set's YAML file says."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from smex.errors import SmexValueError

__all__ = [
    "OnDiskFeatureData",
    "OnDiskGraphTopology",
    "OnDiskMetaData",
    "OnDiskTVTSet",
    "OnDiskTVTSetData",
    "OnDiskTaskData",
]

_FORMATS = ("torch", "numpy")
_DOMAINS = ("node", "edge", "graph")


def _checked(where: str, field: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise SmexValueError(
            f"{where}: expected {field} to be one of {', '.join(known)}, found {value!r}"
        )


@dataclasses.dataclass
class OnDiskTVTSetData:
    """A part of the items: a file."""

    format: str
    path: str
    name: str | None = None
    in_memory: bool = True

    def __post_init__(self) -> None:
        _checked(f'"{self.path}"', "format", self.format, _FORMATS)


@dataclasses.dataclass
class OnDiskTVTSet:
    """The items of a type."""

    data: list[OnDiskTVTSetData]
    type: str | None = None


@dataclasses.dataclass
class OnDiskFeatureData:
    """A feature: a file, and what else the YAML file says of it.

    Raises:
        SmexValueError: the domain or format is unknown.
    """

    domain: str
    name: str
    format: str
    path: str
    type: str | None = None
    in_memory: bool = True
    extra_fields: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        _checked(f'feature "{self.name}"', "domain", self.domain, _DOMAINS)
        _checked(f'feature "{self.name}"', "format", self.format, _FORMATS)


@dataclasses.dataclass
class OnDiskGraphTopology:
    """A graph: a file."""

    type: str
    path: str


@dataclasses.dataclass
class OnDiskTaskData:
    """A task: its items, and what else the YAML file says of it."""

    train_set: list[OnDiskTVTSet] = dataclasses.field(default_factory=list)
    validation_set: list[OnDiskTVTSet] = dataclasses.field(default_factory=list)
    test_set: list[OnDiskTVTSet] = dataclasses.field(default_factory=list)
    extra_fields: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class OnDiskMetaData:
    """What a YAML file says, but for the graph's own files."""

    dataset_name: str | None = None
    graph_topology: OnDiskGraphTopology | None = None
    feature_data: list[OnDiskFeatureData] = dataclasses.field(default_factory=list)
    tasks: list[OnDiskTaskData] = dataclasses.field(default_factory=list)


def read_fields(kind: Any, where: str, content: Any) -> Any:
    """Returns an object of one of the above, made of what YAML has.

    Raises:
        SmexValueError: something is missing, or is not known where nothing else may be said.
    """
    if not isinstance(content, Mapping):
        raise SmexValueError(f"{where}: expected fields with values, found {content!r}")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    needed = {
        name
        for name, field in fields.items()
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    missing = sorted(needed - content.keys())
    if missing:
        raise SmexValueError(f"{where}: expected the fields {', '.join(missing)}, found {content}")
    own = {name: value for name, value in content.items() if name in fields and value is not None}
    others = {name: value for name, value in content.items() if name not in fields}
    if "extra_fields" in fields:
        own["extra_fields"] = {**others, **own.get("extra_fields", {})}
    return kind(**own)
