"""Layers for several node and edge types."""
