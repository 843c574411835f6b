"""Devices that differ: work with times on resources, and the order that it is done in."""

from smex.cluster.tasks import Schedule, Tasks

__all__ = ["Schedule", "Tasks"]
