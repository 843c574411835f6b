"""Files that `net.export` writes: read and run by libsmex, and compared bit by bit."""

import dataclasses
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import zipfile

import models
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import smex
import smex.graph as sg

ROOT = pathlib.Path(__file__).parents[3]
INSTALLED = ROOT / "build" / "cxx"
EXAMPLES = ROOT / "examples" / "cpp"


def exported(folder, model, args, **options):
    """Writes a net's call; returns its results by a call in Python."""
    net = smex.partition(model, args=args, **options)
    net.export(folder / "model.smex")
    torch.save(list(args), folder / "inputs.pt")
    torch.manual_seed(5)
    with torch.no_grad():
        return net, net(*args)


# ---- in C++ ----


def tool(name):
    beside = pathlib.Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name)


def build(source, folder):
    prefixes = [INSTALLED, torch.utils.cmake_prefix_path]
    ninja = tool("ninja")
    generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"] if ninja else []
    configure = [tool("cmake"), "-S", source, "-B", folder, *generator]
    for command in (
        [*configure, f"-DCMAKE_PREFIX_PATH={';'.join(map(str, prefixes))}"],
        [tool("cmake"), "--build", folder, "-j", "2"],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def installed():
    """The installed library, of the sources that Python runs."""
    library = INSTALLED / "lib" / "libsmex.so"
    if not library.exists():
        pytest.skip("libsmex is not installed in build/cxx: make cxx")
    if library.stat().st_mtime < pathlib.Path(smex._C.__file__).stat().st_mtime:
        pytest.skip("libsmex in build/cxx is older than smex._C: make cxx")
    if tool("cmake") is None or not (shutil.which("c++") or shutil.which("g++")):
        pytest.skip("there is no cmake or no C++ compiler")
    return INSTALLED


@pytest.fixture(scope="session")
def programs(installed, tmp_path_factory):
    """The folder in which the tests' programs and the examples are built."""
    folder = tmp_path_factory.mktemp("programs")
    build(ROOT / "tests" / "cpp" / "library", folder)
    return folder


@pytest.fixture(scope="session")
def runner(programs):
    def run(files, calls=1):
        arguments = [files / "model.smex", files / "inputs.pt", files / "outputs.pt", str(calls)]
        return subprocess.run([programs / "run_model", *arguments], capture_output=True, text=True)

    return run


def assert_same(files, expected):
    found = torch.load(files / "outputs.pt")
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert torch.equal(one, other)


class Convolutions(nn.Module):
    """Gives a dict, a tuple in it, and what is no tensor."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(3, 2, 1)

    def forward(self, image, scale):
        x = self.pool(F.relu(self.norm(self.conv(image))))
        return {"features": x, "rest": ("a word", x.mean((2, 3)) * scale)}


class Gathers(nn.Module):
    """A graph convolution on the edges of a constant graph, which is cut by its vertices."""

    def __init__(self):
        super().__init__()
        g = torch.Generator().manual_seed(1)
        source, target = torch.randint(400, (2, 900), generator=g)
        self.graph = sg.add_self_loop(sg.graph((source, target), num_nodes=400))
        self.layer = sg.nn.GraphConv(12, 16)

    def forward(self, x):
        return self.layer(self.graph, x)


class Counts(nn.Module):
    """Changes its buffer at each call."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 4)
        self.register_buffer("calls", torch.zeros(4))

    def forward(self, x):
        self.calls.add_(1)
        return self.linear(x) * self.calls


CASES = {
    "convolutions": (
        Convolutions,
        lambda: (torch.randn(4, 3, 10, 10), torch.tensor(0.5)),
        {"workers": 3, "replicate_bytes": 0},
    ),
    "graph": (
        Gathers,
        lambda: (torch.randn(400, 12),),
        {"workers": 3, "replicate_bytes": 0, "planner": "vertices", "pins": {"x": 0}},
    ),
    "one worker": (models.GPT.small, lambda: models.GPT.small_inputs()[:1], {"workers": 1}),
    "attention": (
        lambda: models.GPT.small(fused_attention=True),
        lambda: models.GPT.small_inputs()[:1],
        {"workers": 4, "replicate_bytes": 0},
    ),
    "dlrm": (
        models.DLRM.small,
        lambda: models.DLRM.small_inputs(torch.float32)[:2],
        {"workers": 2},
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.costly(cases=len(CASES))
def test_results_are_those_of_python_bit_by_bit(name, runner, tmp_path):
    make, inputs, options = CASES[name]
    torch.manual_seed(3)
    model, args = make().eval(), inputs()
    _, expected = exported(tmp_path, model, args, **options)
    done = runner(tmp_path)
    assert done.returncode == 0, done.stderr
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(expected) if torch.is_tensor(leaf)]
    assert_same(tmp_path, leaves)
    if name == "convolutions":
        assert "input image [4, 3, 10, 10] Float" in done.stdout
        assert "output ['rest'][1]" in done.stdout


def test_buffers_change_from_call_to_call(runner, tmp_path):
    x = (torch.randn(8, 6),)
    net, first = exported(tmp_path, Counts().eval(), x, workers=2)
    with torch.no_grad():
        second = net(*x)
    assert not torch.equal(first, second)
    assert runner(tmp_path, calls=2).returncode == 0
    assert_same(tmp_path, [second])


def test_random_numbers_are_those_of_the_seed(runner, tmp_path):
    model, x = nn.Sequential(nn.Linear(6, 64), nn.Dropout(0.5)), torch.randn(8, 6)
    net, expected = exported(tmp_path, model, (x,), workers=2)
    with torch.no_grad():
        assert not torch.equal(expected, net(x))
    assert runner(tmp_path).returncode == 0
    assert_same(tmp_path, [expected])


# ---- on ranks ----


@pytest.fixture
def ranks(programs, tmp_path):
    """Starts the runner on each of some ranks; returns them as they end."""

    def run(size, files=tmp_path, calls=1, kills=None, **environment):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        shared = {**os.environ, "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1"}
        shared |= {"MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", **environment}
        command = [programs / "run_model", files / "model.smex", files / "inputs.pt"]
        command += [files / "outputs.pt", str(calls)]
        started = [
            subprocess.Popen(
                command, env={**shared, "RANK": str(rank)}, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
            for rank in range(size)
        ]  # fmt: skip
        try:
            if kills is not None:  # after it has loaded the model
                next(line for line in started[kills].stdout if line.startswith("output"))
                started[kills].kill()
            told = [process.communicate(timeout=90) for process in started]
        finally:
            for process in started:
                process.kill()
        return [(process.returncode, error) for process, (_, error) in zip(started, told)]

    return run


def assert_same_on_ranks(files, size, expected):
    for rank in range(size):
        found = torch.load(files / f"outputs.pt.{rank}")
        assert len(found) == len(expected)
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize(("name", "size"), [("attention", 2), ("attention", 4), ("graph", 3)])
def test_ranks_return_the_whole_results(name, size, ranks, tmp_path):
    make, inputs, options = CASES[name]
    torch.manual_seed(3)
    model, args = make().eval(), inputs()
    _, expected = exported(tmp_path, model, args, **options)
    assert ranks(size, calls=3) == [(0, "")] * size
    assert_same_on_ranks(tmp_path, size, [expected])


def test_ranks_draw_the_same_numbers(ranks, tmp_path):
    model, x = nn.Sequential(nn.Linear(6, 64), nn.Dropout(0.5)), torch.randn(8, 6)
    _, expected = exported(tmp_path, model, (x,), workers=2)
    assert ranks(2) == [(0, "")] * 2
    assert_same_on_ranks(tmp_path, 2, [expected])
    assert ranks(2, calls=3) == [(0, "")] * 2
    (one,), (other,) = (torch.load(tmp_path / f"outputs.pt.{rank}") for rank in range(2))
    assert torch.equal(one, other) and not torch.equal(one, expected)


def test_ranks_change_their_buffers(ranks, tmp_path):
    x = (torch.randn(8, 6),)
    net, _ = exported(tmp_path, Counts().eval(), x, workers=2)
    with torch.no_grad():
        net(*x)
        third = net(*x)
    assert ranks(2, calls=3) == [(0, "")] * 2
    assert_same_on_ranks(tmp_path, 2, [third])


def test_what_ranks_cannot_do(ranks, tmp_path):
    exported(tmp_path, nn.Linear(6, 4), (torch.randn(8, 6),), workers=2)
    for code, error in ranks(3):
        assert code == 1 and "over which 2 workers divide evenly, found 3" in error
    for code, error in ranks(2, SMEX_SHARED_MEMORY="0"):
        assert code == 1 and "shares no memory with rank 0" in error
    assert ranks(1) == [(0, "")]
    ((code, error),) = ranks(1, MASTER_PORT="here")
    assert code == 1 and 'expected a number as MASTER_PORT, found "here"' in error


def test_a_rank_that_is_killed_ends_the_others(ranks, tmp_path):
    x = torch.randn(8, 64)
    exported(tmp_path, nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)), (x,), workers=2,
             replicate_bytes=0)  # fmt: skip
    (code, error), _ = ranks(2, calls=10**9, kills=1)
    assert code == 2 and "rank 1" in error


def test_tiles_on_the_host(runner, tmp_path):
    torch.manual_seed(0)
    model, x = nn.Sequential(*(nn.Linear(64, 64) for _ in range(8))), (torch.randn(4, 64),)
    free = smex.partition(model, args=x, workers=2)
    limit = 2 * 64 * 64 * 4
    assert limit < max(free.plan.peak_bytes())
    net, expected = exported(tmp_path, model, x, workers=2, device_memory=limit)
    assert net.stats()["spilled_bytes"]["restore"] > 0
    done = runner(tmp_path)
    assert done.returncode == 0, done.stderr
    assert_same(tmp_path, [expected])


def refused(runner, folder, text):
    done = runner(folder)
    assert done.returncode == 1
    assert done.stderr.startswith("invalid_argument: ")
    assert text in done.stderr, done.stderr


@pytest.fixture
def files(tmp_path):
    exported(tmp_path, nn.Linear(6, 4), (torch.randn(8, 6),), workers=2)
    return tmp_path


def test_no_file(runner, tmp_path):
    refused(runner, tmp_path, f'Model::load: there is no file "{tmp_path / "model.smex"}"')


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_part_of_a_file(share, runner, files):
    whole = (files / "model.smex").read_bytes()
    (files / "model.smex").write_bytes(whole[: int(share * len(whole))])
    refused(runner, files, "is not a whole file of net.export: ")


def test_a_file_of_torch(runner, files):
    torch.save((1, "smex"), files / "model.smex")
    refused(runner, files, 'expected "smex.model" as its first item')


def test_another_format(runner, files):
    contents = {}
    with zipfile.ZipFile(files / "model.smex") as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    (name,) = (name for name in contents if name.endswith("/data.pkl"))
    head, tail = contents[name].split(b"smex.model", 1)
    contents[name] = head + b"smex.model" + tail.replace(b"K\x02", b"K\x63", 1)
    with zipfile.ZipFile(files / "model.smex", "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    refused(runner, files, "has format 99, this library reads format 2; export the net again")


def test_an_operator_that_nobody_has_registered(runner, tmp_path):
    @torch.library.custom_op("smex_export_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    twice.register_fake(torch.empty_like)

    class Twice(nn.Module):
        def forward(self, x):
            return twice(x)

    with pytest.warns(smex.MissingSpecWarning):
        exported(tmp_path, Twice(), (torch.randn(8, 6),), workers=2)
    refused(runner, tmp_path, "no operator 'smex_export_test::twice")


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ([], "expected 1 inputs, found 0"),
        ([torch.zeros(8, 7)], 'input 0 "input" is [8, 7], expected [8, 6]'),
        (
            [torch.zeros(8, 6, dtype=torch.float64)],
            'input 0 "input" is of type Double, expected Float',
        ),
    ],
)
def test_other_inputs(inputs, text, runner, files):
    torch.save(inputs, files / "inputs.pt")
    refused(runner, files, f'Model::forward of "{files / "model.smex"}": {text}')


@pytest.mark.costly(cases=4)
@pytest.mark.parametrize(
    ("name", "options", "inputs", "said"),
    [
        ("transformer", [], ["model.smex", "inputs.pt"], "4 workers, result of [8, 32, 101]\n"),
        ("graphsage", [], ["model.pt", "inputs.pt"], "are drawn, result of [112, 7]\n"),
        ("graphsage", ["--compiled"], ["model.pt2", "inputs.pt"], "drawn, result of [112, 7]\n"),
        ("tree_lstm", [], ["inputs.pt"], "128 vertices in 10 tasks\n"),
    ],
)
def test_examples(name, options, inputs, said, programs, tmp_path):
    source = EXAMPLES / name / "export.py"
    subprocess.run([sys.executable, source, tmp_path, *options], check=True, capture_output=True)
    files = [tmp_path / file for file in (*inputs, "outputs.pt")]
    program = programs / "examples" / name / name
    done = subprocess.run([program, *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(said)
    assert_same(tmp_path, torch.load(tmp_path / "expected.pt"))


def test_graphs_and_schedules(programs):
    if not (programs / "library_tests").exists():
        pytest.skip("GoogleTest is not installed")
    done = subprocess.run([programs / "library_tests"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


# ---- in Python ----


def test_a_call_of_other_sizes(runner, tmp_path):
    net = smex.partition(nn.Linear(6, 4), workers=2, args=(torch.randn(8, 6),))
    x = torch.randn(5, 6)
    net.export(tmp_path / "model.smex", (x,))
    torch.save([x], tmp_path / "inputs.pt")
    said = runner(tmp_path).stdout.splitlines()
    assert said[0] == "input input [5, 6] Float"
    assert json.loads(said[1].removeprefix("plan "))["workers"] == 2
    with torch.no_grad():
        assert_same(tmp_path, [net(x)])


def test_a_file_is_replaced_at_once(tmp_path):
    net = smex.partition(nn.Linear(6, 4), workers=2, args=(torch.randn(8, 6),))
    net.export(tmp_path / "model.smex")
    net.export(str(tmp_path / "model.smex"))
    assert [file.name for file in tmp_path.iterdir()] == ["model.smex"]


def test_a_folder_that_is_not_there(tmp_path):
    net = smex.partition(nn.Linear(6, 4), workers=2, args=(torch.randn(8, 6),))
    with pytest.raises(smex.SmexValueError, match=r'export: ".*" cannot be written: No such file'):
        net.export(tmp_path / "absent" / "model.smex")


def test_before_the_capture(tmp_path):
    net = smex.partition(nn.Linear(6, 4), workers=2)
    with pytest.raises(smex.SmexRuntimeError, match="export: the model has not been captured yet"):
        net.export(tmp_path / "model.smex")
    net.export(tmp_path / "model.smex", torch.randn(8, 6))


def test_parameters_without_values(tmp_path):
    with torch.device("meta"):
        model = nn.Linear(6, 4)
    net = smex.partition(model, workers=2, args=(torch.randn(8, 6),))
    with pytest.raises(smex.SmexRuntimeError, match=r'export: "weight", "bias" of a model on'):
        net.export(tmp_path / "model.smex")


@dataclasses.dataclass
class State:
    hidden: torch.Tensor


class Steps(nn.Module):
    def __init__(self, changes):
        super().__init__()
        self.changes, self.linear = changes, nn.Linear(6, 6)

    def forward(self, state):
        hidden = self.linear(state.hidden)
        if self.changes:
            state.hidden = hidden
        return hidden


def test_objects_as_arguments(runner, tmp_path):
    state = State(torch.randn(4, 6))
    net = smex.partition(Steps(changes=False), workers=2, args=(state,))
    with pytest.raises(smex.SmexValueError, match="called with objects that hold tensors"):
        net.export(tmp_path / "model.smex")
    net.export(tmp_path / "model.smex", (state,))
    torch.save([state.hidden], tmp_path / "inputs.pt")
    assert runner(tmp_path).returncode == 0
    with torch.no_grad():
        assert_same(tmp_path, [net(state)])


def test_changes_of_objects(tmp_path):
    state = State(torch.randn(4, 6))
    net = smex.partition(Steps(changes=True), workers=2, args=(state,))
    with pytest.raises(smex.SmexValueError, match="changes objects that are its arguments"):
        net.export(tmp_path / "model.smex", (state,))
