"""Placements that a user gives: what `smex.pin` makes, and what search reads of it."""

from __future__ import annotations

import dataclasses
import fnmatch
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from smex._C import coordinate_of, cut_of, is_only, only_at, weighted, weighting_of
from smex.errors import PlanError, SmexTypeError
from smex.planning.semantic import SemanticGraph
from smex.text import mesh_words, placement_words

Placement = str | int | Sequence[int]
"""Words such as "S0", "R" or "S0/2 R/2", one dimension for all steps, or one for each step."""

_WORD = re.compile(
    r"(?:S(?P<dim>\d+)|R|W(?P<worker>\d+))(?:/(?P<parts>\d+))?(?:@(?P<weights>\S+))?"
)


@dataclasses.dataclass(frozen=True)
class Pin:
    """Tensors and the placement that the search is to give them; see `smex.pin`.

    Attributes:
        name: of a parameter, buffer or input, or a pattern of names.
        placement: as it was given.
    """

    name: str
    placement: Placement

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise SmexTypeError(f'pin: a name must be text, such as "fc.weight", got {self.name!r}')
        _read(self.name, self.placement)


def pin(name: str, placement: Placement) -> Pin:
    """Constrains a search: tensors of this name are placed like this.

    Args:
        name: a parameter, buffer or input, or a pattern in which `*` stands for any text, `?` for
            a letter and `[ab]` for one of some: "blocks.*.fc1.weight".
        placement: "S0" to cut along dimension 0 in all steps, "R" to replicate, "W1" for worker 1
            alone, "S0/2 R/2" with a word for each step of the mesh, as plans print it (the parts
            may be left out); "S0@speed" cuts in the proportions that the search is given under this
            name. Or a dimension for all steps, or a list with one for each step, -1 to replicate.

    Raises:
        PlanError: the placement is none of these.
        SmexTypeError: the name is not text.

    Example:
        >>> smex.pin("blocks.*.fc1.weight", "S1")
        Pin(name='blocks.*.fc1.weight', placement='S1')
    """
    return Pin(name, placement)


Pins = Mapping[str, Placement] | Iterable[Pin] | Pin


def resolve(pins: Pins, graph: SemanticGraph, mesh: Sequence[int]) -> dict[str, list[int]]:
    """By tensor name the dimension that each step cuts, -1 to replicate.

    Raises:
        PlanError: a name that the model does not have, a pattern that matches nothing, two
            placements of one tensor, or a placement that does not fit its tensor or the mesh.
        SmexTypeError: neither pins nor placements by name.
    """
    found: dict[str, list[int]] = {}
    first: dict[int, tuple[str, list[int]]] = {}  # by tensor, as tied ones have several names
    for giver, name, given in _named(pins, graph):
        placement = _fitting(graph, name, given, mesh)
        before, known = first.setdefault(graph.value_by_name[name], (giver, placement))
        if known != placement:
            here, there = placement_words(known, mesh), placement_words(placement, mesh)
            raise PlanError(
                f'pin: "{name}" is pinned as {here} by "{before}" and as {there} by "{giver}"; '
                "leave one out"
            )
        found[name] = placement
    return found


def _named(pins: Pins, graph: SemanticGraph) -> Iterator[tuple[str, str, Placement]]:
    """Yields the pins with the name or pattern that gives them and the tensor's name."""
    if isinstance(pins, Mapping):
        for name, placement in pins.items():
            _require(name, graph)
            yield name, name, placement
        return
    if isinstance(pins, Pin):
        pins = [pins]
    if isinstance(pins, str) or not isinstance(pins, Iterable):
        raise SmexTypeError(f"pin: expected a list of pins or placements by name, found {pins!r}")
    for each in pins:
        if not isinstance(each, Pin):
            raise SmexTypeError(f"pin: expected smex.pin(name, placement), found {each!r}")
        for name in _matching(each.name, graph):
            yield each.name, name, each.placement


def _matching(pattern: str, graph: SemanticGraph) -> list[str]:
    """Returns the tensors of a name or pattern; a tied tensor counts under its first name."""
    known = graph.value_by_name
    if pattern in known:
        return [pattern]
    if not re.search(r"[*?\[]", pattern):
        _require(pattern, graph)
    names = {known[name]: name for name in reversed(known) if fnmatch.fnmatchcase(name, pattern)}
    if not names:
        raise PlanError(
            f'pin: "{pattern}" matches no parameter, buffer or input of the model; '
            f"it has {_some(graph)}"
        )
    return list(reversed(names.values()))


def _require(name: str, graph: SemanticGraph) -> None:
    if name not in graph.value_by_name:
        raise PlanError(
            f'plan: the model has no parameter, buffer or input "{name}"; it has {_some(graph)}'
        )


def _some(graph: SemanticGraph) -> str:
    known = sorted(graph.value_by_name)
    return f"{', '.join(known[:8])}{'…' if len(known) > 8 else ''}"


# ---- placements ----


@dataclasses.dataclass(frozen=True)
class _Word:
    """What is said of one step: the choice, how many parts it has, and the name of weights."""

    choice: int
    parts: int | None = None
    weights: str | None = None

    @staticmethod
    def of(match: re.Match[str]) -> _Word:
        parts = None if match["parts"] is None else int(match["parts"])
        if match["worker"] is not None:
            return _Word(only_at(int(match["worker"])), parts)
        choice = -1 if match["dim"] is None else int(match["dim"])
        return _Word(choice, parts, match["weights"])


def _read(name: str, placement: Placement) -> list[_Word]:
    """By step, or one for all steps."""
    if isinstance(placement, str):
        words = [] if placement == "whole" else placement.split()
        matches = [_WORD.fullmatch(word) for word in words]
        if all(matches) and (words or placement == "whole"):
            return [_Word.of(match) for match in matches if match]
    elif type(placement) is int:
        return [_Word(placement)]
    elif isinstance(placement, (list, tuple)) and all(type(dim) is int for dim in placement):
        return [_Word(dim) for dim in placement]
    raise PlanError(
        f'plan: the placement of "{name}" must be words such as "S0", "R" or "S0/2 R/2", a '
        f"dimension, or a list of dimensions, one for each step, -1 to replicate; got {placement!r}"
    )


def _fitting(
    graph: SemanticGraph, name: str, placement: Placement, mesh: Sequence[int]
) -> list[int]:
    """Returns a placement whose steps, dimensions and sizes fit the tensor."""
    words = _read(name, placement)
    if isinstance(placement, int) or (
        isinstance(placement, str) and len(words) == 1 and words[0].parts is None
    ):
        words = words * len(mesh)
        if len(mesh) > 1 and is_only(words[0].choice):
            words = _at_worker(name, coordinate_of(words[0].choice), mesh)
    choices = [_weighted(graph, name, word) for word in words]
    _require_steps(name, placement, choices, [word.parts for word in words], mesh)
    shape = graph.captured.values[graph.value_by_name[name]].shape
    for choice, parts in zip(choices, mesh, strict=True):
        if is_only(choice) and coordinate_of(choice) >= parts:
            raise PlanError(
                f'plan: "{name}" is placed at number {coordinate_of(choice)} of a step of {parts}; '
                "they are numbered from 0"
            )
        dim = cut_of(choice)
        if not is_only(choice) and not -1 <= dim < len(shape):
            raise PlanError(
                f'plan: "{name}" of shape {tuple(shape)} cannot be cut along dimension {dim}; '
                f"it has {len(shape)} dimensions, -1 replicates"
            )
        if weighting_of(choice) > len(graph.weightings):
            raise PlanError(
                f'plan: "{name}" is cut by weights that the search is not given; pass weights='
            )
    for dim, size in enumerate(shape):
        cut = math.prod(k for k, chosen in zip(mesh, choices, strict=True) if chosen == dim)
        if cut > size:
            raise PlanError(
                f'plan: "{name}" of shape {tuple(shape)} cannot be cut along dimension {dim} by '
                f"{cut} workers: it has only {size} elements there"
            )
    return choices


def _at_worker(name: str, worker: int, mesh: Sequence[int]) -> list[_Word]:
    """The steps' coordinates of one worker."""
    if worker >= math.prod(mesh):
        raise PlanError(
            f'plan: "{name}" is placed at worker {worker} of {math.prod(mesh)}; they are numbered '
            "from 0"
        )
    words = []
    for parts in reversed(mesh):
        words.append(_Word(only_at(worker % parts)))
        worker //= parts
    return words[::-1]


def _weighted(graph: SemanticGraph, name: str, word: _Word) -> int:
    """The choice of a word, by the weights that it names."""
    if word.weights in (None, "even"):
        return word.choice
    known = graph.weighting_names
    if word.weights not in known:
        raise PlanError(
            f'plan: "{name}" is cut by weights "{word.weights}"; the search is given '
            f"{', '.join(known) or 'none'}"
        )
    found: int = weighted(word.choice, 1 + known.index(word.weights))
    return found


def _require_steps(
    name: str,
    placement: Placement,
    dims: Sequence[int],
    parts: Sequence[int | None],
    mesh: Sequence[int],
) -> None:
    """As many placements as steps, each with the step's workers where the words name them."""
    named = [part for part in parts if part is not None]
    if len(dims) == len(mesh) and all(
        given in (None, expected) for given, expected in zip(parts, mesh, strict=True)
    ):
        return
    if placement == "whole":
        raise PlanError(
            f'plan: "{name}" is placed "whole", which is for one worker; the steps are '
            f'{mesh_words(mesh)}: write "R" to replicate it'
        )
    if not mesh:
        raise PlanError(
            f'plan: "{name}" is placed {placement!r}, but one worker holds all tensors whole: '
            'leave the pin out, or write "whole"'
        )
    if len(named) == len(parts) > 0 and math.prod(named) == math.prod(mesh) and min(named) > 1:
        raise PlanError(
            f'plan: "{name}" is placed {placement!r}, which fits mesh={named}; '
            f"the steps are {mesh_words(mesh)}"
        )
    if len(dims) != len(mesh):
        raise PlanError(
            f'plan: "{name}" has {len(dims)} placements, expected {len(mesh)}, one for each step '
            f"of {mesh_words(mesh)}"
        )
    for step, (given, expected) in enumerate(zip(parts, mesh, strict=True)):
        if given not in (None, expected):
            raise PlanError(
                f'plan: "{name}" is cut by {given} in step {step} of "{placement}", expected '
                f"{expected}: the steps are {mesh_words(mesh)}; give mesh= for others"
            )
