"""Talking about plans: pins and files that do not fit, explain, diff, memory."""

import dataclasses
import itertools
import json
import math
import re

import pytest
import torch

import smex
from smex import _C
from smex.text import size_words


def capture(module, *shape):
    return smex.capture_graph(module, (torch.zeros(*shape),))


@pytest.fixture
def graph():
    """Two linear layers: 0.weight [6, 4], 0.bias [6], 2.weight [3, 6], 2.bias [3], input [8, 4]."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    return capture(model, 8, 4)


class Product(torch.nn.Module):
    """`a` and `b` meet in a point-wise product, so they are cut alike; `c` is free."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (torch.nn.Parameter(torch.randn(8, 8)) for _ in range(3))

    def forward(self, x):
        return (x @ (self.a * self.b)) @ self.c


# ---- pins ----


@pytest.mark.parametrize(
    ("workers", "pinned", "text"),
    [
        (2, {"lost": [0]}, 'the model has no parameter, buffer or input "lost"; it has 0.bias'),
        (
            2,
            {"0.weight": [0, 0]},
            '"0.weight" has 2 placements, expected 1, one for each step of 2',
        ),
        (4, {"0.weight": [0]}, '"0.weight" has 1 placements, expected 2, one for each step of 2×2'),
        (2, {"0.weight": [2]}, "of shape (6, 4) cannot be cut along dimension 2; it has 2"),
        (2, {"0.weight": [-2]}, "of shape (6, 4) cannot be cut along dimension -2"),
        (4, {"2.bias": [0, 0]}, "along dimension 0 by 4 workers: it has only 3 elements there"),
        (2, {"0.weight": 0.5}, 'placement of "0.weight" must be words such as "S0", "R" or'),
        (2, {"0.weight": ["0"]}, "-1 to replicate; got ['0']"),
        (2, {"0.weight": [True]}, "-1 to replicate; got [True]"),
        (0, {}, "search: workers must be an int of at least 1, got 0"),
    ],
)
def test_a_pin_that_does_not_fit(graph, workers, pinned, text):
    with pytest.raises(smex.PlanError, match=re.escape(text)):
        smex.search(graph, workers, pinned=pinned, mesh=[2, 2] if workers == 4 else None)


def test_an_unknown_objective(graph):
    with pytest.raises(smex.PlanError, match='unknown objective "beauty"'):
        smex.search(graph, 2, objective="beauty")


def test_a_dimension_cut_into_single_elements_fits(graph):
    plan = smex.search(graph, 3, pinned={"2.bias": [0]}, replicate_bytes=0)
    assert [box for _, box in plan.tiles("2.bias")] == [[(0, 1)], [(1, 2)], [(2, 3)]]


def test_tensors_that_are_cut_alike_may_be_pinned_apart():
    graph = capture(Product(), 4, 8)
    alike = {"x": [0], "a": [0], "c": [1], "b": [0]}
    apart = {**alike, "b": [1]}
    plans = [smex.search(graph, 2, pinned=pins) for pins in (alike, apart)]
    assert [plan.placements() for plan in plans] == [alike, apart]
    assert plans[0].total_bytes < plans[1].total_bytes, "one of them is moved to where the other is"
    pins = {graph.value_by_name[name]: [dim] for name, dim in (("a", 0), ("b", 1))}
    found = [_C.search(graph.native, [2], pinned=pins, max_unmerged=n).values for n in (0, 2000)]
    for values in found:  # merging gives way to pins
        assert {value: values[value] for value in pins} == pins


def test_pins_that_a_memory_limit_excludes_are_named_and_no_others():
    class Weights(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (torch.nn.Parameter(torch.randn(64, 64)) for _ in range(3))

        def forward(self, x):
            return ((x @ self.a) @ self.b) @ self.c

    graph = capture(Weights(), 4, 64)
    replicas = {"a": [-1], "b": [-1]}
    limit = max(
        smex.search(graph, 2, pinned={name: [-1]}, replicate_bytes=0).peak() for name in replicas
    )
    both = smex.search(graph, 2, pinned=replicas, replicate_bytes=0).peak()
    assert limit < both
    text = (
        r'no plan for 2 workers with "a" as R/2, "b" as R/2 fits .* each: the smallest found takes'
    )
    with pytest.raises(smex.PlanError, match=text) as caught:
        smex.search(graph, 2, pinned={"c": [0], **replicas}, memory_limit=limit, replicate_bytes=0)
    assert '"c"' not in str(caught.value)


@pytest.mark.parametrize(
    ("placement", "dims"),
    [
        ("S0", [0, 0]),
        ("R", [-1, -1]),
        ("S1 S0", [1, 0]),
        ("S0/2 R/2", [0, -1]),
        ("  R/2   S1 ", [-1, 1]),
        (1, [1, 1]),
        (-1, [-1, -1]),
        ([0, 1], [0, 1]),
        ((0, -1), [0, -1]),
    ],
)
def test_placements_of_pins(graph, placement, dims):
    plan = smex.search(graph, 4, pinned=[smex.pin("0.weight", placement)])
    assert plan.placement("0.weight") == dims == plan.pinned["0.weight"]
    same = smex.search(graph, 4, pinned={"0.weight": placement})
    assert same.placements() == plan.placements()


@pytest.mark.parametrize("workers", [1, 2, 6, 8])
def test_a_pin_says_what_a_plan_prints(workers):
    graph = capture(torch.nn.Linear(16, 16), 16, 16)
    plan = smex.search(graph, workers, replicate_bytes=0)
    pins = [smex.pin(name, plan.words(name)) for name in graph.value_by_name]
    assert smex.search(graph, workers, pinned=pins).placements() == plan.placements()


def test_a_pattern_pins_all_that_it_matches(graph):
    plan = smex.search(graph, 2, pinned=[smex.pin("*.bias", "S0"), smex.pin("[02].weight", "S1")])
    assert plan.pinned == {"0.bias": [0], "2.bias": [0], "0.weight": [1], "2.weight": [1]}
    assert all(plan.placement(name) == pin for name, pin in plan.pinned.items())
    assert smex.search(graph, 2, pinned=[]).pinned == {}


def test_the_name_of_a_tensor_is_no_pattern():
    graph = smex.capture_graph(
        lambda xs: xs["a*"] * xs["ab"], ({"a*": torch.zeros(4), "ab": torch.zeros(4)},)
    )
    star = next(name for name in graph.value_by_name if "*" in name)
    assert list(smex.search(graph, 2, pinned=[smex.pin(star, "S0")]).pinned) == [star]


@pytest.mark.parametrize(
    ("name", "placement", "text"),
    [
        ("0.weigth", "S0", 'the model has no parameter, buffer or input "0.weigth"; it has 0.bias'),
        ("blocks.*", "S0", '"blocks.*" matches no parameter, buffer or input of the model; it has'),
        ("*.weight", "S2", '"0.weight" of shape (6, 4) cannot be cut along dimension 2'),
        ("*", "S1", "cannot be cut along dimension 1; it has 1 dimensions"),
        (
            "0.weight",
            "S0 R S0",
            '"0.weight" has 3 placements, expected 2, one for each step of 2×2',
        ),
        ("0.weight", "S0/2", '"0.weight" has 1 placements, expected 2'),
        (
            "0.weight",
            "S0/2 R/3",
            'is cut by 3 in step 1 of "S0/2 R/3", expected 2: the steps are 2×2',
        ),
        ("2.bias", "S0", "along dimension 0 by 4 workers: it has only 3 elements there"),
        ("0.weight", "R/4", "is placed 'R/4', which fits mesh=[4]; the steps are 2×2"),
        ("0.weight", "R/3", '"0.weight" has 1 placements, expected 2'),
        ("0.weight", "whole", 'which is for one worker; the steps are 2×2: write "R" to'),
    ],
)
def test_a_pin_that_does_not_fit_the_model(graph, name, placement, text):
    with pytest.raises(smex.PlanError, match=re.escape(text)):
        smex.search(graph, 4, pinned=[smex.pin(name, placement)], mesh=[2, 2])


@pytest.mark.parametrize(
    ("placement", "words"),
    [
        ("S1/2 S0/2", "S1/2 S0/2"),
        ("R/4", "R/4"),
        ("S1/2 R/2", "S1/2 R/2"),
        ([1, 0], "S1/2 S0/2"),
        ([-1], "R/4"),
    ],
)
def test_a_pin_chooses_the_mesh_that_it_is_written_for(graph, placement, words):
    assert smex.search(graph, 4, pinned={"0.weight": placement}).words("0.weight") == words


def test_a_pin_of_what_the_plan_has_chosen_costs_nothing():
    linear = torch.nn.Linear
    model = torch.nn.Sequential(linear(64, 96), torch.nn.ReLU(), linear(96, 32))
    captured = smex.capture(model, (torch.randn(24, 64),))
    for workers in (8, 12):
        plan = smex.search(captured, workers)
        again = smex.search(captured, workers, pinned={"0.weight": plan.words("0.weight")})
        assert again.total_bytes == plan.total_bytes
        assert again.mesh == plan.mesh


def test_pins_name_the_mesh_that_they_fit(graph):
    with pytest.raises(smex.PlanError, match=re.escape("fits mesh=[2, 4]; the steps are 2×2×2")):
        smex.search(graph, 8, pinned={"0.weight": "S0/2 R/4"}, mesh=[2, 2, 2])
    with pytest.raises(smex.PlanError, match=re.escape("fits mesh=[2, 3]; the steps are 3×2")):
        smex.search(graph, 6, pinned={"0.weight": "S0/2 R/3"}, mesh=[3, 2])
    assert smex.search(graph, 6, pinned={"0.weight": "S0/2 R/3"}, mesh=[2, 3]).mesh == (2, 3)


@pytest.mark.parametrize("placement", [[0], "S0/2", "R/4", [-1, -1]])
def test_one_worker_holds_all(graph, placement):
    with pytest.raises(smex.PlanError, match="but one worker holds all tensors whole: leave the"):
        smex.search(graph, 1, pinned={"0.weight": placement})
    for every in ("whole", "R", []):
        smex.search(graph, 1, pinned={"0.weight": every})


@pytest.mark.parametrize(
    "bad", ["", "X0", "S", "S-1", "S0,R", "s0", "S0/", 1.0, True, None, [0.0], ["S0"]]
)
def test_a_placement_that_cannot_be_read(bad):
    with pytest.raises(smex.PlanError, match='the placement of "w" must be words such as'):
        smex.pin("w", bad)


def test_pins_of_other_types(graph):
    with pytest.raises(smex.SmexTypeError, match="pin: a name must be text"):
        smex.pin(0, "S0")
    assert smex.search(graph, 2, pinned=smex.pin("0.weight", "S1")).words("0.weight") == "S1/2"
    given = iter([smex.pin("0.weight", "S1")])  # read by the searches of several meshes
    assert smex.search(graph, 4, pinned=given).placement("0.weight")[0] == 1
    for bad in ("0.weight", 3):
        with pytest.raises(smex.SmexTypeError, match="expected a list of pins or placements by"):
            smex.search(graph, 2, pinned=bad)
    with pytest.raises(smex.SmexTypeError, match=r"expected smex.pin\(name, placement\), found"):
        smex.search(graph, 2, pinned=[("0.weight", "S0")])


def test_two_placements_of_one_tensor(graph):
    pins = [smex.pin("*.weight", "S0"), smex.pin("2.*", "S0")]
    assert smex.search(graph, 2, pinned=pins).pinned["2.weight"] == [0]
    pins[1] = smex.pin("2.weight", "S1")
    text = '"2.weight" is pinned as S0/2 by "*.weight" and as S1/2 by "2.weight"; leave one out'
    with pytest.raises(smex.PlanError, match=re.escape(text)):
        smex.search(graph, 2, pinned=pins)


class Tied(torch.nn.Module):
    """An embedding whose weight is also the head's: one tensor of two names."""

    def __init__(self):
        super().__init__()
        self.e, self.h = torch.nn.Embedding(12, 8), torch.nn.Linear(8, 12, bias=False)
        self.h.weight = self.e.weight

    def forward(self, x):
        return self.h(self.e(x))


def test_two_placements_of_a_tied_tensor():
    graph = smex.capture_graph(Tied(), (torch.zeros(4, dtype=torch.long),))
    pins = {"e.weight": "S0", "h.weight": "S1"}
    text = '"h.weight" is pinned as S0/2 by "e.weight" and as S1/2 by "h.weight"; leave one out'
    for given in (pins, [smex.pin(name, words) for name, words in pins.items()]):
        with pytest.raises(smex.PlanError, match=re.escape(text)):
            smex.search(graph, 2, pinned=given)
    pins["h.weight"] = [0]
    plan = smex.search(graph, 2, pinned=pins)
    assert plan.placement("e.weight") == plan.placement("h.weight") == [0]
    assert "impossible" not in plan.explain("h.weight")


def test_partition_keeps_to_pins_for_all_shapes_of_inputs():
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3)
    ).double()
    pins = [smex.pin("*.weight", "S1"), smex.pin("input", "S0")]
    net = smex.partition(model, 2, pins=pins, args=(torch.zeros(8, 4).double(),))
    assert net.plan.placement("2.weight") == [1] and net.plan.placement("input") == [0]
    for rows in (8, 6):
        x = torch.randn(rows, 4, dtype=torch.float64)
        torch.testing.assert_close(net(x), model(x))
    others = [compiled.plan for compiled in net._programs]
    assert len(others) == 3 - (len(net._programs) < 3)
    assert all(plan.placement("input") == [0] for plan in others)
    with pytest.raises(
        smex.SmexValueError, match="a plan places all tensors, pins= would change it"
    ):
        smex.partition(model, plan=net.plan, pins=pins)


def test_a_dimension_joined_by_a_view_has_larger_units():
    class Joined(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(2, 3, 4))

        def forward(self, x):
            return x @ self.w.view(6, 4)

    graph = capture(Joined(), 4, 6)
    with pytest.raises(smex.PlanError, match='"x" pinned as S1/3 S1/2 leaves worker 0 without a'):
        smex.search(graph, 6, pinned={"x": [1, 1]})


# ---- files ----


def spoil(key, value):
    def change(content):
        content[key] = value

    return change


def spoil_machine(**numbers):
    return spoil("machine", {**smex.Machine.v100_pcie().contents(), **numbers})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda c: c.pop("placements"), 'has no key "placements"'),
        (lambda c: c.pop("workers"), 'has no key "workers"'),
        (lambda c: c.pop("planner"), 'has no key "planner"'),
        (spoil("format", "smex-plan-0"), "has format 'smex-plan-0', expected 'smex-plan-1'"),
        (spoil("workers", "4"), "must be int, got '4'"),
        (spoil("workers", True), "must be int, got True"),
        (spoil("workers", 0), "must be at least 1, got 0"),
        (spoil("placements", []), "must be dict, got []"),
        (spoil("mesh", [2, 3]), "is [2, 3], expected numbers above 1 whose product is 4"),
        (spoil("mesh", [4, 1]), "is [4, 1], expected numbers above 1 whose product is 4"),
        (
            spoil("machine", 5),
            "expected name, flops, memory_bandwidth, launch, memory, levels; fou",
        ),
        (
            spoil("machine", {}),
            "expected name, flops, memory_bandwidth, launch, memory, levels; fo",
        ),
        (spoil("machine", {"a": 1}), "plan.json is none: Machine: expected name, flops, memory_b"),
        (spoil_machine(levels=5), "is none: Machine: expected a list of levels, found 5"),
        (spoil_machine(levels=[]), "is none: Machine: expected levels of smex.Level"),
        (spoil_machine(levels=[5]), "is none: Level: expected size, latency, bandwidth; found 5"),
        (spoil_machine(levels=[{"size": 8}]), "Level: expected size, latency, bandwidth; found {"),
        (spoil_machine(flops=None), "is none: Machine: expected flops by"),
        (spoil_machine(memory=math.inf), "is none: Machine: memory: expected a number from"),
        (spoil("memory_limit", "1"), "memory_limit must be a finite number"),
        (spoil("optimizer_states", None), "optimizer_states must be a number from 0"),
        (lambda c: c["placements"].update(lost=[0, 0]), 'no parameter, buffer or input "lost"'),
    ],
)
def test_a_file_that_does_not_fit(graph, tmp_path, change, text):
    path = tmp_path / "plan.json"
    smex.search(graph, 4, replicate_bytes=0).save(path)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(smex.PlanError, match=re.escape(text)):
        smex.Plan.load(path, graph)


@pytest.mark.parametrize(("text", "error"), [("{", "is not JSON"), ("[1]", "holds a list")])
def test_a_file_that_is_no_plan(graph, tmp_path, text, error):
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(smex.PlanError, match=error):
        smex.Plan.load(path, graph)
    with pytest.raises(smex.PlanError, match=error):
        smex.partition(torch.nn.Linear(2, 2), plan=path)


@pytest.mark.parametrize("name", ["", "missing/plan.json"])
def test_a_path_that_cannot_be_read_or_written_is_named(graph, tmp_path, name):
    plan, path = smex.search(graph, 2), tmp_path / name
    for use in (lambda path: smex.Plan.load(path, graph), plan.save, plan.show):
        with pytest.raises(OSError, match=re.escape(str(path))):
            use(path)


def test_things_that_are_no_plan_path_or_name(graph):
    plan = smex.search(graph, 2)
    for use, text in [
        (lambda: smex.Plan.load(5, graph), "plan: expected the path of a file, got 5"),
        (lambda: plan.diff(None), "plan: expected a plan to compare with, got None"),
        (lambda: plan.explain([]), 'plan: a name must be text, such as "fc.weight", got []'),
        (lambda: smex.partition(torch.nn.Linear(2, 2), plan=5), "partition: plan must be what sm"),
    ]:
        with pytest.raises(smex.SmexTypeError, match=re.escape(text)):
            use()


def test_a_file_for_other_workers(graph, tmp_path):
    model = torch.nn.Linear(4, 4)
    smex.partition(model, 4, args=(torch.zeros(8, 4),)).plan.save(tmp_path / "plan.json")
    with pytest.raises(smex.SmexValueError, match="the plan is for 4 workers, asked for 2"):
        smex.partition(model, 2, plan=tmp_path / "plan.json", args=(torch.zeros(8, 4),))


def test_a_file_for_a_larger_batch_names_the_input(graph, tmp_path):
    smex.search(graph, 4, pinned={"input": [0, 0]}, replicate_bytes=0).save(tmp_path / "plan.json")
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    with pytest.raises(smex.PlanError, match='"input" of shape .* only 3 elements'):
        smex.Plan.load(tmp_path / "plan.json", capture(model, 3, 4))


@pytest.mark.parametrize(
    "options",
    [{"planner": "fsdp"}, {"planner": "random", "seed": 3}, {"joint": 2}, {"refine": False}, {}],
)
def test_a_file_has_the_plan_as_it_was_found(graph, tmp_path, options):
    plan = smex.search(graph, 4, replicate_bytes=0, mesh=[2, 2], **options)
    plan.save(tmp_path / "plan.json")
    again = smex.Plan.load(tmp_path / "plan.json", graph)
    assert again.native.values == plan.native.values and again.native.ops == plan.native.ops
    assert again.summary().split(", searched")[0] == plan.summary().split(", searched")[0]
    assert (again.exact, again.planner, again.step_bytes) == (
        plan.exact, plan.planner, plan.step_bytes
    )  # fmt: skip
    edited = json.loads((tmp_path / "plan.json").read_text())
    edited["placements"]["0.weight"] = [0, 0]
    (tmp_path / "plan.json").write_text(json.dumps(edited))
    if options.get("planner") != "fsdp":
        assert smex.Plan.load(tmp_path / "plan.json", graph).words("0.weight") == "S0/2 S0/2"


def test_what_is_loaded_is_what_was_saved(graph, tmp_path):
    plan = smex.search(graph, 4, pinned={"0.weight": [1, 0]}, replicate_bytes=0)
    plan.save(tmp_path / "plan.json")
    again = smex.Plan.load(tmp_path / "plan.json", graph)
    assert again.placements() == plan.placements()
    assert again.total_bytes == plan.total_bytes


@pytest.mark.parametrize("ask", ["placement", "words", "tiles", "worker_bytes", "explain"])
def test_an_unknown_tensor(graph, ask):
    with pytest.raises(smex.PlanError, match='there is no parameter, buffer or input "lost"'):
        getattr(smex.search(graph, 2), ask)("lost")


def test_a_name_that_is_nearly_there(graph):
    with pytest.raises(smex.PlanError, match=r"input \"0.wieght\"; did you mean '0.weight'"):
        smex.search(graph, 2).explain("0.wieght")


# ---- explain and diff ----


@pytest.mark.parametrize("workers", [2, 4])
def test_explain_prices_alternatives_by_a_search(graph, workers):
    plan = smex.search(graph, workers, replicate_bytes=0)
    text = plan.explain("0.weight")
    table = [re.split(" {2,}", line.strip()) for line in text.splitlines()]
    rows = {row[1]: row[3] for row in table if row[0] in ("chosen", "rejected")}
    words = {0: "S0/2", 1: "S1/2", -1: "R/2"}
    steps = len(plan.mesh)
    expected = {}
    for pin in itertools.product(words, repeat=steps):
        changed = sum(a != b for a, b in zip(pin, plan.placement("0.weight"), strict=True))
        if len(set(pin)) == 1 or changed <= 1:
            other = smex.search(graph, workers, replicate_bytes=0, pinned={"0.weight": list(pin)})
            expected[" ".join(words[dim] for dim in pin)] = other.total_bytes
    assert rows == {pin: size_words(total) for pin, total in expected.items()}


def test_of_equally_cheap_placements_the_smallest_is_chosen():
    layers = torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)
    graph = capture(torch.nn.Sequential(*layers), 64, 256)
    plan = smex.search(graph, 3, replicate_bytes=0)
    text = plan.explain("input")
    assert re.search(r"chosen +S1/3 +21.5 KiB", text), "86 of 256 columns"
    assert re.search(r"rejected +S0/3 +22.0 KiB .*\+0 B$", text, re.M), "22 of 64 rows"
    for name in graph.value_by_name:
        for placement in "S0", "S1":
            if placement == "S1" and name.endswith("bias"):
                continue
            pinned = smex.search(graph, 3, replicate_bytes=0, pinned={name: placement}, mesh=[3])
            if pinned.total_bytes == plan.total_bytes:
                assert plan.worker_bytes(name) <= pinned.worker_bytes(name)


def test_explain_counts_unrolled_steps():
    class Unrolled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(8, 8))

        def forward(self, x):
            for _ in range(5):
                x = torch.relu(x @ self.w)
            return x

    lines = smex.search(capture(Unrolled(), 4, 8), 2, replicate_bytes=0).explain("w").splitlines()
    assert (
        sum(int(line.split("×")[0]) for line in lines if re.match(r" +\d+ ×  aten::mm", line)) == 5
    )


def test_explain_names_ops_modules_and_reasons(graph):
    plan = smex.search(graph, 4, replicate_bytes=0)
    lines = plan.explain("2.bias").splitlines()
    assert lines[0] == "2.bias: float32[3], parameter"
    assert any(re.match(r"  1 ×  aten::add\S* .*  2$", line) for line in lines)
    assert sum("  chosen" in line for line in lines) == 1
    impossible = [line for line in lines if "impossible" in line]
    assert impossible and all("it has only 3 elements there" in line for line in impossible)
    assert any("replicas above replicate_bytes=0" in line for line in lines)


def test_explain_names_the_calls_that_move_more(graph):
    plan = smex.search(graph, 2, replicate_bytes=0)
    for line in plan.explain("0.weight").splitlines():
        rejected = re.search("  rejected +([SR].*?)  ", line)
        if not rejected:
            continue
        pinned = {"0.weight": rejected[1]}
        other = smex.search(graph, 2, replicate_bytes=0, pinned=pinned)
        sums = {}
        for op, here, there in zip(
            graph.captured.ops, *(smex._C.op_bytes(graph.native, p.native) for p in (plan, other))
        ):
            pair = sums.setdefault((op.target, op.module_path, op.backward), [0, 0])
            pair[0] += here
            pair[1] += there
        named = re.search(r"most by (\S+) \((?:module (\d), )?(.*?)\): (.*) -> (.*)", line)
        if not named:  # no call moves more
            assert all(there <= here for here, there in sums.values())
            continue
        target, module, at, here, there = named.groups()
        assert at.startswith("test_plan.py:")
        found = sums[target, module or "", at.endswith("backward")]
        assert found[1] - found[0] == max(b - a for a, b in sums.values())
        assert (here, there) == tuple(map(size_words, found))


def test_explain_keeps_the_users_pins():
    plan = smex.search(capture(Product(), 4, 8), 2, pinned={"a": [0]}, replicate_bytes=0)
    assert re.search(r"chosen .* pinned", plan.explain("a"))
    for line in plan.explain("b").splitlines():
        assert "impossible" not in line
    other = smex.search(plan.graph, 2, pinned={"a": [0], "b": [1]}, replicate_bytes=0)
    rejected = next(line for line in plan.explain("b").splitlines() if "  S1/2 " in line)
    assert f" {smex.text.size_words(other.total_bytes)} " in rejected


def test_diff_lists_only_what_differs(graph):
    here = smex.search(graph, 2, replicate_bytes=0, pinned={"0.weight": [0], "2.bias": [0]})
    there = smex.search(graph, 2, replicate_bytes=0, pinned={"0.weight": [1], "2.bias": [0]})
    lines = here.diff(there).splitlines()
    assert re.fullmatch(r"  0.weight +S0/2 +S1/2 +48 B +48 B", lines[1])
    assert not any("2.bias" in line for line in lines)
    assert lines[-3:] == [
        "workers: 2 -> 2",
        f"moves: {here.total_bytes} B -> {there.total_bytes} B",
        f"peak per worker: {max(here.peak_bytes())} B -> {max(there.peak_bytes())} B",
    ]
    assert "no tensor is placed differently" in here.diff(here)


def test_diff_of_other_workers_and_models(graph):
    other = smex.search(capture(torch.nn.Linear(4, 6), 8, 4), 3, replicate_bytes=0)
    text = smex.search(graph, 2, replicate_bytes=0).diff(other)
    assert "workers: 2 -> 3" in text
    assert re.search(r"  0.weight +S\d/2 +absent", text)
    assert re.search(r"  weight +absent +S\d/3", text)


# ---- the table and memory ----


def test_numbers_end_in_one_column(graph):
    _, *lines = str(smex.search(graph, 2, replicate_bytes=0)).splitlines()
    assert len(lines) == 6
    assert len({len(line) for line in lines}) == 1
    shapes = lines[0].index("shape") + len("shape")
    assert all(line[shapes - 1] != " " and line[shapes : shapes + 2] == "  " for line in lines)


def test_repeated_blocks_that_are_cut_alike_are_one_row():
    blocks = [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()) for _ in range(7)]
    graph = smex.capture_graph(torch.nn.Sequential(*blocks), (torch.randn(4, 8),))
    pinned = {f"{n}.0.weight": "S0" if n in (4, 5) else "R" for n in range(7)}
    pinned |= {f"{n}.0.bias": "R" for n in range(7)}
    lines = str(smex.search(graph, 2, pinned=pinned)).splitlines()
    rows = [line.split()[:3] for line in lines[2:] if "/2" in line]
    assert rows[:-1] == [
        ["{0..3,6}.0.weight", "8×8", "R/2"],
        ["{0..6}.0.bias", "8", "R/2"],
        ["4.0.weight", "8×8", "S0/2"],
        ["5.0.weight", "8×8", "S0/2"],
    ]


def test_peak_is_in_the_summary_before_anything_runs(graph):
    plan = smex.search(graph, 2, replicate_bytes=0)
    assert f"peak {max(plan.peak_bytes())} B per worker" in repr(plan)
    assert plan.program() is plan.program()
    plan.peak_bytes().clear()
    assert len(plan.peak_bytes()) == 2


def test_the_peak_of_many_calls_is_told_without_lowering_them(graph, monkeypatch):
    exact = smex.search(graph, 2).peak_bytes()
    monkeypatch.setattr("smex.planning.placed._LOWERED_CALLS", 2 * len(graph.captured.ops) - 1)
    plan = smex.search(graph, 2)
    about = plan.peak_bytes()
    assert about[0] == about[1] == pytest.approx(max(exact), rel=0.1)
    assert f", peak about {size_words(about[0])} per worker, searched in" in plan.summary()
    assert plan._program is None


def test_a_summary_tells_what_does_not_fit_the_machine(graph):
    def on(memory, **options):
        machine = dataclasses.replace(smex.Machine.v100_pcie(), memory=memory)
        return smex.search(graph, 2, machine=machine, **options)

    peak = max(on(1e9).peak_bytes())
    states = 2 * on(1e9).parameter_bytes()
    assert "does not fit" not in on(peak).summary()
    assert f"per worker does not fit {size_words(peak - 1)}, searched" in on(peak - 1).summary()
    assert "does not fit" not in on(peak + states, optimizer_states=2).summary()
    with_states = f"per worker, {size_words(peak + states)} with the optimiser's states, does not"
    assert with_states in on(peak + states - 1, optimizer_states=2).summary()


def test_peak_is_what_the_run_counts():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
    x = torch.randn(32, 64)
    net = smex.partition(model, 2, args=(x,), replicate_bytes=0)
    predicted = net.plan.peak_bytes()
    net(x).sum().backward()
    stats = net.stats()
    assert stats["predicted_peak_bytes"] == predicted
    slack = 64 * 64 * 4  # a tensor that a peer has read sooner than it might have
    for counted, bound in zip(stats["peak_bytes"], predicted, strict=True):
        assert bound - slack <= counted <= bound


@pytest.mark.parametrize("bad", [-1, "1K", 0.5, True])
def test_replicate_bytes_is_a_number_of_bytes(graph, bad):
    with pytest.raises(smex.PlanError, match="replicate_bytes must be an int of at least 0"):
        smex.search(graph, 2, replicate_bytes=bad)


def test_replicate_bytes_may_be_more_than_any_tensor(graph):
    every = smex.search(graph, 2, replicate_bytes=2**40).placements()
    assert smex.search(graph, 2, replicate_bytes=2**100).placements() == every


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        *(
            ({"optimizer_states": bad}, smex.PlanError, "optimizer_states must be a number from 0")
            for bad in (-1, math.inf, math.nan, 10**400, 1e300, "2", True)
        ),
        *(
            ({"memory_limit": bad}, smex.PlanError, "memory_limit must be a finite number")
            for bad in (0, -1, math.inf, math.nan, 10**400, 1e-300, "1G", True)
        ),
        *(
            ({"seed": bad}, smex.PlanError, "seed must be an int from 0 to 2**64 - 1, got")
            for bad in (-1, 2**64, 0.5, None, True)
        ),
        *(
            ({"refine": bad}, smex.SmexTypeError, "refine must be True, False or None, got")
            for bad in (1, "yes")
        ),
        ({"planner": None}, smex.SmexTypeError, 'planner must be text, such as "tofu", got None'),
        ({"planner": "best"}, smex.SmexValueError, 'unknown planner "best"'),
        ({"workers": 2**31}, smex.PlanError, "workers must be at most 2147483647, got 2147483648"),
        (
            {"mesh": 4},
            smex.SmexTypeError,
            "mesh must list the workers of each step, or be the DeviceMesh of processes that smex.partition runs in, got 4",
        ),
        ({"mesh": "4"}, smex.PlanError, "expected a mesh of ints above 1"),
        ({"pinned": 0}, smex.SmexTypeError, "expected a list of pins or placements by name"),
    ],
)
def test_arguments_that_no_search_takes(graph, arguments, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        smex.search(graph, **{"workers": 4, **arguments})


def test_search_wants_a_graph():
    with pytest.raises(smex.SmexTypeError, match="what smex.capture returns, got NoneType"):
        smex.search(None, 2)


@pytest.mark.parametrize("mesh", [[2], [2, 2]])
def test_the_summary_names_parts_where_there_are_several(mesh):
    args = torch.zeros(8, 16), torch.zeros(8, 16)
    graph = smex.capture_graph(torch.nn.Linear(16, 16), args, loss_fn=torch.nn.functional.mse_loss)
    workers, machine = math.prod(mesh), smex.Machine.h100_nvlink()
    plain = smex.search(graph, workers, mesh=mesh, replicate_bytes=0)
    timed = smex.search(graph, workers, mesh=mesh, replicate_bytes=0, machine=machine)
    several = len(mesh) > 1
    assert (" as 2×2, " in str(plain)) == several
    assert (" an iteration (" in str(plain)) == several
    assert " compute + " in str(timed) and " communication), " in str(timed)
