"""Initialisation of nets: recorded as calls, computed tile by tile."""

from smex.execution.initialise.init import init

__all__ = ["init"]
