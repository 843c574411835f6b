"""Work with times on devices and links: where it is done, and in which order."""

from smex.cluster.dataflow import Dataflow, Placement
from smex.cluster.tasks import Schedule, Tasks

__all__ = ["Dataflow", "Placement", "Schedule", "Tasks"]
