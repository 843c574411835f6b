"""Devices that differ, and work with times on them: where it is done, and in which order."""

from smex.cluster.dataflow import Dataflow, Placement
from smex.cluster.profiling import profile
from smex.cluster.tasks import Schedule, Tasks
from smex.planning.cluster import Cluster, Device, Link, heterog_testbed, mixed_nodes

__all__ = [
    "Cluster",
    "Dataflow",
    "Device",
    "Link",
    "Placement",
    "Schedule",
    "Tasks",
    "heterog_testbed",
    "mixed_nodes",
    "profile",
]
