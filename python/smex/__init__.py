"""SMEX: specified tensor operators, mapped to execution."""

from typing import TYPE_CHECKING

from smex import _logging as _logging  # reads SMEX_LOGS
from smex import _native, errors
from smex._module_names import loads_later as _loads_later
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
    from smex.capture import capture  # at once: the package of that name would take its place

if TYPE_CHECKING:  # what type checkers and editors know of what is loaded when it is used
    from smex import cluster, specs
    from smex.checkpoint import latest, load, save
    from smex.distributed.diagnose import Diagnosis, diagnose
    from smex.distributed.world import init_processes
    from smex.execution.clipping import clip_grad_norm_
    from smex.execution.initialise.init import init
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
    _find, __dir__ = _loads_later(
        __name__,
        {
            "smex.checkpoint": "latest load save",
            "smex.distributed.diagnose": "Diagnosis diagnose",
            "smex.distributed.world": "init_processes",
            "smex.execution.clipping": "clip_grad_norm_",
            "smex.execution.initialise": "init",
            "smex.execution.module": "PartitionedModule",
            "smex.execution.partition": "partition",
            "smex.planning.cluster": "Cluster",
            "smex.planning.coverage": "Coverage coverage",
            "smex.planning.machine": "Level Machine",
            "smex.planning.pins": "Pin pin",
            "smex.planning.plan": "Plan",
            "smex.planning.profiling": "profile",
            "smex.planning.search": "search",
            "smex.planning.semantic": "SemanticGraph capture_graph",
            "smex.planning.simulation": "Simulation simulate",
            "smex.planning.vertex_costs": "VertexCosts",
            "smex.specs": "spec",
        },
        modules="checkpoint cluster distributed execution planning specs tdl",
    )

    def __getattr__(name: str) -> object:
        """Loads what is used; names that need the native library say why it is missing."""
        if _native.missing_reason is not None and name in __all__:
            raise SmexImportError(f"smex.{name} cannot be used: {_native.missing_reason}")
        return _find(name)


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
