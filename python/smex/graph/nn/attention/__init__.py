"""Layers that weigh neighbours by attention."""
