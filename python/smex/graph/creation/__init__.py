"""Graphs from and to arrays, matrices, networkx, PyG and files, and random ones."""
