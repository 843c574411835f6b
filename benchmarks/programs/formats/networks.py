"""Networks as lists of edges, in text or as sparse matrices."""

from __future__ import annotations

import json
import pickle

import numpy as np
import scipy.io
import scipy.sparse

from formats import Places, data, lines


def pairs(rng: np.random.Generator, sources: int, targets: int, number: int) -> np.ndarray:
    """Edges from every source and to every target, and random ones."""
    more = max(sources, targets)
    every = np.stack([np.arange(more) % sources, rng.permutation(more) % targets], 1)
    drawn = np.stack([rng.integers(sources, size=number), rng.integers(targets, size=number)], 1)
    return np.unique(np.r_[every, drawn], axis=0)


def _matrix(edges: np.ndarray, shape: tuple[int, int]) -> scipy.sparse.csr_matrix:
    return scipy.sparse.csr_matrix((np.ones(len(edges)), edges.T), shape)


@data("edges")
def edges(places: Places, rng: np.random.Generator) -> None:
    """A network as a file of text, an edge in a line."""
    lines(places.work / "net.txt", pairs(rng, 60, 60, 300))


@data("members")
def members(places: Places, rng: np.random.Generator) -> None:
    """A club's members and what they do together, and small graphs of two classes, as tables."""
    clubs = [("Mr. Hi", "Officer")[i % 2] for i in range(34)]
    rows = [(i, club, rng.integers(18, 60)) for i, club in enumerate(clubs)]
    lines(places.downloads / "members.csv", [("Id", "Club", "Age"), *rows], ",")
    rows = [(*edge, round(rng.random(), 4)) for edge in pairs(rng, 34, 34, 80)]
    lines(places.downloads / "interactions.csv", [("Src", "Dst", "Weight"), *rows], ",")
    edges = [(n, *edge) for n in range(20) for edge in pairs(rng, 8 + n % 5, 8 + n % 5, 20)]
    lines(places.downloads / "graph_edges.csv", [("graph_id", "src", "dst"), *edges], ",")
    rows = [(n, n % 2, 8 + n % 5) for n in range(20)]
    header = ("graph_id", "label", "num_nodes")
    lines(places.downloads / "graph_properties.csv", [header, *rows], ",")


@data("gatne")
def gatne(places: Places, rng: np.random.Generator) -> None:
    """Edges with types, in the parts of GATNE."""
    folder = places.work / "data" / "example"
    rows = [(kind, *edge) for kind in (1, 2) for edge in pairs(rng, 40, 40, 80)]
    lines(folder / "train.txt", rows)
    for part in ("valid", "test"):
        held = rng.integers(40, size=(2, 20, 2))
        rows = [(kind, *held[kind - 1, i], i % 2) for kind in (1, 2) for i in range(20)]
        lines(folder / f"{part}.txt", rows)


@data("gowalla")
def gowalla(places: Places, rng: np.random.Generator) -> None:
    """Items of users, a user in a line, as NGCF's authors give Gowalla."""
    folder = places.work / "Data" / "gowalla"
    for part, number in (("train", 12), ("test", 3)):
        rows = [(user, *rng.permutation(50)[:number]) for user in range(60)]
        lines(folder / f"{part}.txt", [*rows, *([(60, *range(50, 60))] if number > 3 else [])])


@data("compgcn")
def compgcn(places: Places, rng: np.random.Generator) -> None:
    """Triples of words: WN18RR."""
    edges = pairs(rng, 60, 60, 300)
    triples = [(f"e{a}", f"_r{rng.integers(4)}", f"e{b}") for a, b in edges]
    for part, rows in zip(("train", "valid", "test"), np.split(triples, (-40, -20))):
        lines(places.work / "wn18rr" / f"{part}.txt", rows, "\t")


@data("elliptic")
def elliptic(places: Places, rng: np.random.Generator) -> None:
    """Transactions of Bitcoin in 49 steps of time, two thirds of them labelled."""
    folder = places.work / "elliptic"
    (places.work / "processed").mkdir()
    each, steps = 20, 49
    ids = 1000 + 7 * rng.permutation(each * steps)
    time = np.repeat(np.arange(steps), each) + 1
    kinds = np.array(["unknown", "1", "2"])[np.arange(each * steps) % 3]
    edges = np.concatenate([step * each + pairs(rng, each, each, 20) for step in range(steps)])
    classes = [("txId", "class"), *zip(ids, kinds)]
    lines(folder / "elliptic_txs_classes.csv", classes, ",")
    lines(folder / "elliptic_txs_edgelist.csv", [("txId1", "txId2"), *ids[edges]], ",")
    features = rng.normal(size=(each * steps, 165)).round(4)
    rows = [(*head, *row) for head, row in zip(zip(ids, time), features.tolist())]
    lines(folder / "elliptic_txs_features.csv", rows, ",")


@data("gas")
def gas(places: Places, rng: np.random.Generator) -> None:
    """Retweets of news, as GAS reads them: a symmetric matrix, news first."""
    news, users = 30, 90
    edges = np.add(pairs(rng, users, news, 300), (news, 0))
    both = np.r_[edges, edges[:, ::-1]]
    folder = places.downloads / "pol"
    folder.mkdir()
    graph = scipy.sparse.csc_matrix((np.ones(len(both)), both.T), (news + users,) * 2)
    label = np.arange(news)[None] % 2
    scipy.io.savemat(folder / "pol_retweet_graph.mat", {"graph": graph, "label": label})
    features = rng.normal(size=(news + users, 20)).astype(np.float32)
    np.save(folder / "pol_node_feature.npy", features)
    np.save(folder / "pol_edge_feature.npy", rng.normal(size=(len(both), 10)).astype(np.float32))
    places.archive(folder, "GASPOL.zip")


@data("saint-ppi")
def saint_ppi(places: Places, rng: np.random.Generator) -> None:
    """Proteins in the files of GraphSAINT."""
    folder = places.work / "data" / "ppi"
    folder.mkdir(parents=True)
    nodes, train = 300, 200
    edges = pairs(rng, nodes, nodes, 900)
    edges = edges[edges[:, 0] != edges[:, 1]]
    full = _matrix(np.r_[edges, edges[:, ::-1]], (nodes, nodes)).astype(bool)
    inside = (edges < train).all(1)
    part = _matrix(np.r_[edges[inside], edges[inside][:, ::-1]], (nodes, nodes)).astype(bool)
    scipy.sparse.save_npz(folder / "adj_full.npz", full)
    scipy.sparse.save_npz(folder / "adj_train.npz", part)
    ids = list(range(nodes))
    role = {"tr": ids[:train], "va": ids[train:250], "te": ids[250:]}
    (folder / "role.json").write_text(json.dumps(role))
    np.save(folder / "feats.npy", rng.normal(size=(nodes, 50)))
    labels = rng.integers(2, size=(nodes, 121)).tolist()
    classes = {str(node): label for node, label in enumerate(labels)}
    (folder / "class_map.json").write_text(json.dumps(classes))


@data("aminer")
def aminer(places: Places, rng: np.random.Generator) -> None:
    """Walks over authors and venues, a walk in a line."""
    walks = [
        [f"{'va'[i % 2]}{rng.integers(30)}" for i in range(20)]
        for _ in range(200)
    ]  # fmt: skip
    lines(places.work / "aminer.txt", walks)


@data("dbis")
def dbis(places: Places, rng: np.random.Generator) -> None:
    """Papers, authors and conferences, as metapath2vec's authors give them."""
    folder = places.work / "net"
    papers, authors, venues = 60, 30, 2
    lines(folder / "id_author.txt", [(i, f"author{i}") for i in range(authors)], "\t")
    lines(folder / "id_conf.txt", [(i, f"vconf{i}") for i in range(venues)], "\t")
    lines(folder / "paper.txt", [(i, f"paper {i}") for i in range(papers)], "\t")
    lines(folder / "paper_author.txt", pairs(rng, papers, authors, 60), "\t")
    lines(folder / "paper_conf.txt", [(i, i % venues) for i in range(papers)], "\t")


@data("dbis-labels")
def dbis_labels(places: Places, rng: np.random.Generator) -> None:
    """Vectors of venues and authors and their classes, at paths that the program has as names."""
    folder = places.work / "..."
    venues = [(f"vconf{i}", i % 3) for i in range(60)]
    authors = [(f"author{i}", i % 3) for i in range(12_500)]  # it trains on 12,333 of them
    vectors = [(name, *rng.normal(size=8).round(4)) for name, _ in venues + authors]
    lines(folder / "output_file_path" / "...", [(len(vectors), 8), *vectors])
    lines(folder / "label 2" / "googlescholar.8area.venue.label.txt", venues)
    lines(folder / "label 2" / "googlescholar.8area.author.label.txt", authors)


@data("acm")
def acm(places: Places, rng: np.random.Generator) -> None:
    """Papers by authors, subjects, terms and conferences: MATLAB's file of ACM."""
    papers = 1200
    sizes = {"PvsA": 300, "PvsL": 40, "PvsT": 100, "PvsP": papers}
    content = {
        name: scipy.sparse.csc_matrix(_matrix(pairs(rng, papers, size, 2 * papers), (papers, size)))
        for name, size in sizes.items()
    }
    venue = np.stack([np.arange(papers), np.arange(papers) % 14], 1)
    content["PvsC"] = scipy.sparse.csc_matrix(_matrix(venue, (papers, 14)))
    scipy.io.savemat(places.downloads / "ACM.mat", content)


@data("acm3025")
def acm3025(places: Places, rng: np.random.Generator) -> None:
    """Papers that share authors or subjects: the pickled file of HAN."""
    papers = 200
    order = rng.permutation(papers)[None]
    own = scipy.sparse.eye(papers, format="csr")
    content = {
        "label": _matrix(np.stack([np.arange(papers), np.arange(papers) % 3], 1), (papers, 3)),
        "feature": _matrix(pairs(rng, papers, 60, 1000), (papers, 60)),
        "train_idx": order[:, :60],
        "val_idx": order[:, 60:100],
        "test_idx": order[:, 100:],
    }
    for name in ("PAP", "PLP"):
        edges = pairs(rng, papers, papers, 600)
        content[name] = (_matrix(np.r_[edges, edges[:, ::-1]], (papers, papers)) + own) > 0
        content[name] = scipy.sparse.csr_matrix(content[name].astype(np.float64))
    (places.downloads / "ACM3025.pkl").write_bytes(pickle.dumps(content))


@data("mag240m")
def mag240m(places: Places, rng: np.random.Generator) -> None:
    """The files of MAG240M, and of what DGL's program makes of them."""
    import torch

    import smex.graph as sg

    papers, authors, institutions, features = 300, 120, 20, 768
    folder = places.work / "mag240m_kddcup2021"
    processed = folder / "processed"
    (processed / "paper").mkdir(parents=True)
    (folder / "RELEASE_v1.txt").write_text("")
    counts = {"paper": papers, "author": authors, "institution": institutions}
    torch.save(counts | {"num_classes": 153}, folder / "meta.pt")
    order = rng.permutation(papers)
    split = {"train": order[:200], "valid": order[200:250], "test": order[250:]}
    torch.save(split, folder / "split_dict.pt")
    values = rng.normal(size=(papers, features)).astype(np.float16)
    np.save(processed / "paper" / "node_feat.npy", values)
    np.save(processed / "paper" / "node_label.npy", rng.integers(2, size=papers))
    np.save(processed / "paper" / "node_year.npy", rng.integers(2010, 2021, size=papers))
    kinds = {
        "author___writes___paper": pairs(rng, authors, papers, 500),
        "author___affiliated_with___institution": pairs(rng, authors, institutions, 100),
        "paper___cites___paper": pairs(rng, papers, papers, 900),
    }
    for name, edges in kinds.items():
        (processed / name).mkdir()
        np.save(processed / name / "edge_index.npy", edges.T)
    nodes = papers + authors + institutions
    graph = sg.rand_graph(nodes, 4000)
    graph.edata["etype"] = torch.arange(4000).remainder(5).byte()
    sg.save_graphs(str(places.work / "graph.dgl"), graph)
    full = np.memmap(places.work / "full.npy", mode="w+", dtype="float16", shape=(nodes, features))
    full[:] = rng.normal(size=full.shape)
    full.flush()
