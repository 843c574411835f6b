"""Transformers on graphs: dense attention with encodings of the structure."""
