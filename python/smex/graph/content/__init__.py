"""What graphs are made of, from arrays of ids, matrices and networkx graphs."""
