"""Embeddings that are trained on walks or on links."""
