"""SMEX: specified tensor operators, mapped to execution."""

from smex import _logging as _logging  # reads SMEX_LOGS
from smex import _native, errors
from smex._version import __version__
from smex.config import Config, show_config
from smex.errors import (
    CaptureError,
    CaptureWarning,
    CheckpointError,
    MissingSpecWarning,
    MixedRowsWarning,
    PlanError,
    RankFailure,
    SlowPlanWarning,
    SmexError,
    SmexImportError,
    SmexIndexError,
    SmexKeyError,
    SmexRuntimeError,
    SmexTypeError,
    SmexValueError,
    SpecError,
)

if _native.missing_reason is None:
    from smex import cluster, specs
    from smex.capture import capture
    from smex.checkpoint import latest, load, save
    from smex.distributed.diagnose import Diagnosis, diagnose
    from smex.distributed.world import init_processes
    from smex.execution.clipping import clip_grad_norm_
    from smex.execution.initialise import init
    from smex.execution.module import PartitionedModule
    from smex.execution.partition import partition
    from smex.planning.cluster import Cluster
    from smex.planning.coverage import Coverage, coverage
    from smex.planning.machine import Level, Machine
    from smex.planning.pins import Pin, pin
    from smex.planning.plan import Plan
    from smex.planning.profiling import profile
    from smex.planning.search import search
    from smex.planning.semantic import SemanticGraph, capture_graph
    from smex.planning.simulation import Simulation, simulate
    from smex.planning.vertex_costs import VertexCosts
    from smex.tdl import spec
else:

    def __getattr__(name: str) -> object:
        """Names that need the native library say why it is missing."""
        if name in __all__:
            raise SmexImportError(f"smex.{name} cannot be used: {_native.missing_reason}")
        raise AttributeError(f"module 'smex' has no attribute {name!r}")


__all__ = [
    "CaptureError",
    "CaptureWarning",
    "CheckpointError",
    "Cluster",
    "Config",
    "Coverage",
    "Diagnosis",
    "Level",
    "Machine",
    "MissingSpecWarning",
    "MixedRowsWarning",
    "PartitionedModule",
    "Pin",
    "Plan",
    "PlanError",
    "RankFailure",
    "SemanticGraph",
    "Simulation",
    "SlowPlanWarning",
    "SmexError",
    "SmexImportError",
    "SmexIndexError",
    "SmexKeyError",
    "SmexRuntimeError",
    "SmexTypeError",
    "SmexValueError",
    "SpecError",
    "VertexCosts",
    "__version__",
    "capture",
    "capture_graph",
    "clip_grad_norm_",
    "cluster",
    "coverage",
    "diagnose",
    "errors",
    "init",
    "init_processes",
    "latest",
    "load",
    "partition",
    "pin",
    "profile",
    "save",
    "search",
    "show_config",
    "simulate",
    "spec",
    "specs",
]
