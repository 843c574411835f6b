"""What a graph is, and how it is asked, changed, moved and shown: the bases of its class."""
