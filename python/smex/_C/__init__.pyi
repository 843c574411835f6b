# Made by `make stubs` from what csrc/bindings declares.
"""
The native library of SMEX; use it through the Python modules of smex.
"""

from __future__ import annotations
import collections.abc
import numpy
import numpy.typing
import torch
import torch.distributed.distributed_c10d
import typing
from . import tdl

__all__: list[str] = [
    "Binding",
    "Call",
    "Calls",
    "Cluster",
    "Collective",
    "Communicator",
    "ComputeInstr",
    "Contents",
    "CopyPart",
    "CudaAutocastOnCpu",
    "Dataflow",
    "EdgeWalk",
    "Evaluation",
    "Exchange",
    "Executor",
    "FEATURES",
    "Failure",
    "FeatureSums",
    "FetchInstr",
    "FoundPlan",
    "FreeInstr",
    "Given",
    "Graph",
    "IdlePin",
    "LargestInstr",
    "Machine",
    "Made",
    "MeasuredCall",
    "Message",
    "MessageOperation",
    "MoveInstr",
    "Op",
    "OutputKind",
    "Packet",
    "Placement",
    "PlainArguments",
    "Plan",
    "Program",
    "Recorder",
    "Request",
    "Role",
    "SearchOptions",
    "Segment",
    "Session",
    "SizedGraph",
    "Source",
    "SpillBlock",
    "SpillProblem",
    "SpillSchedule",
    "Strategies",
    "TaskGraph",
    "TaskLoop",
    "TaskPlan",
    "TaskSchedule",
    "Tasks",
    "Timeline",
    "TooLarge",
    "Use",
    "Value",
    "ValueRef",
    "VertexSchedule",
    "VertexTask",
    "Watcher",
    "WorkerProgram",
    "best_plan",
    "build_id",
    "call_seconds",
    "candidates",
    "coarse_sizes",
    "coordinate_of",
    "cut",
    "cut_by_shares",
    "cut_of",
    "default_mesh",
    "digest",
    "edge_walks",
    "find_collectives",
    "gather_outputs",
    "hang_at_end",
    "heaviest_point",
    "held_bytes",
    "home_tiles",
    "is_only",
    "largest_instr",
    "list_exchanges",
    "list_order",
    "live_bytes",
    "lower",
    "measure_calls",
    "merge_inputs",
    "message_operations",
    "min_max_ranges",
    "moved_bytes",
    "only_at",
    "op_bytes",
    "op_prices",
    "parameter_bytes",
    "parameter_bytes_by_worker",
    "parse_message",
    "peak_bytes",
    "peak_of_calls",
    "plan_bytes",
    "plan_for_other_sizes",
    "planners",
    "predicted_seconds",
    "price",
    "relayout",
    "relayout_program",
    "sample_collective",
    "schedule_transfers",
    "search",
    "seconds_before",
    "simulate",
    "spill",
    "spill_problem",
    "spilled_bytes",
    "tdl",
    "tile_call",
    "vertex_levels",
    "vertex_schedule",
    "walked_rows",
    "weighted",
    "weighting_of",
    "with_order",
    "writes_into",
]

class ValueRef:
    """
    A tensor operand; -1 is an absent one.
    """
    def __init__(self, id: int) -> None: ...
    @property
    def id(self) -> int: ...

class Role:
    """
    Members:

      parameter

      buffer

      input

      tangent

      constant

      intermediate
    """

    __members__: typing.ClassVar[dict[str, Role]]
    buffer: typing.ClassVar[Role]
    constant: typing.ClassVar[Role]
    input: typing.ClassVar[Role]
    intermediate: typing.ClassVar[Role]
    parameter: typing.ClassVar[Role]
    tangent: typing.ClassVar[Role]
    @typing.overload
    def __eq__(self, other: Role) -> bool: ...
    @typing.overload
    def __eq__(self, other: typing.Any) -> bool: ...
    def __getstate__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __index__(self) -> int: ...
    def __init__(self, value: int) -> None: ...
    def __int__(self) -> int: ...
    @typing.overload
    def __ne__(self, other: Role) -> bool: ...
    @typing.overload
    def __ne__(self, other: typing.Any) -> bool: ...
    def __repr__(self) -> str: ...
    def __setstate__(self, state: int) -> None: ...
    def __str__(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...

class OutputKind:
    """
    Members:

      output

      gradient

      buffer_update
    """

    __members__: typing.ClassVar[dict[str, OutputKind]]
    buffer_update: typing.ClassVar[OutputKind]
    gradient: typing.ClassVar[OutputKind]
    output: typing.ClassVar[OutputKind]
    @typing.overload
    def __eq__(self, other: OutputKind) -> bool: ...
    @typing.overload
    def __eq__(self, other: typing.Any) -> bool: ...
    def __getstate__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __index__(self) -> int: ...
    def __init__(self, value: int) -> None: ...
    def __int__(self) -> int: ...
    @typing.overload
    def __ne__(self, other: OutputKind) -> bool: ...
    @typing.overload
    def __ne__(self, other: typing.Any) -> bool: ...
    def __repr__(self) -> str: ...
    def __setstate__(self, state: int) -> None: ...
    def __str__(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...

class Value:
    @property
    def dtype(self) -> str: ...
    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def role(self) -> Role: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def users(self) -> list[int]: ...

class Op:
    @property
    def backward(self) -> bool: ...
    @property
    def id(self) -> int: ...
    @property
    def inputs(self) -> list[int]: ...
    @property
    def module_path(self) -> str: ...
    @property
    def outputs(self) -> list[int]: ...
    @property
    def region(self) -> int: ...
    @property
    def source(self) -> str: ...
    @property
    def spec(self) -> tdl.Spec: ...
    @property
    def target(self) -> str: ...

class Graph:
    """
    The semantic graph; values and ops are numbered from 0.
    """
    def __init__(self) -> None: ...
    def __str__(self) -> str: ...
    def add_fusion(
        self,
        target: str,
        args: list,
        outputs: collections.abc.Sequence[int],
        spec: tdl.Spec,
        local: collections.abc.Sequence[tuple[int, str]],
        module_path: str,
        source: str,
        backward: bool,
        random: bool,
        region: int,
        members: collections.abc.Sequence[int],
    ) -> None: ...
    def add_op(
        self,
        target: str,
        args: list,
        outputs: collections.abc.Sequence[int],
        spec: tdl.Spec,
        local: collections.abc.Sequence[tuple[int, str]],
        module_path: str,
        source: str,
        backward: bool,
        random: bool = False,
        region: int = -1,
    ) -> int: ...
    def add_output(self, value: int, kind: OutputKind, name: str, target: int) -> None: ...
    def add_value(
        self, name: str, shape: collections.abc.Sequence[int], dtype: str, itemsize: int, role: Role
    ) -> int: ...
    def runs_again(self) -> list[bool]:
        """
        By op whether the backward pass runs it once more.
        """
    def verify(self) -> None: ...
    def with_boundaries(
        self, boundaries: collections.abc.Mapping[int, collections.abc.Sequence[int]]
    ) -> Graph:
        """
        A copy, whose vertices are cut at these ends by their number, and edges as theirs.
        """
    def with_regions(self, regions: collections.abc.Sequence[int]) -> Graph:
        """
        A copy, in which each op is part of such a region, or -1.
        """
    def with_weightings(
        self, weightings: collections.abc.Sequence[tuple[str, collections.abc.Sequence[float]]]
    ) -> Graph:
        """
        A copy, of which plans may cut in these proportions, by worker.
        """
    @property
    def num_input_elements(self) -> int: ...
    @property
    def ops(self) -> list[Op]: ...
    @property
    def ops_without_spec(self) -> list[int]:
        """
        Ids of the ops that run unsplit.
        """
    @property
    def regions(self) -> list[int]:
        """
        By op the region that the backward pass runs again with it; -1 for none.
        """
    @property
    def values(self) -> list[Value]: ...

class SizedGraph:
    """
    A graph of which numbers and Specs are a call's own.
    """
    def __init__(self, graph: Graph) -> None: ...
    def at(
        self,
        numbers: collections.abc.Sequence,
        meanings: collections.abc.Sequence[tuple[int, typing.Any]],
    ) -> Graph:
        """
        The graph of one call: its numbers, and each meaning as (a call that has it, what smex.specs.instantiate returns of it).
        """
    def place_argument(self, call: int, arg: int, element: int, number: int) -> None: ...
    def place_meaning(self, call: int, meaning: int) -> None: ...
    def place_size(self, value: int, dim: int, number: int) -> None: ...

class CopyPart:
    """
    A part of a peer's slot into one of the destination.
    """
    def __init__(
        self,
        worker: int,
        slot: int,
        source: collections.abc.Sequence[tuple[int, int]],
        dest: collections.abc.Sequence[tuple[int, int]],
        source_list: tuple[int, collections.abc.Sequence[int]] | None = None,
        dest_list: tuple[int, collections.abc.Sequence[int]] | None = None,
    ) -> None:
        """
        A list is a dimension and the indices of it that count.
        """
    @property
    def slot(self) -> int: ...
    @property
    def source(self) -> list[tuple[int, int]]: ...
    @property
    def worker(self) -> int: ...

class ComputeInstr:
    """
    An operator call; ValueRef ids are slots.
    """
    def __init__(
        self,
        target: str,
        args: list,
        outputs: collections.abc.Sequence[int],
        op: int = -1,
        crop: collections.abc.Sequence[tuple[int, int]] = [],
        output_shapes: collections.abc.Sequence[collections.abc.Sequence[int]] = [],
    ) -> None: ...
    @property
    def op(self) -> int: ...
    @property
    def outputs(self) -> list[int]: ...
    @property
    def target(self) -> str: ...
    @property
    def what(self) -> str: ...

class FetchInstr:
    """
    Assembles a slot from parts of several workers' slots.
    """
    def __init__(
        self,
        dest: int,
        shape: collections.abc.Sequence[int],
        dtype: str,
        parts: collections.abc.Sequence[CopyPart],
        reduce: str | None = None,
        fill: float = 0.0,
        view: bool = False,
        kind: str = "fetch",
        value: int = -1,
        relayout: int = -1,
        due: int = -1,
    ) -> None: ...
    @property
    def dest(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def due(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def parts(self) -> list[CopyPart]: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def value(self) -> int: ...
    @property
    def view(self) -> bool: ...

class FreeInstr:
    """
    Drops the worker's own reference to a slot.
    """
    def __init__(self, slot: int) -> None: ...

class MoveInstr:
    """
    Moves what slots share between the device and the host: "spill", "drop" or "restore".
    """
    @property
    def bytes(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def slots(self) -> list[int]: ...

class WorkerProgram:
    def __init__(
        self,
        num_slots: int,
        forward: list,
        backward: list = [],
        remote_reads: collections.abc.Sequence[int] = [],
        slot_names: collections.abc.Sequence[str] = [],
        slot_itemsizes: collections.abc.Sequence[int] = [],
    ) -> None: ...
    @property
    def backward(self) -> list: ...
    @property
    def forward(self) -> list: ...

class Binding:
    """
    Each worker's slot (-1: none) and region of a graph input.
    """
    def __init__(
        self,
        value: int,
        slots: collections.abc.Sequence[int],
        regions: collections.abc.Sequence[collections.abc.Sequence[tuple[int, int]]] = [],
    ) -> None: ...
    @property
    def regions(self) -> list[list[tuple[int, int]]]: ...
    @property
    def slots(self) -> list[int]: ...
    @property
    def value(self) -> int: ...

class Program:
    """
    One instruction list per worker.
    """
    def __init__(
        self,
        workers: collections.abc.Sequence[WorkerProgram],
        inputs: collections.abc.Sequence[Binding],
        outputs: collections.abc.Sequence[Binding],
    ) -> None: ...
    def __str__(self) -> str: ...
    @property
    def device_memory(self) -> int:
        """
        Bytes of each worker's device; 0 where nothing is on the host.
        """
    @property
    def inputs(self) -> list[Binding]: ...
    @property
    def num_workers(self) -> int: ...
    @property
    def outputs(self) -> list[Binding]: ...
    @property
    def sums_by_peer(self) -> int:
        """
        Calls that add up what edges bring by the peers that it comes from.
        """
    @property
    def workers(self) -> list[WorkerProgram]: ...

class Collective:
    """
    A relayout that is a collective of groups of processes.
    """
    @property
    def backward(self) -> bool: ...
    @property
    def bytes(self) -> int: ...
    @property
    def groups(self) -> list[list[int]]: ...
    @property
    def kind(self) -> str: ...
    @property
    def relayout(self) -> int: ...

class Message:
    """
    All packets of a relayout from one process to another.
    """
    def __repr__(self) -> str: ...
    @property
    def dest(self) -> int: ...
    @property
    def relayout(self) -> int: ...
    @property
    def source(self) -> int: ...

class Packet:
    """
    What one process sends another at once.
    """
    @property
    def bytes(self) -> int: ...
    @property
    def dest(self) -> int: ...
    @property
    def source(self) -> int: ...

class Exchange:
    """
    A round of what one relayout moves between processes.
    """
    @property
    def collective(self) -> str | None: ...
    @property
    def kind(self) -> str: ...
    @property
    def packets(self) -> list[Packet]: ...
    @property
    def relayout(self) -> int: ...
    @property
    def value(self) -> int: ...

class Plan:
    by_peer: bool
    exact: bool
    planner: str
    def __init__(self) -> None: ...
    @property
    def compute_seconds(self) -> float: ...
    @compute_seconds.setter
    def compute_seconds(self, arg0: float) -> None: ...
    @property
    def fits(self) -> bool: ...
    @property
    def gap(self) -> float: ...
    @gap.setter
    def gap(self, arg0: float) -> None: ...
    @property
    def mesh(self) -> list[int]: ...
    @mesh.setter
    def mesh(self, arg0: collections.abc.Sequence[int]) -> None: ...
    @property
    def ops(self) -> list[list[int]]: ...
    @ops.setter
    def ops(self, arg0: collections.abc.Sequence[collections.abc.Sequence[int]]) -> None: ...
    @property
    def order(self) -> list[int]: ...
    @order.setter
    def order(self, arg0: collections.abc.Sequence[int]) -> None: ...
    @property
    def search_seconds(self) -> float: ...
    @search_seconds.setter
    def search_seconds(self, arg0: float) -> None: ...
    @property
    def step_bytes(self) -> list[int]: ...
    @step_bytes.setter
    def step_bytes(self, arg0: collections.abc.Sequence[int]) -> None: ...
    @property
    def step_seconds(self) -> list[float]: ...
    @step_seconds.setter
    def step_seconds(self, arg0: collections.abc.Sequence[float]) -> None: ...
    @property
    def values(self) -> list[list[int]]: ...
    @values.setter
    def values(self, arg0: collections.abc.Sequence[collections.abc.Sequence[int]]) -> None: ...

class Machine:
    """
    A machine as the steps of a mesh see it.
    """
    def whole_seconds(self, graph: Graph, workers: int) -> list[float]:
        """
        By worker the seconds of all calls of a graph that nobody divides.
        """
    @property
    def links(self) -> list[tuple[float, float, float]]:
        """
        (latency, bandwidth, overlap) by step.
        """

class Timeline:
    """
    How an iteration goes by, in seconds; lists are by worker.
    """
    def __repr__(self) -> str: ...
    def critical_path(self) -> list[tuple[bool, int, int]]:
        """
        (is a message, worker, number of its instruction or message), each what the next waited for.
        """
    def instructions(self, program: Program) -> list[list[tuple[str, str, float, float]]]:
        """
        By worker (name, kind, begin, end) of each instruction, in the order in which they ran.
        """
    def positions(self, program: Program) -> list[list[int]]:
        """
        By worker where each of these instructions stands, counted through both lists.
        """
    def transfers(self) -> list[tuple[int, int, int, float, float, float]]:
        """
        (relayout, from, to, begin, arrives, bytes) of each message between processes.
        """
    @property
    def busy(self) -> list[float]: ...
    @property
    def least(self) -> float: ...
    @property
    def messages(self) -> typing.Annotated[list[list[Message]], "FixedSize(2)"]: ...
    @property
    def seconds(self) -> float: ...
    @property
    def transferred(self) -> list[float]: ...
    @property
    def waiting(self) -> list[float]: ...

class Cluster:
    """
    All workers of a machine, by levels.
    """
    @staticmethod
    def of_unlike(
        name: str,
        kinds: collections.abc.Sequence[
            tuple[
                collections.abc.Mapping[int, float],
                float,
                float,
                float,
                collections.abc.Mapping[
                    str,
                    collections.abc.Mapping[
                        int,
                        tuple[
                            typing.Annotated[collections.abc.Sequence[float], "FixedSize(5)"],
                            collections.abc.Sequence[
                                typing.Annotated[collections.abc.Sequence[float], "FixedSize(4)"]
                            ],
                        ],
                    ],
                ],
            ]
        ],
        kind_of: collections.abc.Sequence[int],
        links: collections.abc.Sequence[collections.abc.Sequence[tuple[float, float, float]]],
        nodes: collections.abc.Sequence[int],
    ) -> Cluster: ...
    def __init__(
        self,
        name: str,
        flops: collections.abc.Mapping[int, float],
        memory_bandwidth: float,
        launch: float,
        levels: collections.abc.Sequence[tuple[int, float, float, float]],
        gather_bandwidth: float,
        calls: collections.abc.Mapping[
            str,
            collections.abc.Mapping[
                int,
                tuple[
                    typing.Annotated[collections.abc.Sequence[float], "FixedSize(5)"],
                    collections.abc.Sequence[
                        typing.Annotated[collections.abc.Sequence[float], "FixedSize(4)"]
                    ],
                ],
            ],
        ],
    ) -> None: ...
    def levels_of(self, mesh: collections.abc.Sequence[int]) -> list[int]: ...
    def mesh(self, workers: int) -> list[int] | None: ...
    def on(self, mesh: collections.abc.Sequence[int]) -> Machine: ...

class SpillBlock:
    """
    A piece of memory and the steps that use it.
    """
    def __init__(
        self,
        bytes: int,
        uses: collections.abc.Sequence[int],
        on_host: bool = False,
        kept: bool = False,
    ) -> None: ...
    @property
    def bytes(self) -> int: ...
    @bytes.setter
    def bytes(self, arg0: int) -> None: ...
    @property
    def kept(self) -> bool: ...
    @property
    def on_host(self) -> bool: ...
    @property
    def uses(self) -> list[int]: ...

class SpillProblem:
    """
    Which blocks are on a device of so many bytes at which step?
    """
    def __init__(
        self, num_steps: int, capacity: int, blocks: collections.abc.Sequence[SpillBlock]
    ) -> None: ...
    def bytes_of_steps(self) -> list[int]: ...
    @property
    def blocks(self) -> list[SpillBlock]: ...
    @property
    def capacity(self) -> int: ...
    @capacity.setter
    def capacity(self, arg0: int) -> None: ...
    @property
    def num_steps(self) -> int: ...

class SpillSchedule:
    """
    Which blocks leave the device before which step.
    """
    @property
    def dropped(self) -> list[list[int]]: ...
    @property
    def least(self) -> int:
        """
        Bytes that no schedule is below; 0 where that was not asked for.
        """
    @property
    def to_device(self) -> int: ...
    @property
    def to_host(self) -> int: ...

class LargestInstr:
    """
    The instruction that takes the most memory.
    """
    @property
    def bytes(self) -> int: ...
    @property
    def text(self) -> str: ...
    @property
    def worker(self) -> int: ...

class SearchOptions:
    def __init__(
        self,
        *,
        planner: str = "tofu",
        objective: str = "communication",
        machine: Cluster | None = None,
        memory_limit: float | None = None,
        optimizer_states: float = 0.0,
        replicate_bytes: int = 65536,
        refine: bool | None = None,
        joint: int = 1,
        seed: int = 0,
        views: collections.abc.Set[str] = set(),
        pinned: collections.abc.Mapping[int, collections.abc.Sequence[int]] = {},
        merge: int | None = None,
        max_unmerged: int = 2000,
        recompute: bool = False,
        weighting: int = 0,
        memory_scale: collections.abc.Sequence[float] = [],
    ) -> None: ...

class Request:
    def __init__(self, mesh: collections.abc.Sequence[int], options: SearchOptions) -> None: ...
    def place(
        self,
        pins: collections.abc.Sequence[tuple[int, collections.abc.Sequence[int]]],
        shards: collections.abc.Mapping[
            int,
            tuple[
                collections.abc.Sequence[int],
                collections.abc.Sequence[tuple[bool, collections.abc.Sequence[tuple[int, int]]]],
            ],
        ],
    ) -> None:
        """
        Gives (value, placement) for each pin, and by value what exists already: its placement, and (held, bounds) for each worker.
        """
    @property
    def joint(self) -> int: ...
    @property
    def mesh(self) -> list[int]: ...

class Evaluation:
    """
    What an iteration of a strategy takes.
    """
    @property
    def critical(self) -> list[float]: ...
    @property
    def parameter_bytes(self) -> list[int]: ...
    @property
    def peak_bytes(self) -> list[int]: ...
    @property
    def seconds(self) -> float: ...

class Strategies:
    """
    By group of ops the number of an action, (worker, base, homes): worker -1 is all of them, as in the data-parallel plan `base`, with parameters of one worker each where `homes`.
    """
    def __init__(
        self,
        graph: Graph,
        bases: collections.abc.Sequence[Plan],
        actions: collections.abc.Sequence[tuple[int, int, bool]],
        group_of: collections.abc.Sequence[int],
        machine: Machine,
        views: collections.abc.Set[str],
    ) -> None: ...
    def evaluate(
        self, strategies: collections.abc.Sequence[collections.abc.Sequence[int]]
    ) -> list[Evaluation]:
        """
        Simulates an iteration of each, several at once.
        """
    def plan(self, strategy: collections.abc.Sequence[int]) -> Plan: ...

class FoundPlan:
    def take_program(self) -> Program:
        """
        The program of the plan, once, where the search has lowered it; otherwise None.
        """
    @property
    def peak_bytes(self) -> list[int]: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def replicate_bytes(self) -> int: ...

class TooLarge:
    @property
    def conflict(self) -> list[int]: ...
    @property
    def enough_workers(self) -> int | None: ...
    @property
    def kept(self) -> float: ...
    @property
    def op(self) -> int: ...
    @property
    def peak(self) -> float: ...
    @property
    def workers(self) -> int: ...

class IdlePin:
    @property
    def pin(self) -> int: ...
    @property
    def placement(self) -> list[int]: ...
    @property
    def worker(self) -> int: ...

class EdgeWalk:
    """
    How a call walks a graph's edges.
    """
    @property
    def op(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def structure(self) -> tuple[int, int, int]:
        """
        Equal for walks of equal features.
        """
    @property
    def width(self) -> int: ...

class FeatureSums:
    def __init__(self, walk: EdgeWalk) -> None: ...
    def of(self, begin: int, end: int) -> typing.Annotated[list[float], "FixedSize(8)"]:
        """
        ROC's five features of the vertices of a range, and three of what misses caches.
        """

class TaskSchedule:
    """
    When tasks run.
    """
    def critical_path(self) -> list[int]: ...
    def order(self) -> numpy.typing.NDArray[numpy.int32]: ...
    @property
    def begins(self) -> numpy.typing.NDArray[numpy.float64]: ...
    @property
    def causes(self) -> numpy.typing.NDArray[numpy.int32]: ...
    @property
    def ends(self) -> numpy.typing.NDArray[numpy.float64]: ...
    @property
    def makespan(self) -> float: ...

class TaskGraph:
    """
    Tasks that wait for others and occupy resources.
    """
    def __init__(self, num_resources: int) -> None: ...
    def __len__(self) -> int: ...
    def add(
        self,
        seconds: float,
        resources: collections.abc.Sequence[int],
        after: collections.abc.Sequence[int],
    ) -> int: ...
    def before(self, arg0: int) -> list[int]: ...
    def by_priority(
        self, arg0: typing.Annotated[numpy.typing.ArrayLike, numpy.float64]
    ) -> TaskSchedule: ...
    def first_come(self) -> TaskSchedule: ...
    def in_order(
        self, arg0: typing.Annotated[numpy.typing.ArrayLike, numpy.int32]
    ) -> TaskSchedule: ...
    def least_makespan(self) -> float: ...
    def loads(self) -> numpy.typing.NDArray[numpy.float64]: ...
    def resources(self, arg0: int) -> list[int]: ...
    def seconds(self, arg0: int) -> float: ...
    def shortest_of_lists(self) -> TaskSchedule: ...
    def upward_ranks(self) -> numpy.typing.NDArray[numpy.float64]: ...
    @property
    def num_resources(self) -> int: ...
    @property
    def num_used_resources(self) -> int: ...

class Placement:
    """
    Devices of operators, and what they make.
    """
    @property
    def calls(self) -> int: ...
    @property
    def devices(self) -> numpy.typing.NDArray[numpy.int32]: ...
    @property
    def makespan(self) -> float: ...

class Dataflow:
    """
    Operators on like devices.
    """
    def __init__(
        self,
        devices: int,
        compute: collections.abc.Sequence[float],
        transfer: collections.abc.Sequence[float],
        edges: collections.abc.Sequence[tuple[int, int]],
    ) -> None: ...
    def __len__(self) -> int: ...
    def anneal(
        self,
        start: collections.abc.Sequence[int],
        calls: int,
        seed: int,
        progress: collections.abc.Callable[[int, float], None] | None = None,
    ) -> Placement: ...
    def makespan(self, arg0: typing.Annotated[numpy.typing.ArrayLike, numpy.int32]) -> float: ...

class Failure:
    """
    What ended the work of several processes.
    """
    def message(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def rank(self) -> int | None: ...
    @property
    def text(self) -> str: ...
    @property
    def where(self) -> str: ...

class Watcher:
    """
    Tells each process of a group in bounded time that another one has failed. `store` is of torch.distributed, with keys for this group of watchers alone; times are in seconds. A process that is forked later makes its own.
    """
    def __init__(
        self,
        store: torch.distributed.distributed_c10d.Store,
        rank: int,
        size: int,
        interval: float = 0.5,
        limit: float = 4.0,
        arrival: float = 300.0,
    ) -> None: ...
    def arrived(self, rank: int) -> bool:
        """
        Whether a rank has come, from which on its end is noticed.
        """
    def check(self, ranks: collections.abc.Sequence[int] = []) -> None:
        """
        Raises what failure_awaiting returns.
        """
    def failure(self) -> Failure | None:
        """
        The first failure, or None.
        """
    def failure_awaiting(self, ranks: collections.abc.Sequence[int]) -> Failure | None:
        """
        The first failure, also where one of `ranks` left a while ago, or None.
        """
    def leave(self) -> None:
        """
        Says goodbye and ends the threads.
        """
    def left(self, rank: int) -> bool:
        """
        Whether a rank has said goodbye.
        """
    def report(self, text: str, where: str = "", rank: int | None = None) -> Failure:
        """
        Makes a failure known to all ranks, by default one of this rank, and returns the first that is known.
        """
    def settle(
        self, text: str, where: str = "", rank: int | None = None, patience: float | None = None
    ) -> Failure:
        """
        For an error that may follow from another rank's failure: waits for that one for a while, and reports this one where there is none.
        """
    def wait(self, seconds: float) -> Failure | None:
        """
        The first failure, waited for, or None.
        """
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...

class Recorder:
    """
    The last 256 instructions and exchanges of a process.
    """
    @staticmethod
    def seconds_per_entry(entries: int) -> float:
        """
        Measures what an entry takes from C++, with both of its times.
        """
    def __init__(self) -> None: ...
    def begin(
        self,
        text: str,
        *,
        exchange: bool = False,
        phase: str = "other",
        run: int = 0,
        worker: int = 0,
        number: int = 0,
        bytes: int = 0,
        peer: int | None = None,
    ) -> int:
        """
        Enters what begins now and returns its ticket; an exchange has the same number in all processes.
        """
    def dump(self, folder: str, rank: int, size: int, failure: Failure | None = None) -> str:
        """
        Writes rank-<rank>.json to a folder, which is made, and returns its path.
        """
    def end(self, ticket: int) -> None: ...

class Segment:
    """
    Memory in which a process puts what it sends to others of its host.
    """
    @staticmethod
    def create(path: str, rank: int, size: int, lane_bytes: int) -> Segment: ...
    @staticmethod
    def open(path: str) -> Segment: ...

class Communicator:
    """
    How the processes of one plan reach each other. `hosts` has a number for each process, equal ones share memory, -1 with nobody; `segments` each process's memory as it is mapped here.
    """
    def __init__(
        self,
        rank: int,
        group: torch.distributed.distributed_c10d.ProcessGroup,
        hosts: collections.abc.Sequence[int],
        segments: collections.abc.Sequence[Segment],
        store: torch.distributed.distributed_c10d.Store,
        watcher: Watcher,
        recorder: Recorder,
        flight_folder: str,
    ) -> None: ...
    def add_group(
        self,
        members: collections.abc.Sequence[int],
        group: torch.distributed.distributed_c10d.ProcessGroup,
    ) -> None:
        """
        Gives the group of some processes, in ascending order, that this one is among.
        """
    def next_event(self) -> int:
        """
        The number of what the ranks do next together.
        """

class Session:
    """
    One forward and at most one backward run; keeps its outputs while it lives.
    """
    def instr_seconds(self) -> list[typing.Annotated[list[list[float]], "FixedSize(2)"]]:
        """
        By worker, list and instruction the seconds that it took, without waiting.
        """
    def outputs(self, index: int) -> list: ...
    def run_backward(self) -> None: ...
    def run_forward(self) -> None: ...
    def set_input(
        self, index: int, tiles: collections.abc.Sequence[torch.Tensor | None]
    ) -> None: ...
    def stats(self) -> dict: ...
    def take_outputs(self, index: int) -> list: ...
    def trace_events(self) -> list:
        """
        Tuples (worker, name, category, start_us, duration_us, bytes, fetched slot or -1, since_us, op or -1, processor_us).
        """

class Executor:
    """
    Runs a Program on one thread per worker. threads_per_worker=0 shares torch's intra-op threads among the workers; the threads are those of `sibling` when it has as many. With `take` the program is emptied in place of copied. Not usable in a process forked later: create it there.
    """
    def __init__(
        self,
        program: Program,
        threads_per_worker: int = 0,
        devices: collections.abc.Sequence[str] = [],
        sibling: Executor | None = None,
        take: bool = False,
        communicator: Communicator | None = None,
        ranks: collections.abc.Sequence[int] = [],
        collectives: collections.abc.Sequence[Collective] = [],
        overlap: bool = True,
        messages: typing.Annotated[
            collections.abc.Sequence[collections.abc.Sequence[Message]], "FixedSize(2)"
        ] = [[], []],
    ) -> None: ...
    def set_trace(self, on: bool) -> None: ...
    def start(
        self,
        inputs: collections.abc.Sequence[collections.abc.Sequence[torch.Tensor | None] | None],
        seed: int = 0,
        net: int = 0,
    ) -> Session:
        """
        inputs[binding][worker] is a tile or None; a binding given as None is set later.
        """
    @property
    def digest(self) -> int: ...
    @property
    def program(self) -> Program: ...
    @property
    def threads_per_worker(self) -> int: ...
    @property
    def volumes(self) -> dict[str, tuple[int, int, int]]:
        """
        By way, what processes send each other in a run: (relayouts, packets or calls, bytes).
        """

class Source:
    """
    What an input of a program is to a call.

    Members:

      STATE

      CONSTANT

      INPUT

      TANGENT
    """

    CONSTANT: typing.ClassVar[Source]
    INPUT: typing.ClassVar[Source]
    STATE: typing.ClassVar[Source]
    TANGENT: typing.ClassVar[Source]
    __members__: typing.ClassVar[dict[str, Source]]
    @typing.overload
    def __eq__(self, other: Source) -> bool: ...
    @typing.overload
    def __eq__(self, other: typing.Any) -> bool: ...
    def __getstate__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __index__(self) -> int: ...
    def __init__(self, value: int) -> None: ...
    def __int__(self) -> int: ...
    @typing.overload
    def __ne__(self, other: Source) -> bool: ...
    @typing.overload
    def __ne__(self, other: typing.Any) -> bool: ...
    def __repr__(self) -> str: ...
    def __setstate__(self, state: int) -> None: ...
    def __str__(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...

class Use:
    """
    What an output of a program is to a call.

    Members:

      RESULT

      STATE_UPDATE

      INPUT_UPDATE

      STATE_GRADIENT

      INPUT_GRADIENT

      NOTHING
    """

    INPUT_GRADIENT: typing.ClassVar[Use]
    INPUT_UPDATE: typing.ClassVar[Use]
    NOTHING: typing.ClassVar[Use]
    RESULT: typing.ClassVar[Use]
    STATE_GRADIENT: typing.ClassVar[Use]
    STATE_UPDATE: typing.ClassVar[Use]
    __members__: typing.ClassVar[dict[str, Use]]
    @typing.overload
    def __eq__(self, other: Use) -> bool: ...
    @typing.overload
    def __eq__(self, other: typing.Any) -> bool: ...
    def __getstate__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __index__(self) -> int: ...
    def __init__(self, value: int) -> None: ...
    def __int__(self) -> int: ...
    @typing.overload
    def __ne__(self, other: Use) -> bool: ...
    @typing.overload
    def __ne__(self, other: typing.Any) -> bool: ...
    def __repr__(self) -> str: ...
    def __setstate__(self, state: int) -> None: ...
    def __str__(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...

class Given:
    def __init__(
        self, source: Source, index: int, changes: bool = False, local: bool = False
    ) -> None: ...

class Made:
    def __init__(
        self,
        use: Use,
        index: int,
        borrowed: bool,
        shape: collections.abc.Sequence[int],
        tangents: collections.abc.Sequence[int] = [],
        local: bool = False,
    ) -> None: ...

class Call:
    """
    A captured call's program with the tiles of the model's state.
    """
    def __init__(
        self,
        executor: Executor,
        given: collections.abc.Sequence[Given],
        made: collections.abc.Sequence[Made],
        constants: collections.abc.Sequence[torch.Tensor],
        differentiable: collections.abc.Sequence[bool],
        draws: bool,
        state: collections.abc.Sequence[collections.abc.Sequence[torch.Tensor | None]],
        shard_tensors: collections.abc.Sequence[torch.Tensor],
        shards: collections.abc.Sequence[tuple[int, int]],
        watched: collections.abc.Sequence[int],
        net: int,
    ) -> None: ...
    def export(
        self,
        path: str,
        inputs: collections.abc.Sequence[tuple[str, collections.abc.Sequence[int], str]],
        outputs: collections.abc.Sequence[tuple[str, collections.abc.Sequence[int], str]],
        plan: str,
    ) -> None:
        """
        Writes a file for C++; inputs and outputs are (name, shape, dtype).
        """
    def run(
        self, inputs: collections.abc.Sequence[torch.Tensor]
    ) -> tuple[list[torch.Tensor], Session]:
        """
        Runs the forward program through autograd; returns the whole results and the session.
        """

class PlainArguments:
    """
    The kind of a call: the shapes and types of its tensors, the modes.
    """
    def __init__(self, args: tuple, kwargs: dict) -> None: ...
    def take(self, args: tuple, kwargs: dict) -> list[torch.Tensor] | None:
        """
        Returns the tensors of another call of this kind; None where it is of another.
        """

class MeasuredCall:
    """
    What a call does, and the seconds that it took.
    """
    @property
    def features(self) -> typing.Annotated[list[float], "FixedSize(5)"]:
        """
        1, operations, bytes, gathered and fresh bytes: of each a measured machine has a cost.
        """
    @property
    def itemsize(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def seconds(self) -> float: ...
    @property
    def target(self) -> str: ...

class MessageOperation:
    """
    How an operation of messages is called.
    """
    @property
    def arguments(self) -> int:
        """
        the number of them
        """
    @property
    def has_gradient(self) -> bool:
        """
        one that is not 0 throughout
        """
    @property
    def in_messages(self) -> bool:
        """
        not in programs alone
        """
    @property
    def is_condition(self) -> bool:
        """
        torch's operator gives bool, the operation 1 and 0
        """
    @property
    def is_elementwise(self) -> bool: ...
    @property
    def name(self) -> str:
        """
        of the function, or of what the sign means
        """
    @property
    def sign(self) -> str:
        """
        what it is written with; empty: as a function
        """
    @property
    def takes_number(self) -> bool:
        """
        the second one is a number
        """
    @property
    def torch(self) -> str:
        """
        the ATen operator of this meaning; empty where there is none
        """

class VertexTask:
    """
    Vertices that are evaluated together.
    """
    @property
    def begin(self) -> int: ...
    @property
    def edge_begin(self) -> int: ...
    @property
    def edge_end(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def slot_begin(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def type(self) -> int: ...

class VertexSchedule:
    """
    Tasks, and the vertices renumbered into rows.
    """
    def edge_begins(self) -> numpy.ndarray: ...
    def slot_begins(self) -> numpy.ndarray: ...
    def task_rows(self) -> numpy.ndarray:
        """
        Type, rows and edges of each task, one after the other.
        """
    @property
    def counts(self) -> numpy.ndarray: ...
    @property
    def edge_offsets(self) -> numpy.ndarray: ...
    @property
    def edge_rows(self) -> numpy.ndarray: ...
    @property
    def parents(self) -> numpy.ndarray: ...
    @property
    def roots(self) -> numpy.ndarray: ...
    @property
    def rows(self) -> numpy.ndarray: ...
    @property
    def slot_first(self) -> numpy.ndarray: ...
    @property
    def slot_rows(self) -> numpy.ndarray: ...
    @property
    def task_parents(self) -> numpy.ndarray: ...
    @property
    def tasks(self) -> list[VertexTask]: ...
    @property
    def type_rows(self) -> numpy.ndarray: ...
    @property
    def vertices(self) -> numpy.ndarray: ...

class Calls:
    """
    A straight line of calls of operators on numbered values.
    """
    def __init__(
        self,
        given: int,
        calls: collections.abc.Sequence[tuple[str, str, list, collections.abc.Sequence[int]]],
        results: collections.abc.Sequence[int],
    ) -> None:
        """
        (operator, overload, arguments, numbers of the results and of the list of them, -1 for none) for each call; an argument is a ValueRef of a value's number, a list with some, a constant, or ... for its default. "[]" takes an element, + - * / are of sizes.
        """
    def run(self, *args) -> list:
        """
        Returns the results for the values that are given.
        """

class TaskPlan:
    """
    A schedule, and its index arrays on a device.
    """
    def __init__(
        self,
        schedule: VertexSchedule,
        edge_rows: torch.Tensor,
        parents: torch.Tensor,
        slot_rows: torch.Tensor,
        edge_orders: torch.Tensor | None,
        slot_orders: torch.Tensor | None,
    ) -> None: ...
    @property
    def degrees(self) -> list[int]:
        """
        By kind how many children each row has; -1 where they differ.
        """

class TaskLoop:
    """
    What a kind of vertices computes task by task.
    """
    def __init__(
        self,
        calls: Calls,
        columns: collections.abc.Sequence[tuple[str, typing.Any, int, int, int]],
        sinks: collections.abc.Sequence[
            collections.abc.Sequence[tuple[str, torch.Tensor | None, int]]
        ] = [],
        twins: collections.abc.Sequence[tuple[torch.Tensor, torch.Tensor]] = [],
    ) -> None: ...
    @property
    def sums(self) -> list[torch.Tensor | None]:
        """
        By result what it adds up to over the tasks.
        """

class Tasks:
    """
    Runs the tasks of a schedule, each by the loop of its kind.
    """
    def __init__(self, plan: TaskPlan, loops: list, beside: bool) -> None:
        """
        By kind a loop, None where there is none; `beside`: tasks of different kinds may run beside each other.
        """
    def run(self, begin: int, end: int, backward: bool) -> None: ...
    @property
    def running(self) -> int:
        """
        The kind whose task runs, also where it has thrown.
        """

class Contents:
    """
    What dicts, lists, sets, cells of closures and other containers hold now, to be compared with later: by identity, so that nothing of Python is called for dicts and lists.
    """
    def __init__(self, containers: collections.abc.Iterable) -> None: ...
    def same(self) -> bool:
        """
        Whether all of them hold the very objects that they held, in the same order.
        """

class CudaAutocastOnCpu:
    def __enter__(self) -> None: ...
    def __exit__(self, *args) -> None: ...
    def __init__(self) -> None: ...

def best_plan(
    graph: Graph, requests: collections.abc.Sequence[Request]
) -> tuple[int, FoundPlan | TooLarge | IdlePin, list[int]]:
    """
    The number of a request, its FoundPlan, the cheapest, or its TooLarge or IdlePin, and by op what the plan runs again, empty for what the graph says.
    """

def build_id() -> str:
    """
    The linker's hash of this build of the library; empty where it writes none.
    """

def call_seconds(
    cost: tuple[
        typing.Annotated[collections.abc.Sequence[float], "FixedSize(5)"],
        collections.abc.Sequence[typing.Annotated[collections.abc.Sequence[float], "FixedSize(4)"]],
    ],
    operations: float,
    bytes: float,
    gathered: float = 0.0,
    fresh: float = 0.0,
) -> float:
    """
    What a call takes by the weights and the measured calls of its kind.
    """

def candidates(
    graph: Graph, mesh: collections.abc.Sequence[int], options: SearchOptions, any_mesh: bool
) -> list[Request]:
    """
    What is asked for, and the searches that may do better.
    """

def coarse_sizes(graph: Graph) -> tuple[int, int]:
    """
    Numbers of tensor groups and op classes after coarsening.
    """

def coordinate_of(choice: int) -> int:
    """
    Of a choice that `is_only`.
    """

def cut(extent: int, parts: int, granule: int) -> list[tuple[int, int]]:
    """
    A range cut into parts along multiples of a granule, as plans cut it.
    """

def cut_by_shares(
    extent: int, shares: collections.abc.Sequence[float], granule: int
) -> list[tuple[int, int]]:
    """
    The same in proportion to shares, of which some may be 0.
    """

def cut_of(choice: int) -> int:
    """
    The dimension or index it cuts; negative: none.
    """

def default_mesh(workers: int, planner: str) -> list[int]: ...
def digest(program: Program) -> int: ...
def edge_walks(graph: Graph) -> list[EdgeWalk]:
    """
    Of all calls whose structure is known, one for the rows of each.
    """

def find_collectives(
    program: Program, ranks: collections.abc.Sequence[int], reorder: bool
) -> list[Collective]:
    """
    The relayouts that are collectives; with `reorder` also those that add up in another order.
    """

def gather_outputs(graph: Graph, ranks: collections.abc.Sequence[int], program: Program) -> None:
    """
    Gives each process the whole of what a call returns.
    """

def hang_at_end() -> None:
    """
    Lets threads hang that return to Python after the interpreter's end, which would abort.
    """

def heaviest_point(
    graph: Graph, plan: Plan, views: collections.abc.Set[str] = set()
) -> tuple[int, int, list[int]]:
    """
    Where homes take the most memory: the op, a worker's bytes, the live values.
    """

def held_bytes(program: Program, worker: int, view_targets: collections.abc.Set[str]) -> list[int]:
    """
    A worker's live bytes: at first, and after each instruction.
    """

def home_tiles(
    graph: Graph, plan: Plan, values: collections.abc.Sequence[int]
) -> list[list[tuple[bool, list[tuple[int, int]]]]]:
    """
    Per value and worker whether a tile is held, and its (lo, hi) by dimension.
    """

def is_only(choice: int) -> bool:
    """
    Whether it is for one coordinate of the step.
    """

def largest_instr(program: Program, views: collections.abc.Set[str]) -> LargestInstr: ...
def list_exchanges(
    program: Program,
    ranks: collections.abc.Sequence[int],
    packet_bytes: int = 524288,
    collectives: collections.abc.Sequence[Collective] = [],
) -> tuple[list[Exchange], list[Exchange]]:
    """
    What processes send each other in the forward and in the backward list.
    """

def list_order(
    graph: Graph,
    program: Program,
    seconds: collections.abc.Sequence[
        typing.Annotated[collections.abc.Sequence[collections.abc.Sequence[float]], "FixedSize(2)"]
    ],
    mesh: collections.abc.Sequence[int],
    machine: Machine,
) -> tuple[list[int], float, float, int]:
    """
    A list schedule by upward ranks: by op its place, the makespan, what no schedule is below, and the resources in use.
    """

def live_bytes(graph: Graph, plan: Plan, views: collections.abc.Set[str] = set()) -> list[int]:
    """
    By op the bytes of a worker's largest tiles of all values that are live while it runs.
    """

def lower(
    graph: Graph,
    plan: Plan,
    views: collections.abc.Set[str] = set(),
    join: bool = True,
    overlap: bool = True,
) -> Program:
    """
    The program of a plan. With `join` runs of element-wise calls are one call each, with `overlap` fetches are waited for as late as memory allows; outputs of the operators in `views` share the memory of their first operand.
    """

def measure_calls(
    programs: collections.abc.Sequence[Program],
    graph: Graph,
    worker: int,
    given: collections.abc.Sequence[torch.Tensor | None],
    views: collections.abc.Set[str],
    call_seconds: float,
    progress: collections.abc.Callable[[float], None] | None = None,
    device: str = "cpu",
) -> list[MeasuredCall]:
    """
    Runs each call of a worker's lists by itself on a device, those that are alike once; `given` are by value whole inputs, of which integers are read.
    """

def merge_inputs(
    program: Program, groups: collections.abc.Sequence[collections.abc.Sequence[int]]
) -> None:
    """
    Lets the inputs of each group of values, which are the same tensor, be one.
    """

def message_operations() -> list[MessageOperation]:
    """
    All operations of messages and element-wise programs, each a line of operations.def.
    """

def min_max_ranges(
    sums: typing.Annotated[numpy.typing.ArrayLike, numpy.float64],
    speeds: collections.abc.Sequence[float],
    offsets: collections.abc.Sequence[float],
) -> tuple[list[int], float]:
    """
    0 and the ends of contiguous ranges whose last worker ends the earliest, and when.
    """

def moved_bytes(program: Program, forward: bool = True, backward: bool = True) -> int: ...
def only_at(coordinate: int) -> int:
    """
    The choice of one coordinate of the step.
    """

def op_bytes(graph: Graph, plan: Plan) -> list[int]:
    """
    Bytes that every op moves under a plan.
    """

def op_prices(
    graph: Graph, plan: Plan, machine: Machine | None = None
) -> list[tuple[list[int], list[float], float]]:
    """
    By op the bytes of each step, their seconds, and the seconds of its arithmetic.
    """

def parameter_bytes(graph: Graph, plan: Plan) -> int:
    """
    Bytes of the largest tiles of all parameters.
    """

def parameter_bytes_by_worker(graph: Graph, plan: Plan) -> list[int]:
    """
    By worker the bytes of its tiles of all parameters.
    """

def parse_message(arg0: str) -> tuple:
    """
    A message as nested (operation, arguments); raises ValueError where the text is wrong.
    """

def peak_bytes(program: Program, view_targets: collections.abc.Set[str]) -> list[int]: ...
def peak_of_calls(graph: Graph, plan: Plan, views: collections.abc.Set[str] = set()) -> int: ...
def plan_bytes(graph: Graph, plan: Plan) -> int: ...
def plan_for_other_sizes(
    graph: Graph, planned: Graph, plan: Plan, machine: Machine | None = None
) -> Plan | None:
    """
    The choices of a plan of another graph, which differs in sizes only; None where it does not.
    """

def planners() -> list[str]: ...
def predicted_seconds(
    program: Program, machine: Machine, views: collections.abc.Set[str]
) -> list[typing.Annotated[list[list[float]], "FixedSize(2)"]]:
    """
    By worker, list and instruction what the worker itself is busy with it.
    """

def price(graph: Graph, plan: Plan, machine: Machine | None = None) -> Plan:
    """
    A plan with what each step adds in bytes and, with a machine, in seconds.
    """

def relayout(
    have: collections.abc.Sequence[collections.abc.Sequence[tuple[int, int]]],
    need: collections.abc.Sequence[collections.abc.Sequence[tuple[int, int]]],
) -> list[tuple[int, int, list[tuple[int, int]]]]:
    """
    The copies that put every needed box together: which held box, for which needed one, what.
    """

def relayout_program(
    moves: collections.abc.Sequence[
        tuple[
            str,
            str,
            int,
            collections.abc.Sequence[tuple[bool, collections.abc.Sequence[tuple[int, int]]]],
            collections.abc.Sequence[tuple[bool, collections.abc.Sequence[tuple[int, int]]]],
        ]
    ],
) -> Program:
    """
    A program that brings tensors (name, dtype, itemsize, boxes before, boxes after) to other boxes, which are given by worker as (held, bounds).
    """

def sample_collective(
    kind: str,
    groups: collections.abc.Sequence[collections.abc.Sequence[int]],
    ranks: collections.abc.Sequence[int],
    bytes: int,
) -> Program:
    """
    A program of one relayout, a collective of groups of processes.
    """

def schedule_transfers(problem: SpillProblem, policy: str = "dp") -> SpillSchedule: ...
def search(graph: Graph, mesh: collections.abc.Sequence[int], **kwargs) -> Plan:
    """
    One search; the options are those of SearchOptions, where memory_limit is of homes.
    """

def seconds_before(
    rows: int,
    each: float,
    models: collections.abc.Sequence[
        tuple[FeatureSums, typing.Annotated[collections.abc.Sequence[float], "FixedSize(8)"]]
    ],
) -> numpy.typing.NDArray[numpy.float64]:
    """
    By vertex and one more the seconds of all before it: `each` of every vertex, and its features times their weights.
    """

def simulate(
    program: Program,
    seconds: collections.abc.Sequence[
        typing.Annotated[collections.abc.Sequence[collections.abc.Sequence[float]], "FixedSize(2)"]
    ],
    mesh: collections.abc.Sequence[int],
    machine: Machine,
    overlap: bool = True,
    ranks: collections.abc.Sequence[int] = [],
) -> Timeline:
    """
    Runs a program in time, without tensors, over the machine's links.
    """

def spill(
    program: Program, capacity: int, views: collections.abc.Set[str], policy: str = "dp"
) -> list[tuple[int, int, int]]:
    """
    Lets workers run in so many bytes of device memory; returns by worker the bytes (to the host, to the device, of both at the least).
    """

def spill_problem(
    program: Program, worker: int, capacity: int, views: collections.abc.Set[str]
) -> SpillProblem: ...
def spilled_bytes(program: Program, forward: bool = True, backward: bool = True) -> dict[str, int]:
    """
    Bytes that move to the host and to the devices.
    """

def tile_call(
    graph: Graph, op: int, ranges: collections.abc.Sequence[tuple[int, int]]
) -> tuple[
    list[tuple[bool, list[tuple[int, int]], float, tuple[int, list[int]] | None, list[int] | None]],
    list[
        None
        | bool
        | int
        | float
        | complex
        | str
        | list[int]
        | list[float]
        | list[bool]
        | ValueRef
        | list[ValueRef]
    ],
    list[tuple[int, int]],
]:
    """
    One tile of an op with a Spec: (used, box, fill, rows, table) by operand, the arguments, the crop.
    """

def vertex_levels(
    child_offsets: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
    children: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
) -> list[int]:
    """
    Checks an input graph; by vertex 0 without children, else one more than its highest child's.
    """

def vertex_schedule(
    sample_offsets: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
    child_offsets: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
    children: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
    types: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
    arities: collections.abc.Sequence[tuple[int, int, bool, str]],
    slots: collections.abc.Sequence[int],
    policy: str,
) -> VertexSchedule:
    """
    Checks input graphs and schedules them; arities are (fewest, most, or_none, name) by type.
    """

def walked_rows(
    graph: Graph, plan: Plan, walks: collections.abc.Sequence[EdgeWalk]
) -> list[list[tuple[int, int]]]:
    """
    By walk and worker the rows [begin, end) that a plan has computed there.
    """

def weighted(cut: int, weighting: int) -> int:
    """
    The choice of a cut by a weighting of the graph, of which the first is number 1.
    """

def weighting_of(choice: int) -> int:
    """
    By which it cuts; 0: evenly.
    """

def with_order(plan: Plan, order: collections.abc.Sequence[int]) -> Plan:
    """
    A copy, whose ops are in this order in workers' lists.
    """

def writes_into(target: str) -> bool:
    """
    Whether results of the operator may be written into a given tensor.
    """

FEATURES: int = 8
