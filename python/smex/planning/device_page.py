"""Devices as a page: how well their calls are told, and the rooflines of what was not measured."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from smex.planning import markup
from smex.planning.markup import code, escape, section, table
from smex.planning.residuals import Residual, measured_once, percentile, residuals
from smex.text import duration_words

_WITHIN = 0.15
_MOST_KINDS = 20
_SIZE, _LEFT, _BOTTOM = 420, 70, 40  # pixels: of the square, of what is beside and below it
_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#9d755d")
_DTYPES = ("float16", "float32", "float64")
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclasses.dataclass(frozen=True)
class ShownDevice:
    """A device of a page.

    Attributes:
        device: a `smex.cluster.Device`, or a machine, of which it is a worker.
        workers: who they are, in words.
    """

    device: Any
    workers: str


def device_overview(summary: str, devices: Sequence[ShownDevice]) -> str:
    """Returns the table of devices, as a notebook shows a cluster."""
    return markup.fragment(_paragraph(summary), _device_table(devices))


def device_fragment(summary: str, devices: Sequence[ShownDevice]) -> str:
    """Returns all sections, to be shown inside of another page."""
    return markup.fragment(*_sections(summary, devices))


def device_page(summary: str, devices: Sequence[ShownDevice]) -> str:
    """Returns all sections as a page of its own, which refers to nothing outside of it."""
    title = "Predicted and measured seconds"
    return markup.page(title, f"<h1>{title}</h1>", *_sections(summary, devices))


def _sections(summary: str, devices: Sequence[ShownDevice]) -> list[str]:
    every = [_device_section(shown) for shown in devices]
    return [_paragraph(summary), _device_table(devices), *every]


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _percent(share: float) -> str:
    return "" if math.isnan(share) else f"{share:.1%}"


# ---- devices ----


def _device_table(devices: Sequence[ShownDevice]) -> str:
    rows = []
    for shown in devices:
        found = residuals(shown.device.calls)
        errors = [residual.error for residual in found]
        rows.append(
            (
                escape(shown.device.name),
                escape(shown.workers),
                f"{len(errors):,}",
                _percent(percentile(errors, 0.5)),
                _percent(percentile(errors, 0.9)),
            )
        )
    head = ("device", "workers", "measured calls", "median of the errors", "90th percentile")
    return table(head, rows, right=(2, 3, 4))


def _device_section(shown: ShownDevice) -> str:
    device = shown.device
    found = residuals(device.calls)
    parts = [_paragraph(_words(found, device.calls))]
    if found:
        parts += [_scatter(found), "<h3>Kinds of call</h3>", _kind_tables(found)]
    parts += ["<h3>Never measured: the roofline</h3>", _roofline_words(device), _roofline(device)]
    return section(f"{device.name}, {shown.workers}", *parts)


def _words(found: Sequence[Residual], calls: Any) -> str:
    if not calls:
        return (
            "Nothing was measured: all calls take what the roofline tells. smex.profile and "
            "smex.cluster.profile measure the calls of a captured model."
        )
    once = measured_once(calls)
    alone = (
        f" Kinds of which one call was measured, which no other tells: {once:,}." if once else ""
    )
    if not found:
        return f"No kind has two calls that were measured, to tell one by the other.{alone}"
    errors = [residual.error for residual in found]
    median, most = percentile(errors, 0.5), percentile(errors, 0.9)
    kinds = len({(residual.kind, residual.itemsize) for residual in found})
    within = sum(abs(error) <= _WITHIN for error in errors) / len(errors)
    return (
        f"{len(found):,} measured calls of {kinds:,} kinds, each predicted with its own "
        f"measurement left out: the median of the errors is {median:.1%}, their 90th percentile "
        f"{most:.1%}; {within:.0%} are within {_WITHIN:.0%}.{alone} Weights of a kind were fitted "
        "to all of its calls. Seconds are without those of memory that is new."
    )


def _kind_tables(found: Sequence[Residual]) -> str:
    """Returns the kinds, those with the largest errors first; all but the first are folded."""
    groups: dict[tuple[str, int], list[Residual]] = collections.defaultdict(list)
    for residual in found:
        groups[residual.kind, residual.itemsize].append(residual)
    ordered = sorted(
        groups.items(), key=lambda group: -percentile([each.error for each in group[1]], 0.5)
    )
    rows = [_kind_row(*key, group) for key, group in ordered]
    head = ("kind", "bytes", "calls", "longest", "median error", "largest error")
    shown = table(head, rows[:_MOST_KINDS], right=range(1, 6))
    if len(rows) <= _MOST_KINDS:
        return shown
    more = table(head, rows[_MOST_KINDS:], right=range(1, 6))
    summary = f"<summary>{len(rows) - _MOST_KINDS:,} more</summary>"
    return f"{shown}\n<details>{summary}\n{more}\n</details>"


def _kind_row(kind: str, itemsize: int, group: Sequence[Residual]) -> tuple[str, ...]:
    errors = [residual.error for residual in group]
    longest = max(residual.measured for residual in group)
    return (
        code(kind), str(itemsize), str(len(group)), duration_words(longest),
        f"{percentile(errors, 0.5):.1%}", f"{max(errors, key=abs):+.1%}",
    )  # fmt: skip


# ---- drawings ----


class _Drawing:
    """An SVG with logarithmic axes.

    Args:
        x: the ends of the horizontal axis.
        y: of the vertical one.
    """

    def __init__(self, x: tuple[float, float], y: tuple[float, float]):
        self._x, self._y = _decades(x), _decades(y)
        self._parts: list[str] = []

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Returns where a point lies, in pixels."""
        (left, right), (low, high) = self._x, self._y
        across = (math.log10(x) - left) / (right - left)
        up = (math.log10(y) - low) / (high - low)
        return _LEFT + _SIZE * across, _SIZE * (1 - up) + 10

    def axes(self, x_title: str, y_title: str) -> None:
        """Draws a line for each decade, and the titles."""
        for power in range(self._x[0], self._x[1] + 1):
            at, _ = self.place(10.0**power, 10.0 ** self._y[0])
            self._line((at, 10), (at, _SIZE + 10), "var(--faint)")
            self._text(at, _SIZE + 24, _power(power), "middle")
        for power in range(self._y[0], self._y[1] + 1):
            _, at = self.place(10.0 ** self._x[0], 10.0**power)
            self._line((_LEFT, at), (_LEFT + _SIZE, at), "var(--faint)")
            self._text(_LEFT - 6, at + 4, _power(power), "end")
        self._text(_LEFT + _SIZE / 2, _SIZE + 42, x_title, "middle")
        middle = _SIZE / 2 + 10
        self._text(14, middle, y_title, "middle", f' transform="rotate(-90 14 {middle:g})"')

    def line(
        self, factor: float, colour: str, title: str, limit: float = math.inf, dash: str = ""
    ) -> None:
        """Draws the least of a limit and `factor` times x, as far as it is on the axes."""
        (left, right), (low, high) = ((10.0**lo, 10.0**hi) for lo, hi in (self._x, self._y))
        ends = max(left, low / factor), min(right, high / factor, limit / factor)
        corners = [(x, factor * x) for x in ends]
        if math.isfinite(limit):
            corners.append((right, limit))
        points = " ".join("{:.1f},{:.1f}".format(*self.place(*corner)) for corner in corners)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}"{dashes}>'
            f"<title>{escape(title)}</title></polyline>\n"
        )

    def point(self, x: float, y: float, title: str) -> None:
        """Draws a point, which says what it is."""
        across, down = self.place(x, y)
        self._parts.append(
            f'<circle cx="{across:.1f}" cy="{down:.1f}" r="2.5" fill="{_COLOURS[0]}" '
            f'fill-opacity="0.6"><title>{escape(title)}</title></circle>\n'
        )

    def svg(self) -> str:
        """Returns what has been drawn."""
        width, height = _LEFT + _SIZE + 20, _SIZE + _BOTTOM + 10
        return (
            f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'style="max-width:100%;height:auto">\n{"".join(self._parts)}</svg>'
        )

    def _line(self, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
        (x1, y1), (x2, y2) = start, end
        self._parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>\n'
        )

    def _text(self, x: float, y: float, text: str, anchor: str, more: str = "") -> None:
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>\n'
        )


def _decades(ends: tuple[float, float]) -> tuple[int, int]:
    """Returns the powers of ten around a range."""
    low, high = math.floor(math.log10(ends[0])), math.ceil(math.log10(ends[1]))
    return low, max(high, low + 1)


def _power(power: int) -> str:
    return f"10{str(power).translate(_SUPERSCRIPTS)}"


def _scatter(found: Sequence[Residual]) -> str:
    """Returns measured seconds against predicted ones."""
    every = [seconds for each in found for seconds in (each.measured, each.predicted)]
    ends = min(every), max(every)
    drawing = _Drawing(ends, ends)
    drawing.axes("seconds measured", "seconds predicted")
    drawing.line(1, "var(--stroke)", "as measured")
    for factor in (1 - _WITHIN, 1 + _WITHIN):
        drawing.line(factor, "var(--tick)", f"{factor - 1:+.0%}", dash="4 3")
    for each in found:
        words = (
            f"{duration_words(each.measured)} measured, {duration_words(each.predicted)} predicted"
        )
        drawing.point(each.measured, each.predicted, f"{each.kind}: {words} ({each.error:+.1%})")
    return drawing.svg()


def _rates(device: Any) -> list[tuple[str, float, str]]:
    """Returns by dtype the operations a second, and a colour."""
    return [
        (dtype, device.flops[dtype], colour)
        for dtype, colour in zip(_DTYPES, _COLOURS, strict=False)
        if dtype in device.flops
    ]


def _roofline(device: Any) -> str:
    """Returns the rates that calls reach, by their operations for each byte."""
    rates = list(device.flops.values())
    balances = [rate / device.memory_bandwidth for rate in rates]
    x = min(0.1, min(balances) / 10), max(1e3, max(balances) * 10)
    drawing = _Drawing(x, (x[0] * device.memory_bandwidth, max(rates)))
    drawing.axes("operations for each byte", "operations a second")
    for dtype, rate, colour in _rates(device):
        title = f"{dtype}: {rate:.3g} operations a second"
        drawing.line(device.memory_bandwidth, colour, title, limit=rate)
    return drawing.svg()


def _roofline_words(device: Any) -> str:
    rows = []
    for dtype, rate, colour in _rates(device):
        mark = f'<span style="color:{colour}">■</span>'
        balance = f"{rate / device.memory_bandwidth:.3g}"
        rows.append((f"{mark} {dtype}", f"{rate:.3g}", balance))
    gathers = device.gather_bandwidth or device.memory_bandwidth
    words = (
        f"A call takes the longest of {duration_words(device.launch)}, its operations over the "
        f"rate, and its bytes over {device.memory_bandwidth / 1e9:.4g} GB/s ({gathers / 1e9:.4g} "
        "GB/s of rows that are read one by one)."
    )
    head = ("dtype", "operations a second", "operations for each byte where both are reached")
    return _paragraph(words) + "\n" + table(head, rows, right=(1, 2))
