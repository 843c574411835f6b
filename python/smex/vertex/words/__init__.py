"""What users say: a function of a vertex, input graphs, options, and cells to start from."""
