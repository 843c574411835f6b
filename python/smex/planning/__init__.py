"""Plans: what a graph means, what is asked of a search, what it finds."""
