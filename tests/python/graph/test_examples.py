"""The examples in the docstrings of smex.graph run as they stand."""

import doctest
import importlib
import pkgutil
import sys

import pytest
import torch

import smex.graph as sg

MODULES = [m.name for m in pkgutil.walk_packages(sg.__path__, "smex.graph.")]


@pytest.mark.parametrize("name", ["smex.graph", *MODULES])
def test_examples(name):
    importlib.import_module(name)  # some attributes of packages are functions of the same name
    names = {"sg": sg, "torch": torch, "smex": sys.modules["smex"]}
    result = doctest.testmod(sys.modules[name], extraglobs=names, optionflags=doctest.ELLIPSIS)
    assert not result.failed
