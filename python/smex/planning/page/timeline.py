"""The predicted course of an iteration as one SVG: modules, compute, communication, memory."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from smex.capture.records import OpRecord
from smex.planning.markup import code, escape, scrolling, section, table, zooming
from smex.planning.page.memory import KINDS, Memory, fullest_worker, program_order
from smex.planning.page.names import collapse, machine_words
from smex.planning.placed import PlacedGraph
from smex.planning.prices import OpPrice
from smex.text import duration_words, size_words

_LEFT, _WIDTH, _NARROW = 110, 1000, 600  # pixels: of the words before the lanes, of the lanes
_LANE, _MEMORY, _WORKER, _GAP = 30, 90, 44, 8
_MOST_LANES = 16  # workers whose memory is drawn
_MOST_COUNTED = 2**17  # calls of all workers, for each of them
_NAMED = 0.6  # of the axis, that names of the modules of the level that is shown take at least
_FEWEST_UNFOLDED, _MOST_UNFOLDED = 100, 24  # ops of a program; drawings of modules
_FINEST_UNFOLDED = 5.0  # pixels of the narrowest box there
_FINEST = 2.0  # pixels of the narrowest box
_COMPUTE, _COMMUNICATION = "var(--compute)", "var(--communication)"
_KIND_COLOURS = {
    "parameters": "var(--parameters)",
    "activations": "var(--live)",
    "gradients": "var(--gradients)",
    "communication": "var(--communication)",
}
_BANDS = {  # by backward
    False: ("var(--forward-2)", "var(--forward)"),
    True: ("var(--backward-2)", "var(--backward)"),
}
_LETTER = 6.2  # pixels


@dataclasses.dataclass
class _Span:
    """Consecutive ops, and where they lie on the axis."""

    label: str
    backward: bool
    start: float
    end: float
    first: int
    last: int  # the op after the last


def timeline_section(plan: PlacedGraph, prices: Sequence[OpPrice]) -> str:
    """Seconds of the ops where they are known, otherwise bytes along the program; and memory.

    Args:
        plan: what is drawn.
        prices: of its ops, in the order of the graph.
    """
    if not plan.graph.captured.ops:
        return ""
    worker, memory = fullest_worker(plan), Memory(plan, plan.program())
    kinds = memory.live_by_kind(worker)
    whose = f"that of worker {worker}, which holds the most" if plan.workers > 1 else "counted"
    words = (
        f"{_words(plan)} Memory is {whose}: every storage once, with the copies that it fetches "
        "and the tiles that others have still to fetch; the dashed line is the predicted peak."
    )
    legend = memory_legend() if kinds else ""
    each = _memory_of_workers(plan, memory, _drawing(plan, prices, None)) if kinds else ""
    whole = timeline_drawing(plan, prices, memory=memory)
    return section("Timeline", f"<p>{words}</p>", legend, whole, each, _modules(plan, prices))


def timeline_drawing(
    plan: PlacedGraph,
    prices: Sequence[OpPrice],
    longest: float | None = None,
    highest: float = 0,
    memory: Memory | None = None,
    narrow: bool = False,
) -> str:
    """Returns the drawing of the timeline.

    Args:
        plan: what is drawn.
        prices: of its ops, in the order of the graph.
        longest: seconds that are as wide as the drawing; by default those of the plan.
        highest: bytes that are as high as the lane of memory, if more than the plan's peak.
        memory: of the plan's program, where it is known.
        narrow: of half a page, or of a picture.
    """
    if not plan.graph.captured.ops:
        return ""
    drawing = _drawing(plan, prices, longest, _NARROW if narrow else _WIDTH)
    drawing.draw_bands()
    if plan.machine is not None:
        drawing.draw_seconds()
    else:
        drawing.draw_bytes()
    worker = fullest_worker(plan)
    memory = memory or Memory(plan, plan.program())
    drawing.draw_memory(memory.live(worker), memory.live_by_kind(worker), highest)
    return zooming(drawing.svg(), narrow)


def _drawing(
    plan: PlacedGraph, prices: Sequence[OpPrice], longest: float | None, width: int = _WIDTH
) -> _Drawing:
    """Returns a drawing of the ops in the order in which they run, without lanes."""
    order, timed = program_order(plan), plan.machine is not None
    ops = [plan.graph.captured.ops[number] for number in order]
    prices = [prices[number] for number in order]
    lengths = [price.seconds if timed else 1.0 for price in prices]
    return _Drawing(ops, prices, lengths, timed, longest, width=width)


def _modules(plan: PlacedGraph, prices: Sequence[OpPrice]) -> str:
    """Returns a drawing of each module's own ops, folded; those that are alike are drawn once."""
    order = program_order(plan)
    if len(order) < _FEWEST_UNFOLDED:
        return ""
    ops, prices = [plan.graph.captured.ops[n] for n in order], [prices[n] for n in order]
    rows = list(_unfolded(ops, prices, 1, plan.machine is not None))
    dearest = sorted(range(len(rows)), key=lambda n: -rows[n][1] * rows[n][2].total)
    shown = sorted(dearest[:_MOST_UNFOLDED])
    more = (
        f"<p>and {len(rows) - _MOST_UNFOLDED:,} that take less</p>"
        if len(rows) > _MOST_UNFOLDED
        else ""
    )
    drawn = "\n".join(
        f"<details><summary>{code(name or 'model')}{f' × {times}, each' if times > 1 else ''}: "
        f"{escape(drawing.words())}</summary>\n{zooming(drawing.svg())}\n</details>"
        for name, times, drawing in (rows[number] for number in shown)
    )
    return f"<details><summary>Modules one by one</summary>\n{drawn}{more}\n</details>"


def _unfolded(
    ops: Sequence[OpRecord], prices: Sequence[OpPrice], depth: int, timed: bool
) -> Iterator[tuple[str, int, _Drawing]]:
    """Modules down to those of few ops: the name, how many are alike, and the drawing."""
    turn = sum(not op.backward for op in ops)
    heads = _heads(ops, depth, turn)
    groups: dict[str, list[int]] = {}
    for number, head in enumerate(heads):
        groups.setdefault(head, []).append(number)
    rows = []
    for head, numbers in groups.items():
        inside = len(head) + 1
        same = [(ops[n].target, ops[n].module_path[inside:], ops[n].backward) for n in numbers]
        rows.append((head, (tuple(same), tuple(prices[n] for n in numbers))))
    for pattern, _, names in collapse(rows):
        own = groups[names[0]]
        own_ops, own_prices = [ops[n] for n in own], [prices[n] for n in own]
        deeper = {op.module_path for op in own_ops if op.module_path.count(".") >= depth}
        if len(own) >= _FEWEST_UNFOLDED and len(deeper) > 1:
            for inner, times, drawing in _unfolded(own_ops, own_prices, depth + 1, timed):
                name = inner.removeprefix(names[0])
                yield (inner if name == inner else pattern + name), times * len(names), drawing
            continue
        lengths = [price.seconds if timed else 1.0 for price in own_prices]
        drawing = _Drawing(own_ops, own_prices, lengths, timed, finest=_FINEST_UNFOLDED)
        drawing.draw_bands()
        drawing.draw_seconds() if timed else drawing.draw_bytes()
        yield pattern, len(names), drawing


def memory_kinds() -> dict[str, str]:
    """Returns the colour of each kind of memory."""
    return dict(_KIND_COLOURS)


def memory_legend() -> str:
    """Returns the kinds of memory in their colours."""
    keys = " ".join(
        f'<span class="unbroken"><span style="color:{colour}">■</span> {kind}</span>'
        for kind, colour in _KIND_COLOURS.items()
    )
    words = (
        "parameters with buffers; activations with inputs; gradients are all that backward makes; "
        "communication is what is put together from tiles of other workers"
    )
    return f"<p><small>memory: {keys} ({words})</small></p>"


def _memory_of_workers(plan: PlacedGraph, memory: Memory, drawing: _Drawing) -> str:
    """Returns a lane for each worker, folded, and what each holds when it holds the most."""
    if not 1 < plan.workers <= _MOST_LANES:
        return ""
    if plan.workers**2 * len(plan.graph.captured.ops) > _MOST_COUNTED:
        return ""
    found = [memory.live_by_kind(worker) for worker in range(plan.workers)]
    highest = max(plan.peak_bytes())
    rows = []
    for worker, kinds in enumerate(found):
        if kinds is None:
            return ""
        live = [sum(now) for now in zip(*kinds.values(), strict=True)]
        drawing.draw_worker(worker, live, kinds, highest)
        at = max(range(len(live)), key=live.__getitem__)
        held = [size_words(kinds[kind][at]) for kind in KINDS]
        rows.append((str(worker), size_words(live[at]), *held, *drawing.names(at)))
    head = ("worker", "peak", *KINDS, "at the call", "module")
    told = table(head, [[escape(cell) for cell in row] for row in rows], right=range(6))
    return (
        f"<details><summary>Memory of each worker</summary>\n{scrolling(drawing.svg())}\n{told}\n"
        "</details>"
    )


def _words(plan: PlacedGraph) -> str:
    if plan.machine is None:
        return (
            "Without a machine seconds are not known: the bytes that all workers receive, along "
            "the ops of the program."
        )
    return (
        "One iteration of the worker with the largest tiles on "
        f"{escape(machine_words(plan.machine))}, predicted: {duration_words(plan.seconds)}, of "
        f"which {duration_words(plan.compute_seconds)} compute. Computing and communication stand "
        "one after the other, as the plan's seconds add them up; smex.simulate has them overlap, "
        "as the runtime does."
    )


class _Drawing:
    """An SVG that grows downwards lane by lane."""

    def __init__(
        self,
        ops: Sequence[OpRecord],
        prices: Sequence[OpPrice],
        lengths: Sequence[float],
        timed: bool,
        longest: float | None = None,
        finest: float = _FINEST,
        width: int = _WIDTH,
    ):
        self._width = width
        self._finest = finest
        self._ops, self._prices, self._timed = ops, prices, timed
        self._turn = sum(not op.backward for op in ops)  # the place of the first of backward
        ends = list(itertools.accumulate(lengths))
        self._total = max(ends[-1], longest or 0.0) or 1.0
        self._starts = [0.0, *ends]
        self._parts: list[str] = []
        self._y = 0.0

    @property
    def total(self) -> float:
        """Seconds, or calls, of the whole axis."""
        return self._total

    def svg(self) -> str:
        """Returns what has been drawn."""
        self._draw_axis()
        width, height = _LEFT + self._width + 20, self._y
        return (
            f'<svg viewBox="0 0 {width} {height:g}" width="{width}" height="{height:g}">\n'
            f"{''.join(self._parts)}</svg>"
        )

    def _x(self, at: float) -> float:
        return _LEFT + at / self._total * self._width

    def _rect(
        self, start: float, end: float, y: float, height: float, fill: str, title: str
    ) -> None:
        x, width = self._x(start), (end - start) / self._total * self._width
        self._parts.append(
            f'<rect x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{height:.1f}" '
            f'fill="{fill}"><title>{escape(title)}</title></rect>\n'
        )

    def _text(self, x: float, y: float, text: str, anchor: str = "start", more: str = "") -> None:
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>\n'
        )

    def _line(self, x0: float, y0: float, x1: float, y1: float, more: str = "") -> None:
        self._parts.append(
            f'<path d="M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}" stroke="var(--tick)"{more}/>\n'
        )

    # ---- lanes ----

    def draw_bands(self) -> None:
        """Which pass and which modules the ops belong to."""
        passes = self._spans("backward" if op.backward else "forward" for op in self._ops)
        for span in passes:
            self._rect(span.start, span.end, 0, 16, _BANDS[span.backward][1], span.label)
            self._label(span, 12)
        for number, span in enumerate(self._module_spans()):
            took = self._cost_words(span)
            fill = _BANDS[span.backward][number % 2]
            self._rect(span.start, span.end, 18, 18, fill, f"{span.label or 'model'}: {took}")
            self._label(span, 31)
        self._text(_LEFT - 8, 31, "modules", "end")
        self._y = 36 + _GAP

    def _label(self, span: _Span, y: float) -> None:
        """Writes the name in the middle of a span, or its last part, as far as there is room."""
        if words := self._label_words(span):
            self._text((self._x(span.start) + self._x(span.end)) / 2, y, words, "middle")

    def _label_words(self, span: _Span) -> str:
        """Returns the name, or its last part, or "" where neither has room."""
        width = self._x(span.end) - self._x(span.start)
        label = span.label or "model"
        return next((w for w in (label, label.rpartition(".")[2]) if len(w) * _LETTER < width), "")

    def draw_seconds(self) -> None:
        """Draws a lane of boxes for arithmetic and one for communication."""
        for span in self._fine_spans():
            prices = self._prices[span.first : span.last]
            sent = sum(price.communication_seconds for price in prices)
            title = self._title(span)
            # What an op needs comes first; a box of many ops is drawn in the same order.
            if sent > 0:
                y = self._y + _LANE + _GAP
                self._rect(span.start, span.start + sent, y, _LANE, _COMMUNICATION, title)
            if span.end - span.start > sent:
                self._rect(span.start + sent, span.end, self._y, _LANE, _COMPUTE, title)
        for lane, name in enumerate(("compute", "communication")):
            self._text(_LEFT - 8, self._y + lane * (_LANE + _GAP) + 19, name, "end")
        self._y += 2 * (_LANE + _GAP)

    def draw_bytes(self) -> None:
        """Draws a bar for what the ops of each stretch of the program move."""
        height = 2 * _LANE
        spans = self._fine_spans()
        moved = [
            sum(price.nbytes for price in self._prices[span.first : span.last]) for span in spans
        ]
        most = max(moved) or 1
        for span, nbytes in zip(spans, moved, strict=True):
            if nbytes:
                tall = max(1.0, nbytes / most * height)
                y = self._y + height - tall
                self._rect(span.start, span.end, y, tall, _COMMUNICATION, self._title(span))
        self._text(_LEFT - 8, self._y + 12, size_words(most), "end")
        self._text(_LEFT - 8, self._y + height, "bytes moved", "end")
        self._line(_LEFT, self._y + height, _LEFT + self._width, self._y + height)
        self._y += height + _GAP

    def draw_worker(
        self, worker: int, live: Sequence[int], kinds: Mapping[str, Sequence[int]], highest: int
    ) -> None:
        """Bytes that are live of one of several workers, of which one holds `highest` at most."""
        bottom = self._y + _WORKER
        self._areas(live, kinds, bottom, _WORKER / (highest or 1), finest=_FINEST)
        self._line(_LEFT, bottom, _LEFT + self._width, bottom)
        self._text(_LEFT - 8, bottom - _WORKER / 2 - 3, f"worker {worker}", "end")
        self._text(_LEFT - 8, bottom - _WORKER / 2 + 11, size_words(max(live)), "end")
        self._y = bottom + _GAP

    def words(self) -> str:
        """Returns how many ops there are, and what they cost."""
        return self._cost_words(_Span("", False, 0, 0, 0, len(self._ops)))

    def names(self, number: int) -> tuple[str, str]:
        """Returns the operator and the module of a call."""
        return self._ops[number].target, self._ops[number].module_path

    def _areas(
        self,
        live: Sequence[int],
        kinds: Mapping[str, Sequence[int]] | None,
        bottom: float,
        scale: float,
        finest: float = 1.0,
    ) -> None:
        """Draws areas on top of each other, each from the bottom to where its kind ends."""
        spans = self._fine_spans(finest)
        highest = [max(range(s.first, s.last), key=live.__getitem__) for s in spans]
        below = [0.0] * len(spans)
        drawn = []
        for kind, each in (kinds or {"live": live}).items():
            path, height = [f"M{_LEFT} {bottom:.1f}"], ""
            for number, (span, op) in enumerate(zip(spans, highest, strict=True)):
                below[number] += each[op]
                y = f"V{bottom - below[number] * scale:.1f}"
                if y == height:
                    path.pop()
                path += [*[y] * (y != height), f"H{self._x(span.end):.1f}"]
                height = y
            fill = _KIND_COLOURS.get(kind, "var(--live)")
            drawn.append(
                f'<path d="{"".join(path)}V{bottom:.1f}Z" fill="{fill}"><title>{kind}</title>'
                "</path>\n"
            )
        self._parts += reversed(drawn)

    def draw_memory(
        self,
        live: Sequence[int],
        kinds: Mapping[str, Sequence[int]] | None = None,
        highest: float = 0,
    ) -> None:
        """Bytes that are live, by kind, and the predicted peak: the most of them."""
        top, bottom = self._y + 14, self._y + 14 + _MEMORY
        peak = max(live)
        tallest = max(peak, highest) or 1

        def y(nbytes: float) -> float:
            return bottom - nbytes / tallest * _MEMORY

        self._areas(live, kinds, bottom, _MEMORY / tallest)
        self._line(_LEFT, y(peak), _LEFT + self._width, y(peak), ' stroke-dasharray="5 4"')
        self._line(_LEFT, bottom, _LEFT + self._width, bottom)
        self._text(_LEFT - 8, top + 8, size_words(tallest), "end")
        self._text(_LEFT - 8, bottom, "live bytes", "end")
        self._mark_peak(max(range(len(live)), key=live.__getitem__), peak, y(peak))
        self._y = bottom + _GAP

    def _mark_peak(self, heaviest: int, peak: int, y: float) -> None:
        """Tells the peak above its line, where nothing is drawn, and of which call it is."""
        x, op = self._x(self._starts[heaviest]), self._ops[heaviest]
        where = f"at {op.target} of {op.module_path or 'the model'}"
        words = f"predicted peak {size_words(peak)}"
        self._parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="var(--stroke)">'
            f"<title>{escape(f'{words} {where}')}</title></circle>\n"
        )
        room = self._width / _LETTER - len(words)
        told = words if len(where) > room else f"{words} {where}"
        at = min(max(x - len(told) * _LETTER / 2, _LEFT + 4), _LEFT + self._width)
        at = min(at, _LEFT + self._width - len(told) * _LETTER)
        self._text(at, y - 6, told)

    def _draw_axis(self) -> None:
        """Numbers below all lanes."""
        step = _round_step(self._total / 8 if self._timed else max(1.0, self._total / 8))
        for tick in range(int(self._total / step) + 1):
            at = tick * step
            self._line(self._x(at), self._y, self._x(at), self._y + 4)
            label = duration_words(at) if self._timed and at else f"{at:g}"
            self._text(self._x(at), self._y + 16, label, "middle")
        self._text(_LEFT - 8, self._y + 16, "seconds" if self._timed else "ops", "end")
        self._y += 24

    # ---- spans of ops ----

    def _title(self, span: _Span) -> str:
        return f"{span.label or 'model'}: {self._cost_words(span)}"

    def _cost_words(self, span: _Span) -> str:
        prices = self._prices[span.first : span.last]
        words = f"{len(prices)} ops, moves {size_words(sum(price.nbytes for price in prices))}"
        if self._timed:
            sent = sum(price.communication_seconds for price in prices)
            computed = sum(price.compute_seconds for price in prices)
            words += f", {duration_words(computed)} compute, {duration_words(sent)} communication"
        return words

    def _spans(self, labels: Iterable[str]) -> list[_Span]:
        """Runs of equal labels within a pass."""
        runs = itertools.groupby(
            enumerate(zip(labels, self._ops, strict=True)),
            key=lambda entry: (entry[1][0], entry[1][1].backward),
        )
        spans = []
        for (label, backward), members in runs:
            numbers = [number for number, _ in members]
            first, last = numbers[0], numbers[-1] + 1
            start, end = self._starts[first], self._starts[last]
            spans.append(_Span(label, backward, start, end, first, last))
        return spans

    def _module_spans(self) -> list[_Span]:
        """Runs of modules, as deep as there is room for."""
        found = [self._spans(_heads(self._ops, depth, self._turn)) for depth in (3, 2, 1)]
        named = [self._named(spans) for spans in found]
        enough = (spans for spans, share in zip(found, named, strict=True) if share >= _NAMED)
        return next(enough, found[named.index(max(named))])

    def _named(self, spans: Sequence[_Span]) -> float:
        """Returns the share of the axis that spans take whose names have room."""
        return sum(s.end - s.start for s in spans if self._label_words(s)) / self._total

    def _fine_spans(self, finest: float | None = None) -> list[_Span]:
        """Ops, as many together as are as wide as the narrowest box."""
        spans: list[_Span] = []
        least = (finest or self._finest) / self._width * self._total
        for number, (op, label) in enumerate(
            zip(self._ops, _heads(self._ops, 99, self._turn), strict=True)
        ):
            end = self._starts[number + 1]
            span = spans[-1] if spans else None
            backward = op.backward
            if span and span.backward == backward and span.end - span.start < least:
                span.end, span.last = end, number + 1
                span.label = _common(span.label, label)
            else:
                spans.append(_Span(label, backward, self._starts[number], end, number, number + 1))
        return spans


def _heads(ops: Sequence[OpRecord], depth: int, turn: int) -> list[str]:
    """Returns the first parts of the ops' modules; an op of none goes with the op before it."""
    heads: list[str] = []
    for number, op in enumerate(ops):
        head = ".".join(op.module_path.split(".")[:depth])
        heads.append(heads[-1] if not head and heads and number != turn else head)
    return heads


def _common(here: str, there: str) -> str:
    """Returns the module that two modules have in common."""
    same = itertools.takewhile(
        lambda pair: pair[0] == pair[1], zip(here.split("."), there.split("."), strict=False)
    )
    return ".".join(part for part, _ in same)


def _round_step(step: float) -> float:
    """Returns the next number of the form 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= step)
