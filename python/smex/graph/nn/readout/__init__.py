"""From rows of nodes to one row for each graph."""
