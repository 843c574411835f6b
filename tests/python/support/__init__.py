"""What several tests share: models, graphs, calls, and what they compare with."""
