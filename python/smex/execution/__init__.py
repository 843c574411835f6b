"""Nets that run on several workers: the shards of a model, and the programs of its calls."""
