"""Layers that aggregate neighbours, without attention and for one edge type."""
