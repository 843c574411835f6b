"""Devices that differ, and work with times on them: where it is done, and in which order."""

from smex.cluster.comparing import Comparison, Measured, compare
from smex.cluster.dataflow import Dataflow, Placement
from smex.cluster.planners import Found, plan
from smex.cluster.policy import Policy, Sizes
from smex.cluster.profiling import profile
from smex.cluster.runner import Runner, RunnerConfig, RunReport, get_runner
from smex.cluster.strategies import Evaluation, Strategies
from smex.cluster.tasks import Schedule, Tasks
from smex.planning.cluster import Cluster, Device, Link, heterog_testbed, mixed_nodes

__all__ = [
    "Cluster",
    "Comparison",
    "Dataflow",
    "Device",
    "Evaluation",
    "Found",
    "Link",
    "Measured",
    "Placement",
    "Policy",
    "RunReport",
    "Runner",
    "RunnerConfig",
    "Schedule",
    "Sizes",
    "Strategies",
    "Tasks",
    "compare",
    "get_runner",
    "heterog_testbed",
    "mixed_nodes",
    "plan",
    "profile",
]
