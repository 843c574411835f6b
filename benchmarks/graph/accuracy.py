"""Test accuracy on Cora and CiteSeer over seeds, of our layers and of DGL's and PyG's own.

    python benchmarks/graph/accuracy.py [--runs 10] [--data cora] [--models gat] [--peers dgl pyg]

Ours are the models of examples/graph/train_planetoid.py. The peers' are GATs of their own layers
with the same sizes, dropout, optimiser and stopping, on the same words, edges and split: what the
data and the protocol allow. They run in the environments of benchmarks/peers/environments.py.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

ROOT = pathlib.Path(__file__).parents[2]
PUBLISHED = {
    "gcn": {"cora": "81.5", "citeseer": "70.3"},
    "gat": {"cora": "83.0 ± 0.7", "citeseer": "72.5 ± 0.7"},
    "gat-authors": {"cora": "83.0 ± 0.7", "citeseer": "72.5 ± 0.7"},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--data", nargs="+", default=["cora", "citeseer"])
    parser.add_argument("--models", nargs="*", default=list(PUBLISHED), choices=PUBLISHED)
    parser.add_argument("--peers", nargs="*", default=["dgl", "pyg"], choices=["dgl", "pyg"])
    parser.add_argument("--folder", help="the folder in which the folder planetoid is")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--system", help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.system:
        of_peer(options)
    else:
        compare(options)


def compare(options):
    """Prints a line of the table for each model, data set and system."""
    for folder in (ROOT / "examples" / "graph", ROOT / "benchmarks" / "peers"):
        sys.path.insert(0, str(folder))
    import environments
    import train_planetoid

    import smex.graph as sg

    print(f"torch {torch.__version__}, {options.runs} runs, {options.threads} thread(s)")
    print("| model | data | system | accuracy | published |\n| --- | --- | --- | --- | --- |")
    for name in options.data:
        data = train_planetoid.DATA[name](raw_dir=options.folder, verbose=False)
        g = sg.add_self_loop(sg.remove_self_loop(data[0]))
        for model in options.models:
            settings = train_planetoid.SETTINGS[model]
            runs = [
                train_planetoid.train(g, data.num_classes, settings, settings.epochs, seed)
                for seed in range(options.runs)
            ]
            tell(model, name, "ours", runs)
        for peer in options.peers:
            python = environments.interpreter(peer)
            if python is None:
                print(f"{peer}: no environment; python benchmarks/peers/environments.py {peer}")
                continue
            tell("gat", name, peer, ask(python, peer, g, options))


def tell(model, name, system, runs):
    spread = statistics.stdev(runs) if len(runs) > 1 else 0.0
    found = f"{100 * statistics.mean(runs):.1f} ± {100 * spread:.1f} %"
    print(f"| {model} | {name} | {system} | {found} | {PUBLISHED[model][name]} % |", flush=True)


def ask(python, peer, g, options):
    """The accuracies of a peer's runs, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "graph.npz"
        src, dst = g.edges()
        columns = {key: g.ndata[key] for key in ("feat", "label", "train_mask", "val_mask")}
        np.savez(file, src=src, dst=dst, test_mask=g.ndata["test_mask"], **columns)
        command = [python, __file__, "--system", peer, "--file", file, "--runs", str(options.runs)]
        command += ["--threads", str(options.threads)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [float(word) for word in done.stdout.splitlines()[-1].split()]


def of_peer(options):
    """Prints the test accuracy of each run of a peer's GAT."""
    with np.load(options.file) as file:
        data = {key: torch.from_numpy(file[key]) for key in file.files}
    words = data["feat"].to_sparse_coo()
    make = {"dgl": of_dgl, "pyg": of_pyg}[options.system]
    found = []
    for seed in range(options.runs):
        torch.manual_seed(seed)
        net = make(data, words.shape[1], int(data["label"].max()) + 1)
        found.append(train(net, words, data))
    print(*found)


def train(net, words, data, patience=100):
    """The test accuracy at the epoch of the least validation loss."""
    label = data["label"]
    train, val, test = (data[f"{part}_mask"] for part in ("train", "val", "test"))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.005, weight_decay=5e-4)
    best, accuracy, waited = float("inf"), 0.0, 0
    for _ in range(1000):
        net.train()
        kept = F.dropout(words.values(), 0.6)
        dropped = torch.sparse_coo_tensor(words.indices(), kept, words.shape)
        loss = F.cross_entropy(net(dropped)[train], label[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        net.eval()
        with torch.no_grad():
            scores = net(words)
        validation = float(F.cross_entropy(scores[val], label[val]))
        waited += 1
        if validation < best:
            right = scores.argmax(1) == label
            best, waited, accuracy = validation, 0, float(right[test].float().mean())
        if waited == patience:
            break
    return accuracy


def of_dgl(data, num_words, num_classes):
    import dgl

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.g = dgl.graph((data["src"], data["dst"]), num_nodes=len(data["label"]))
            self.first = dgl.nn.GATConv(num_words, 8, 8, attn_drop=0.6, activation=F.elu)
            self.second = dgl.nn.GATConv(64, num_classes, 1, feat_drop=0.6, attn_drop=0.6)

        def forward(self, words):
            return self.second(self.g, self.first(self.g, words).flatten(1)).mean(1)

    return Net()


def of_pyg(data, num_words, num_classes):
    import torch_geometric.nn as pyg

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.edges = torch.stack([data["src"], data["dst"]])
            self.first = pyg.GATConv(num_words, 8, 8, dropout=0.6, add_self_loops=False)
            self.second = pyg.GATConv(64, num_classes, 1, dropout=0.6, add_self_loops=False)

        def forward(self, words):
            h = F.dropout(F.elu(self.first(words, self.edges)), 0.6, self.training)
            return self.second(h, self.edges)

    return Net()


if __name__ == "__main__":
    main()
