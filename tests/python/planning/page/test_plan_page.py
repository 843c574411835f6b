"""Pages of plans: what they show, that they stand alone, and that what they say adds up."""

import datetime
import itertools
import math
import re
import sys
import types
from xml.etree import ElementTree

import pytest
import torch
from torch.nn import functional as F

import smex
from smex.planning.page.memory import (
    KINDS,
    fullest_worker,
    live_bytes,
    live_bytes_by_kind,
    program_order,
)
from smex.planning.page.names import collapse, numbers_words
from smex.planning.page.plan_page import SIGNS
from smex.planning.page.tiles import HEIGHT, WIDTH, tensor_picture, worker_colour
from smex.planning.prices import op_prices
from support.families import FAMILIES

pytestmark = pytest.mark.costly

LINK = smex.Level(1024, 1e-5, 1e9)
MACHINE = smex.Machine("test", {"float32": 1e10, "float64": 1e9}, 1e10, 1e-6, 1e9, (LINK,))


def capture(module, *shape):
    return smex.capture_graph(module, (torch.zeros(*shape),))


@pytest.fixture
def graph():
    """Two linear layers: 0.weight [6, 4], 0.bias [6], 2.weight [3, 6], 2.bias [3], input [8, 4]."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    return capture(model, 8, 4)


class Shapes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Parameter(torch.randn(8))
        self.plane = torch.nn.Parameter(torch.randn(8, 8))
        self.filter = torch.nn.Parameter(torch.randn(8, 8, 3, 3))

    def forward(self, x):
        y = F.conv2d(x, self.filter, padding=1)
        return (y.sum((2, 3)) @ self.plane) * self.line


class Blocks(torch.nn.Module):
    """`count` equal blocks between a first and a last layer."""

    def __init__(self, count, width=8):
        super().__init__()
        self.first = torch.nn.Linear(4, width)
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(count))
        self.last = torch.nn.Linear(width, 2)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = torch.relu(block(x))
        return self.last(x)


@pytest.fixture(scope="module")
def captured():
    """By name the graphs of small models with their losses."""
    graphs = {}
    for name, (model, loss_fn) in FAMILIES.items():
        net, args = model.small(), model.small_inputs(torch.float32)
        if name == "rnn":
            args = (args[0], torch.zeros(*args[0].shape, 11))
        graphs[name] = smex.capture_graph(net, args, loss_fn)
    return graphs


def page_of(plan, tmp_path):
    """The page as text, and as the tree of its elements."""
    path = tmp_path / "plan.html"
    assert plan.show(path) == path
    text = path.read_text(encoding="utf-8")
    return text, ElementTree.fromstring(text)


def expanded(pattern):
    """All names that a pattern such as `a.{0,2..3}.b` stands for."""
    parts = []
    for part in re.split(r"\{(.*?)\}", pattern):
        numbers = []
        if re.fullmatch(r"[\d.,]+", part) and len(parts) % 2:
            for run in part.split(","):
                lo, _, hi = run.partition("..")
                numbers += map(str, range(int(lo), int(hi or lo) + 1))
        parts.append(numbers or [part])
    return ["".join(chosen) for chosen in itertools.product(*parts)]


def rows_of(tree, heading):
    """Cells of the first table whose first column has this heading, and those like it."""
    found = []
    for table in tree.iter("table"):
        rows = [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]
        if rows[0][0] == heading:
            found += rows[1:]
    return found


# ---- pictures ----


def boxes(plan, name):
    """Of the tensor's picture: (x, y, width, height) of each worker's box."""
    shape = plan.graph.captured.values[plan.graph.value_by_name[name]].shape
    picture = tensor_picture(shape, plan.placement(name), plan.tiles(name))
    svg = ElementTree.fromstring(re.search("<svg.*</svg>", picture).group())
    found = {}
    for rect in svg.iter("rect"):
        box = tuple(float(rect.get(key)) for key in ("x", "y", "width", "height"))
        if rect.get("fill") == "none":
            continue
        worker = int(re.match(r"worker (\d+):", rect[0].text).group(1))
        assert rect.get("fill") == worker_colour(worker, plan.workers)
        found[worker] = box
    return [found[worker] for worker in sorted(found)]


LEFT, RIGHT = (0, 0, 45, 36), (45, 0, 45, 36)
TOP, BOTTOM = (0, 0, 90, 18), (0, 18, 90, 18)
QUARTERS = [(0, 0, 45, 18), (45, 0, 45, 18), (0, 18, 45, 18), (45, 18, 45, 18)]


@pytest.mark.parametrize(
    ("name", "pin", "expected"),
    [
        ("line", [0], [LEFT, RIGHT]),
        ("line", [-1], [LEFT, RIGHT]),  # two replicas share the box
        ("plane", [0], [TOP, BOTTOM]),
        ("plane", [1], [LEFT, RIGHT]),
        ("plane", [0, 1], QUARTERS),
        ("plane", [0, -1], QUARTERS),
        ("filter", [0], [TOP, BOTTOM]),
        ("filter", [1], [LEFT, RIGHT]),
        ("x", [2], [LEFT, RIGHT]),
        ("x", [2, 3], QUARTERS),
    ],
)
def test_pictures(name, pin, expected):
    plan = smex.search(capture(Shapes(), 4, 8, 6, 6), 2 ** len(pin), pinned={name: pin})
    assert boxes(plan, name) == expected


@pytest.mark.parametrize("workers", [2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("model", FAMILIES)
def test_boxes_fill_the_picture_and_do_not_overlap(captured, model, workers):
    plan = smex.search(captured[model], workers, replicate_bytes=0)
    for name in plan.placements():
        found = [box for box in boxes(plan, name) if box[2] * box[3] > 0]
        area = sum(width * height for _, _, width, height in found)
        # Coordinates have two digits.
        assert math.isclose(area, WIDTH * HEIGHT, rel_tol=2e-3), name
        for (x, y, w, h), (u, v, s, t) in itertools.combinations(found, 2):
            assert min(x + w, u + s) - max(x, u) < 0.02 or min(y + h, v + t) - max(y, v) < 0.02


def test_a_picture_tells_replicas_from_tiles():
    graph = capture(Shapes(), 4, 8, 6, 6)

    def picture(name, pin):
        plan = smex.search(graph, 2, pinned={name: pin})
        shape = graph.captured.values[graph.value_by_name[name]].shape
        return tensor_picture(shape, plan.placement(name), plan.tiles(name))

    assert [picture("line", [dim]).count("var(--stroke)") for dim in (0, -1)] == [2, 1]
    assert [picture("line", [dim]).count("var(--hatch)") for dim in (0, -1)] == [0, 1]
    assert "↓ dim 0 → dim 2" in picture("x", [2])


def test_many_workers_are_drawn_as_cuts(tmp_path):
    plan = smex.search(capture(torch.nn.Linear(256, 256, bias=False), 256, 256), 256)
    text, tree = page_of(plan, tmp_path)
    assert len(text) < 50_000 and "boxes of 256 workers" in text
    assert "worker" not in {span.get("class") for span in tree.iter("span")}


# ---- names ----


@pytest.mark.parametrize(
    ("names", "patterns"),
    [
        (["a.0.w", "a.1.w", "a.2.w"], ["a.{0..2}.w"]),
        (["a.0.w", "a.2.w", "a.3.w", "b"], ["a.{0,2..3}.w", "b"]),
        (["a.0.0", "a.0.1", "a.1.0", "a.1.1"], ["a.{0..1}.{0..1}"]),
        (["a.0.0", "a.0.1", "a.1.0"], ["a.{0..1}.0", "a.0.1"]),
        (["a.0", "b.1", "a.0.0"], ["a.0", "b.1", "a.0.0"]),
        (["conv1", "conv2", "01", "1"], ["conv1", "conv2", "01", "1"]),
        ([], []),
    ],
)
def test_names_that_differ_in_numbers(names, patterns):
    assert [pattern for pattern, _, _ in collapse((name, 0) for name in names)] == patterns


@pytest.mark.parametrize("seed", range(20))
def test_groups_are_exactly_their_names(seed):
    random = torch.Generator().manual_seed(seed)
    draw = torch.randint(4, (40, 3), generator=random).tolist()
    names = sorted({f"x.{a}.y.{b}" if c else f"x.{a}" for a, b, c in draw})
    keys = {name: int(torch.randint(2, (), generator=random)) for name in names}
    groups = collapse(keys.items())
    for pattern, key, members in groups:
        assert sorted(expanded(pattern)) == sorted(members), f"seed {seed}"
        assert {keys[name] for name in members} == {key}
    assert sorted(name for _, _, members in groups for name in members) == names


def test_numbers():
    assert numbers_words((3,)) == "3"
    assert numbers_words((0, 1, 5, 7, 8)) == "{0..1,5,7..8}"


# ---- the page ----


@pytest.mark.parametrize("machine", [None, MACHINE], ids=["bytes", "seconds"])
@pytest.mark.parametrize("model", FAMILIES)
def test_the_page_stands_alone_and_has_every_tensor(captured, model, machine, tmp_path):
    plan = smex.search(captured[model], 4, replicate_bytes=0, machine=machine)
    text, tree = page_of(plan, tmp_path)
    assert not re.search(r"http|src=|@import|url\(|fetch\(|import\(|</?(iframe|link|img)", text)
    assert len(text) < 600_000
    rows = rows_of(tree, "tensor")
    shown = [name for row in rows for name in expanded(row[0])]
    assert sorted(shown) == sorted(plan.placements())
    for row in rows:
        for name in expanded(row[0]):
            value = captured[model].captured.values[captured[model].value_by_name[name]]
            assert row[3] == ("×".join(map(str, value.shape)) or "scalar")
            assert row[4] == plan.words(name)
            assert row[5] == smex.text.size_words(plan.worker_bytes(name))
    headings = [heading.text for heading in tree.iter("h2")]
    path = ["Critical path"] if machine else []
    rest = ["Links", "Steps", "Ops that cost most", "Layers", "Tensors"]
    assert headings == ["Timeline", *path, *rest]
    ids = [row.get("id") for row in tree.iter("tr") if row.get("id")]
    assert len(ids) == len(set(ids)) > 0
    assert {link.get("href").removeprefix("#") for link in tree.iter("a")} <= set(ids)
    assert bool(machine) == any(True for _ in tree.iter("a"))


def test_the_page_says_of_what_it_is_the_plan(captured, tmp_path):
    graph = next(iter(captured.values()))
    plan = smex.search(graph, 4, mesh=[2, 2], replicate_bytes=0, machine=MACHINE)
    _, tree = page_of(plan, tmp_path)
    title = f"{graph.captured.name} on 4 workers as 2×2"
    assert tree.find(".//h1").text == tree.find(".//title").text == title
    facts = tree.find(".//h1/../p").text
    for name, number in graph.value_by_name.items():
        value = graph.captured.values[number]
        if value.role == "input":
            assert f"{name} {str(value.dtype).removeprefix('torch.')} " in facts
    assert "Machine(" not in facts and f"on {MACHINE.name}: {MACHINE.workers} workers" in facts
    assert facts.endswith(datetime.date.today().isoformat())


def test_signs_are_explained(captured, tmp_path):
    _, tree = page_of(smex.search(next(iter(captured.values())), 2), tmp_path)
    folded = [box for box in tree.iter("details") if box.find("summary").text == "Signs"]
    told = ["".join(cell.itertext()) for cell in folded[0].iter("code")]
    assert told == [sign for sign, _ in SIGNS]


def test_equal_blocks_share_rows_and_frames(tmp_path):
    plan = smex.search(
        capture(Blocks(6), 8, 4), 2, replicate_bytes=0, pinned={"blocks.2.weight": [0]}
    )
    alike = [n for n in range(6) if plan.placement(f"blocks.{n}.weight") == [0]]
    others = [n for n in range(6) if n not in alike]
    _, tree = page_of(plan, tmp_path)
    rows = {row[0]: row[1] for row in rows_of(tree, "tensor")}
    for numbers in filter(None, (alike, others)):
        count = f"{len(numbers)} ×" if len(numbers) > 1 else ""
        assert rows[f"blocks.{numbers_words(tuple(numbers))}.weight"] == count


def frames(tree):
    """Titles of the frames of layers."""
    return [box.find("b").text for box in tree.iter("div") if box.get("class") == "block"]


def test_layers_follow_the_network(tmp_path):
    graph = capture(Blocks(5), 8, 4)
    pins = {f"blocks.{n}.weight": [0] for n in range(5)} | {
        f"blocks.{n}.bias": [0] for n in range(5)
    }
    _, tree = page_of(smex.search(graph, 2, replicate_bytes=0, planner="all_row"), tmp_path)
    assert frames(tree) == ["first", "blocks.{0..4} × 5", "last"]
    pins["blocks.2.weight"] = [1]
    _, tree = page_of(smex.search(graph, 2, replicate_bytes=0, pinned=pins), tmp_path)
    titles = frames(tree)
    assert titles[0] == "first" and titles[-1] == "last" and "blocks.2" in titles
    numbers = [n for title in titles[1:-1] for n in expanded(title.partition(" × ")[0])]
    assert numbers == [f"blocks.{n}" for n in range(5)]


def test_layers_of_convolutions_are_weight_and_activations(tmp_path):
    graph = capture(Shapes(), 4, 8, 6, 6)
    pins = {"filter": [0], "x": [1]}
    _, tree = page_of(smex.search(graph, 2, pinned=pins, replicate_bytes=0), tmp_path)
    layers = [layer for layer in tree.iter("div") if layer.get("class") == "layer"]
    texts = [
        " ".join(tensor.itertext())
        for tensor in layers[0].iter("div")
        if tensor.get("class") == "tensor"
    ]
    assert len(layers) == 2  # the convolution and the product with `plane`
    assert re.search(r"weight 8×8×3×3 *S0 ", texts[0])
    assert re.search(r"reads 4×8×6×6 *S1 ", texts[1])
    assert "makes 4×8×6×6" in texts[2]


def test_unrolled_steps_are_one_layer(captured, tmp_path):
    _, tree = page_of(smex.search(captured["rnn"], 2, replicate_bytes=0), tmp_path)
    used = [
        (layer.find("span").text, re.search(r"weight \S+", " ".join(layer.itertext())).group())
        for layer in tree.iter("div")
        if layer.get("class") == "layer"
    ]
    assert any("× 3" in name or "× 2" in name for name, _ in used)
    assert len(used) < 3 * 5  # three steps of two cells, of two products each, and the decoder


def test_names_are_escaped(tmp_path):
    graph = smex.capture_graph(lambda xs: xs["<b>"] * 2, ({"<b>": torch.zeros(4)},))
    plan = smex.search(graph, 2)
    text, _ = page_of(plan, tmp_path)
    for page in (text, plan._repr_html_()):
        assert "<b>&lt;" not in page and "xs.<b>" not in page and "&lt;b&gt;" in page


def test_the_notebook_view_has_a_legend_and_tiles(graph):
    plan = smex.search(graph, 4, replicate_bytes=0)
    tree = ElementTree.fromstring(plan._repr_html_())
    legend = [span for span in tree.iter("span") if span.get("class") == "worker"]
    colours = [span.get("style").partition(":")[2] for span in legend]
    assert colours == [worker_colour(worker, 4) for worker in range(4)]
    assert len(set(colours)) == 4
    assert sum(1 for _ in tree.iter("svg")) == len(graph.value_by_name)
    numbers = {cell.text for cell in tree.iter("td") if cell.get("class") == "n"}
    assert {"6×4", "8×4"} <= numbers


def test_notebooks_show_the_plan_of_a_net():
    net = smex.partition(torch.nn.Linear(4, 4), workers=2, replicate_bytes=0)
    assert net._repr_html_() is None  # not captured yet
    net(torch.zeros(2, 4))
    tree = ElementTree.fromstring(net._repr_html_())
    assert net._repr_html_() == net.plan._repr_html_()
    assert tree.find(".//h1").text == "Linear on 2 workers"


def test_a_plan_of_one_worker_and_a_model_without_weights(tmp_path):
    graph = smex.capture_graph(lambda x: x * 2, (torch.zeros(4),))
    text, tree = page_of(smex.search(graph, 1, machine=MACHINE), tmp_path)
    assert "One worker has no steps." in text
    assert "Layers" not in [heading.text for heading in tree.iter("h2")]
    nothing = smex.capture_graph(lambda x: x, (torch.zeros(4),))
    assert "Timeline" not in page_of(smex.search(nothing, 2), tmp_path)[0]


# ---- show ----


def test_show_writes_a_temporary_page_and_prints_its_path(graph, capsys):
    path = smex.search(graph, 2).show()
    try:
        assert capsys.readouterr().out == f"{path}\n"
        assert ElementTree.fromstring(path.read_text(encoding="utf-8")).tag == "html"
    finally:
        path.unlink()


def test_show_displays_in_a_notebook(graph, monkeypatch, tmp_path):
    shown = []
    notebook = types.ModuleType("IPython")
    notebook.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    display = types.ModuleType("IPython.display")
    display.HTML, display.display = lambda data: ("html", data), shown.append
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    plan = smex.search(graph, 2)
    assert plan.show() is None
    [(kind, fragment)] = shown
    assert kind == "html" and ElementTree.fromstring(fragment).get("class") == "smex-plan"
    assert plan.show(tmp_path / "a.html") == tmp_path / "a.html" and len(shown) == 1
    notebook.get_ipython = lambda: types.SimpleNamespace()  # a terminal
    plan.show().unlink()
    assert len(shown) == 1


# ---- prices ----


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize("model", FAMILIES)
def test_prices_of_ops_add_up(captured, model, workers):
    plan = smex.search(captured[model], workers, replicate_bytes=0, machine=MACHINE)
    prices = op_prices(plan)
    sums = tuple(sum(price.step_bytes[step] for price in prices) for step in range(len(plan.mesh)))
    assert sums == plan.step_bytes
    assert sum(sums) == smex._C.plan_bytes(captured[model].native, plan.native)
    seconds = [sum(price.step_seconds[step] for price in prices) for step in range(len(plan.mesh))]
    assert seconds == pytest.approx(plan.step_seconds)
    assert sum(price.compute_seconds for price in prices) == pytest.approx(plan.compute_seconds)


@pytest.mark.parametrize("model", FAMILIES)
def test_live_bytes_have_the_heaviest_point(captured, model):
    plan = smex.search(captured[model], 6, replicate_bytes=0)
    live = smex._C.live_bytes(plan.graph.native, plan.native)
    op, nbytes, _ = smex._C.heaviest_point(captured[model].native, plan.native)
    assert max(live) == nbytes == live[op]
    assert len(live) == len(captured[model].captured.ops)


def test_live_bytes_by_hand(graph):
    live = smex._C.live_bytes(graph.native, smex.search(graph, 1).native)
    named = 4 * (24 + 6 + 18 + 3)
    ops = graph.captured.ops
    assert ops[0].outputs[0] is not None and live[0] >= named + 4 * 32
    assert live[-1] >= named


def test_shares_of_the_costliest_ops(captured, tmp_path):
    plan = smex.search(captured["wresnet"], 4, replicate_bytes=0)
    _, tree = page_of(plan, tmp_path)
    rows = rows_of(tree, "op")
    assert 0 < len(rows) <= 300
    costs = smex._C.op_bytes(plan.graph.native, plan.native)
    op, module, moved = rows[0][0], rows[0][1], rows[0][6]
    paths = set(expanded(module.replace("(model)", "")))
    assert any(
        (o.target, smex.text.size_words(costs[o.id])) == (op, moved) and o.module_path in paths
        for o in plan.graph.captured.ops
    )
    shares = [float(row[4].rstrip("%")) for row in rows]
    assert shares == sorted(shares, reverse=True) and sum(shares) <= 100.5


# ---- the course of an iteration ----


class ConvNorm(torch.nn.Module):
    """Convolutions with batch norm, of which backward computes something anew."""

    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
        self.conv2, self.norm2 = torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
        self.fc = torch.nn.Linear(8, 5)

    def forward(self, x):
        x = torch.relu(self.norm1(self.conv1(x)))
        x = torch.relu(self.norm2(self.conv2(x)))
        return self.fc(x.mean((2, 3)))


class Tied(torch.nn.Module):
    """An embedding that is the last layer's weight too."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(12, 8)
        self.norm = torch.nn.LayerNorm(8)
        self.head = torch.nn.Linear(8, 12, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.norm(self.embed(x)))


def image_classes():
    return torch.randn(6, 3, 8, 8), torch.randint(5, (6,))


def tokens():
    return torch.randint(12, (4, 7)), torch.randint(12, (4, 7))


def flat_entropy(logits, target):
    return F.cross_entropy(logits.flatten(0, -2), target.flatten())


COURSES = {
    "mlp": lambda: (Blocks(3), (torch.randn(8, 4), torch.randint(2, (8,))), F.cross_entropy),
    "conv and norm": lambda: (ConvNorm(), image_classes(), F.cross_entropy),
    "transformer layer": lambda: (
        torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        (torch.randn(4, 6, 8), torch.randn(4, 6, 8)),
        F.mse_loss,
    ),
    "tied weights": lambda: (Tied(), tokens(), flat_entropy),
    "forward alone": lambda: (
        torch.nn.Linear(4, 4).requires_grad_(False),
        (torch.ones(8, 4),),
        None,
    ),
}


@pytest.fixture(scope="module")
def courses(captured):
    """By name the graphs of the families, and of other small models."""
    graphs = dict(captured)
    for name, make in COURSES.items():
        model, args, loss_fn = make()
        graphs[name] = smex.capture_graph(model, args, loss_fn)
    return graphs


def passes(tree):
    """(pass, first pixel, width) of the bands at the top of the timeline."""
    found = []
    whole = next(d for d in tree.iter("div") if d.get("class") == "scroll zoom")
    for rect in whole.iter("rect"):
        title = rect.find("title")
        if title is not None and title.text in ("forward", "backward"):
            found.append((title.text, float(rect.get("x")), float(rect.get("width"))))
    return found


@pytest.mark.parametrize("machine", [None, MACHINE], ids=["bytes", "seconds"])
@pytest.mark.parametrize("model", ["conv and norm", "wresnet", "mlp", "transformer layer"])
def test_forward_comes_first_and_backward_second(courses, model, machine, tmp_path):
    graph = courses[model]
    plan = smex.search(graph, 2, replicate_bytes=0, machine=machine)
    _, tree = page_of(plan, tmp_path)
    (first, x0, forward), (second, x1, backward) = passes(tree)
    assert (first, second) == ("forward", "backward")
    assert x0 + forward == pytest.approx(x1, abs=0.02)
    parts = {False: 0.0, True: 0.0}
    for op, price in zip(graph.captured.ops, op_prices(plan), strict=True):
        parts[op.backward] += price.seconds if machine else 1
    assert forward / (forward + backward) == pytest.approx(
        parts[False] / sum(parts.values()), abs=1e-3
    )
    assert forward > 0.1 * (forward + backward)


@pytest.mark.parametrize("model", ["conv and norm", "wresnet", "gpt"])
def test_what_gradients_need_alone_is_drawn_in_backward(courses, model):
    """The order of the page is that of the program."""
    graph = courses[model]
    plan = smex.search(graph, 1)
    order = program_order(plan)
    ops = graph.captured.ops
    assert sorted(order) == list(range(len(ops)))
    worker = plan.program().workers[0]
    ran = [[i.op for i in part if isinstance(i, smex._C.ComputeInstr) and i.op >= 0]
           for part in (worker.forward, worker.backward)]  # fmt: skip
    turn = sum(not op.backward for op in ops)
    for part, drawn in zip(ran, (order[:turn], order[turn:])):
        assert part and part == [op for op in drawn if op in set(part)]
    forward = [ops[number].target for number in order[:turn]]
    assert not any("backward" in target or "channel_sums" in target for target in forward)
    if model == "conv and norm":
        assert [t for t in forward if "convolution" in t] == ["aten::convolution"] * 2
        early = [number for number in order[turn:] if number < order[turn - 1]]
        assert {ops[number].target for number in early} <= {"aten::add.Tensor", "aten::rsqrt"}
        assert early  # or the test says nothing


def test_a_forward_program_has_no_backward(courses, tmp_path):
    _, tree = page_of(smex.search(courses["forward alone"], 2), tmp_path)
    assert [name for name, _, _ in passes(tree)] == ["forward"]


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("model", [*COURSES, *FAMILIES])
def test_the_memory_that_is_drawn_has_the_predicted_peak(courses, model, workers):
    plan = smex.search(courses[model], workers, replicate_bytes=0)
    for worker, peak in enumerate(plan.peak_bytes()):
        live = live_bytes(plan, worker)
        assert max(live) == peak
        assert len(live) == len(courses[model].captured.ops) and min(live) > 0
    assert plan.peak_bytes()[fullest_worker(plan)] == max(plan.peak_bytes())


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("model", COURSES)
def test_the_page_has_one_peak(courses, model, workers, tmp_path):
    plan = smex.search(courses[model], workers, replicate_bytes=0)
    text, tree = page_of(plan, tmp_path)
    peak = smex.text.size_words(max(plan.peak_bytes()))
    assert f"peak {peak} per worker" in text and f"predicted peak {peak}" in text
    (mark,) = (circle.find("title").text for circle in tree.iter("circle"))
    assert mark.startswith(f"predicted peak {peak} at ")
    svg = next(s for s in tree.iter("svg") if any(t.text == "live bytes" for t in s.iter("text")))
    (dashed,) = (p.get("d") for p in svg.iter("path") if p.get("stroke-dasharray"))
    titled = {
        p.find("title").text: p.get("d") for p in svg.iter("path") if p.find("title") is not None
    }
    assert list(titled) == list(reversed(KINDS))  # the last is what lies in front
    highest = min(float(y) for d in titled.values() for y in re.findall(r"V([\d.]+)", d))
    assert highest == float(re.match(r"M[\d.]+ ([\d.]+)", dashed).group(1))


@pytest.mark.parametrize("machine", [None, MACHINE], ids=["bytes", "seconds"])
def test_modules_unfold_with_all_ops(machine, tmp_path):
    graph = capture(Blocks(40), 8, 4)
    plan = smex.search(graph, 2, planner="all_row", replicate_bytes=0, machine=machine)
    assert len(graph.captured.ops) >= 100
    _, tree = page_of(plan, tmp_path)
    (box,) = [d for d in tree.iter("details") if d.find("summary").text == "Modules one by one"]
    titles = ["".join(d.find("summary").itertext()) for d in box.findall("details")]
    assert len(box.findall("details/div/svg")) == len(titles) < 40
    counted = 0
    for title in titles:
        name, times, ops = re.match(r"(\S+?)(?: × (\d+), each)?: (\d+) ops, ", title).groups()
        assert len(expanded(name)) == int(times or 1)
        counted += int(times or 1) * int(ops)
    assert counted == len(graph.captured.ops)
    few = page_of(smex.search(capture(Blocks(2), 8, 4), 2), tmp_path)[0]
    assert "Modules one by one" not in few


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("model", [*COURSES, *FAMILIES])
def test_kinds_of_memory_are_all_of_it(courses, model, workers):
    graph = courses[model]
    plan = smex.search(graph, workers, replicate_bytes=0)
    for worker in range(workers):
        kinds = live_bytes_by_kind(plan, worker)
        assert list(kinds) == list(KINDS)
        assert [sum(now) for now in zip(*kinds.values())] == live_bytes(plan, worker)
        assert workers > 1 or not any(kinds["communication"])
        held = 0
        once = {number: name for name, number in graph.value_by_name.items()}  # tied ones too
        for number, name in once.items():
            value, tiles = graph.captured.values[number], plan.named_tiles()[name]
            if value.role in ("parameter", "buffer") and tiles[worker][0]:
                numel = math.prod(hi - lo for lo, hi in tiles[worker][1])
                held += numel * value.dtype.itemsize
        assert set(kinds["parameters"]) == {held}
        turn = sum(not op.backward for op in graph.captured.ops)
        assert not any(kinds["gradients"][:turn])
        assert any(kinds["gradients"][turn:]) or model == "forward alone"


def test_memory_of_each_worker_is_shown(courses, tmp_path):
    plan = smex.search(courses["mlp"], 3, replicate_bytes=0)
    _, tree = page_of(plan, tmp_path)
    rows = rows_of(tree, "worker")
    peaks = [smex.text.size_words(nbytes) for nbytes in plan.peak_bytes()]
    assert [row[:2] for row in rows] == [[str(w), peak] for w, peak in enumerate(peaks)]


def test_kinds_of_memory_by_hand():
    """A product and its loss on one worker."""
    model = torch.nn.Linear(4, 6, bias=False)
    args = torch.zeros(8, 4), torch.zeros(8, 6)
    plan = smex.search(smex.capture_graph(model, args, loss_fn=F.mse_loss), 1)
    kinds = live_bytes_by_kind(plan, 0)
    assert set(kinds["parameters"]) == {4 * 4 * 6}
    assert kinds["gradients"][-1] >= 4 * 4 * 6  # that of the weight
    assert max(kinds["activations"]) >= 4 * (8 * 4 + 2 * 8 * 6)


def test_the_memory_of_a_program_by_hand():
    """relu(x @ w) on one worker: inputs are given up when nothing reads them again."""
    args = torch.zeros(8, 4), torch.zeros(4, 6)
    plan = smex.search(smex.capture_graph(lambda x, w: torch.relu(x @ w), args), 1)
    inputs, result = 4 * (8 * 4 + 4 * 6), 4 * 8 * 6
    assert live_bytes(plan, 0) == [inputs + result, 2 * result]
