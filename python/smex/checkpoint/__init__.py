"""Checkpoints: a net and its optimisers in files, for any number of workers."""

from smex.checkpoint.loading import load
from smex.checkpoint.manifest import latest
from smex.checkpoint.saving import Save, save

__all__ = ["Save", "latest", "load", "save"]
