"""The function that DGL's pickles begin objects with."""

from smex.graph.creation.dgl_pickles import new_object as _new_object

__all__ = ["_new_object"]
