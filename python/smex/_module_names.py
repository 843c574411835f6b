"""Modules that can be imported by a second name, as programs and saved objects know them."""

from __future__ import annotations

import sys
from collections.abc import Mapping


def also_named(package: str, names: Mapping[str, str]) -> None:
    """Gives modules of a package, which are loaded, second names in it.

    An attribute of the package that has such a name already stays what it is.

    Args:
        package: the full name of the package.
        names: for each second name the module's own, both without the package.
    """
    parent = sys.modules[package]
    for name, own in names.items():
        module = sys.modules[f"{package}.{own}"]
        sys.modules[f"{package}.{name}"] = module
        if not hasattr(parent, name):
            setattr(parent, name, module)
