"""Layers and graphs of points in space: molecules, point clouds."""
