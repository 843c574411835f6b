"""Names of modules: second ones, as programs and saved objects know them, and late ones."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any


def also_named(package: str, names: Mapping[str, str]) -> None:
    """Gives modules of a package, which are loaded, second names in it.

    An attribute of the package that has such a name already stays what it is.

    Args:
        package: the full name of the package.
        names: for each second name the module's own, both without the package; "" is the package.
            A name with dots comes after that of the module above it.
    """
    parent = sys.modules[package]
    if not hasattr(parent, "__path__"):
        parent.__path__ = []  # imports of names in a module look whether it is a package
    for name, own in names.items():
        module = sys.modules[f"{package}.{own}" if own else package]
        sys.modules[f"{package}.{name}"] = module
        above, _, last = name.rpartition(".")
        holder = sys.modules[f"{package}.{above}"] if above else parent
        if not hasattr(holder, last):
            setattr(holder, last, module)


def falls_back(package: str, modules: Iterable[str]) -> None:
    """Lets a package's modules, which are loaded, be asked for names that only the package has.

    Args:
        package: its full name.
        modules: their names without the package.
    """
    for module in modules:
        own = sys.modules[f"{package}.{module}"]
        vars(own)["__getattr__"] = _of_package(own, sys.modules[package])


def loads_later(
    package: str, names: Mapping[str, str], modules: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns ``__getattr__`` and ``__dir__`` of a package that loads names when they are used.

    Args:
        package: its full name, which is loaded or being so.
        names: for each module, by its full name, those of its names that are the package's too,
            with spaces between them.
        modules: names of modules of the package itself.
    """
    places = {name: module for module, some in names.items() for name in some.split()}
    own = modules.split()

    def find(name: str) -> Any:
        if name in places:
            found = getattr(importlib.import_module(places[name]), name)
        elif name in own:
            found = importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        vars(sys.modules[package])[name] = found
        return found

    def known() -> list[str]:
        return sorted({*vars(sys.modules[package]), *places, *own})

    return find, known


def _of_package(module: ModuleType, package: ModuleType) -> Any:
    def find(name: str) -> Any:
        if name.startswith("__") or name not in vars(package):
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        return vars(package)[name]

    return find
