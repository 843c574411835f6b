"""The example programs run, in a short form."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DATA = Path(os.environ.get("SMEX_DATA") or ROOT.parent / "shared" / "data")


@pytest.fixture(autouse=True)
def examples(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "graph"))
    yield
    for name in [path.stem for path in (ROOT / "examples" / "graph").glob("*.py")]:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("model", ["gcn", "own"])
def test_karate(model, capsys):
    pytest.importorskip("networkx", reason="networkx is not installed")
    import train_karate

    right = train_karate.main(["--model", model, "--epochs", "60"])
    assert right > 0.9
    assert "epoch  59" in capsys.readouterr().out


def test_digits(capsys):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    pytest.importorskip("scipy", reason="scipy is not installed")
    import train_digits_knn

    with_graph, alone = train_digits_knn.main(["--epochs", "30"])
    assert with_graph > 0.93 and with_graph > alone
    assert "1797 pictures" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("data", "model"), [("cora", "gcn"), ("citeseer", "gat"), ("cora", "gat-authors")]
)
def test_planetoid(data, model, capsys):
    if not (DATA / "planetoid").is_dir():
        pytest.skip(f"no folder planetoid in $SMEX_DATA or {DATA}")
    import train_planetoid

    options = ["--data", data, "--model", model, "--runs", "2", "--epochs", "12"]
    results = train_planetoid.main([*options, "--folder", str(DATA), "--device", "cpu"])
    assert len(results) == 2 and min(results) > 30  # guessing gets 14 and 17
    assert f"{model} on {data}: " in capsys.readouterr().out


@pytest.mark.parametrize(("task", "epochs", "least"), [("nodes", 6, 0.5), ("links", 2, 0.58)])
def test_minibatches(task, epochs, least, capsys):
    import train_sage_minibatch

    options = ["--task", task, "--epochs", str(epochs), "--nodes", "10000"]
    assert train_sage_minibatch.main(options) > least  # guessing gets 0.2 and 0.5
    assert f"epoch {epochs - 1}: loss" in capsys.readouterr().out


def test_shapes():
    pytest.importorskip("networkx", reason="networkx is not installed")
    import train_gin_shapes

    assert train_gin_shapes.main(["--epochs", "10"]) > 0.6  # guessing gets 0.125


@pytest.mark.parametrize(
    ("model", "epochs", "least"), [("rgcn", 30, 0.4), ("hgt", 30, 0.4), ("sage", 6, 0.3)]
)
def test_hetero(model, epochs, least, capsys):
    import train_hetero

    options = ["--model", model, "--epochs", str(epochs), "--papers", "2000"]
    assert train_hetero.main(options) > least  # guessing gets 0.2
    assert "of the test papers" in capsys.readouterr().out


@pytest.mark.parametrize("more", [[], ["--embed"]])
def test_distributed_alone(more, capsys):
    import train_sage_distributed

    options = ["--epochs", "4", "--nodes", "6000", *more]
    assert train_sage_distributed.main(options) > 0.5  # guessing gets 0.2
    assert "rank 0: " in capsys.readouterr().out


def test_distributed_under_torchrun():
    program = ROOT / "examples" / "graph" / "train_sage_distributed.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    options = ["--epochs", "6", "--nodes", "6000"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "SMEX_SHARED_MEMORY": "0"}
    done = subprocess.run(
        [*command, str(program), *options],
        capture_output=True, text=True, timeout=200, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    last = re.findall(r"epoch 5: loss .*, ([\d.]+)% of the other nodes", done.stdout)
    assert len(last) == 1 and float(last[0]) > 45
    fetched = [int(n) for n in re.findall(r"'fetched': (\d+)", done.stdout)]
    assert len(fetched) == 2 and min(fetched) > 0
