"""Graphs from graphs: parts, batches, blocks, other types, and what is derived of a structure."""
