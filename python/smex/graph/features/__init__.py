"""Features of nodes and edges: frames of named columns."""
