"""Files of data sets: found in folders, downloaded, verified, unpacked."""

import gzip
import hashlib
import io
import itertools
import os
import pickle
import ssl
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import smex
import smex.graph as sg
from smex.graph.data import files, utils


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch, tmp_path):
    """No folder of the machine's own is looked into."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DGL_DOWNLOAD_DIR", str(tmp_path / "dgl"))
    monkeypatch.delenv("SMEX_DATA", raising=False)
    return tmp_path / "cache" / "smex"


@pytest.fixture
def served(tmp_path):
    """A file with an address."""
    path = tmp_path / "remote" / "data.txt"
    path.parent.mkdir()
    path.write_bytes(b"hello")
    return path.as_uri()


@pytest.mark.parametrize("kind", ["sha256", "md5", "sha1_hash"])
def test_download_verifies(served, tmp_path, kind):
    digest = hashlib.new(kind.removesuffix("_hash"), b"hello").hexdigest()
    path = utils.download(served, tmp_path / "sub" / "x.txt", verbose=False, **{kind: digest})
    assert Path(path).read_bytes() == b"hello"
    with pytest.raises(smex.SmexValueError, match="than expected, 00; the file has changed"):
        utils.download(served, path, verbose=False, **{kind: "00"})
    assert Path(path).read_bytes() == b"hello"  # what was there stays
    assert not list((tmp_path / "sub").glob("*.part"))
    assert utils.check_sha1(path, hashlib.sha1(b"hello").hexdigest())


def test_download_of_what_is_there(served, tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("mine")
    assert utils.download(served, tmp_path, overwrite=False) == str(path)
    assert path.read_text() == "mine"
    right = hashlib.sha256(b"hello").hexdigest()
    utils.download(served, tmp_path, overwrite=None, verbose=False, sha256=right)
    assert path.read_text() == "hello"


def test_download_that_fails(tmp_path):
    with pytest.raises(smex.SmexRuntimeError, match="missing.txt cannot be had"):
        utils.download((tmp_path / "missing.txt").as_uri(), tmp_path / "x", retries=0)
    with pytest.raises(smex.SmexRuntimeError, match="cannot be had"):
        utils.download("no address", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_progress_without_tqdm(served, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tqdm", None)
    utils.download(served, tmp_path / "x")
    assert (tmp_path / "x").read_text() == "hello"


def test_archives(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("in/x.txt", "zipped")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo("in/y.txt")
        entry.size = 6
        archive.addfile(entry, io.BytesIO(b"tarred"))
    with gzip.open(tmp_path / "z.txt.gz", "wt") as file:
        file.write("packed")
    for name in ("a.zip", "a.tar.gz", "z.txt.gz"):
        utils.extract_archive(tmp_path / name, tmp_path / "out")
    texts = {p.name: p.read_text() for p in (tmp_path / "out").rglob("*.txt")}
    assert texts == {"x.txt": "zipped", "y.txt": "tarred", "z.txt": "packed"}
    utils.extract_archive(tmp_path / "a.zip", tmp_path / "out", overwrite=False)


def test_archives_that_are_none(tmp_path):
    for name in ("a.zip", "a.tar", "a.txt.gz", "a.rar"):
        (tmp_path / name).write_text("no archive")
        with pytest.raises(smex.SmexValueError, match=f"{name} cannot be unpacked"):
            utils.extract_archive(tmp_path / name, tmp_path / "out")


def test_archives_stay_in_their_folder(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("../escaped.txt"), io.BytesIO(b""))
    with pytest.raises(smex.SmexValueError, match="cannot be unpacked"):
        utils.extract_archive(tmp_path / "a.tar", tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("../escaped.txt", "")
    utils.extract_archive(tmp_path / "a.zip", tmp_path / "out")
    assert not (tmp_path / "escaped.txt").exists()


class Numbers(sg.data.DGLBuiltinDataset):
    """As many graphs as a file says."""

    def __init__(self, url, **kwargs):
        super().__init__("numbers", url, **kwargs)

    def _files(self):
        return ("n.txt",)

    def process(self):
        with open(f"{self.raw_path}/n.txt") as file:
            self.number = int(file.read())

    def __getitem__(self, idx):
        return self._transformed(sg.graph(([0], [1])))

    def __len__(self):
        return self.number


def write(folder, text):
    folder.mkdir(parents=True)
    (folder / "n.txt").write_text(text)


def test_folders_are_searched_in_order(tmp_path, monkeypatch, empty_cache):
    monkeypatch.setenv("SMEX_DATA", str(tmp_path / "shared"))
    write(tmp_path / "dgl" / "numbers_0a1b2c3d", "4")  # what DGL has downloaded
    assert len(Numbers(None)) == 4
    write(empty_cache / "numbers", "1")
    assert len(Numbers(None)) == 1
    write(tmp_path / "shared" / "numbers", "2")
    assert len(Numbers(None)) == 2
    write(tmp_path / "own" / "numbers", "3")
    data = Numbers(None, raw_dir=tmp_path / "own", transform=sg.AddReverse(), verbose=True)
    assert len(data) == 3 and [g.num_edges() for g in data] == [2, 2, 2]
    assert data.raw_path == str(tmp_path / "own" / "numbers") and "num_graphs=3" in repr(data)


def test_a_data_set_is_downloaded_once(tmp_path, empty_cache):
    with zipfile.ZipFile(tmp_path / "n.zip", "w") as archive:
        archive.writestr("n.txt", "5")
    url = (tmp_path / "n.zip").as_uri()
    assert len(Numbers(url)) == 5 and (empty_cache / "numbers" / "n.txt").exists()
    (tmp_path / "n.zip").unlink()
    assert len(Numbers(url)) == 5
    (empty_cache / "numbers" / "n.txt").unlink()
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
        archive.writestr("other.txt", "5")
    with pytest.raises(smex.SmexRuntimeError, match=r"expected n.txt in .*found other files"):
        Numbers((tmp_path / "m.zip").as_uri())


def test_files_that_are_nowhere(tmp_path, empty_cache):
    for url in (None, (tmp_path / "missing.zip").as_uri()):
        with pytest.raises(
            smex.SmexRuntimeError, match=r"Numbers: expected n.txt in .*smex/numbers, .*put them"
        ):
            Numbers(url)


def test_a_data_set_need_not_process_anything():
    class Made(sg.data.DGLDataset):
        def __init__(self, graphs):
            self.graphs = graphs

        def __getitem__(self, idx):
            return self.graphs[idx]

        def __len__(self):
            return len(self.graphs)

    loader = sg.dataloading.GraphDataLoader(Made([sg.graph(([0], [1]))] * 3), batch_size=2)
    assert [batch.batch_size for batch in loader] == [2, 1]


def test_a_data_set_need_not_be_a_list():
    class Held(sg.data.DGLDataset):
        def process(self):
            self.graph = sg.graph(([0], [1]))

    held = Held("held")
    assert held.graph.num_edges() == 1
    with pytest.raises(NotImplementedError, match="Held has no __len__"):
        len(held)
    with pytest.raises(NotImplementedError, match="Held has no __getitem__"):
        held[0]


def test_processed_data_is_kept(tmp_path):
    made = []

    class Kept(sg.data.DGLDataset):
        def process(self):
            made.append(self.hash)
            self.graphs = [sg.graph(([0], [1]))]

        def save(self):
            utils.makedirs(self.save_path)
            utils.save_graphs(f"{self.save_path}/{self.hash}.bin", self.graphs)

        def load(self):
            self.graphs = utils.load_graphs(f"{self.save_path}/{self.hash}.bin")[0]

        def has_cache(self):
            import os

            return os.path.exists(f"{self.save_path}/{self.hash}.bin")

        def __getitem__(self, idx):
            return self.graphs[idx]

        def __len__(self):
            return len(self.graphs)

    for key, force, times in (("a", False, 1), ("a", False, 1), ("a", True, 2), ("b", False, 3)):
        data = Kept("kept", raw_dir=tmp_path, hash_key=(key,), force_reload=force)
        assert len(made) == times and data[0].num_edges() == 1
    assert data.save_dir == data.raw_dir == str(tmp_path) and data.url is None


def test_splits():
    data = list(range(10))
    parts = utils.split_dataset(data, [0.5, 0.3, 0.2])
    assert [list(part) for part in parts] == [data[:5], data[5:8], data[8:]]
    drawn = [list(p) for p in utils.split_dataset(data, shuffle=True, random_state=3)]
    assert [len(p) for p in drawn] == [8, 1, 1] and sorted(itertools.chain(*drawn)) == data
    assert (
        drawn == [list(p) for p in utils.split_dataset(data, None, True, 3)]
        and drawn[0] != data[:8]
    )
    with pytest.raises(smex.SmexValueError, match=r"fractions that sum to 1, found \[0.5, 0.1\]"):
        utils.split_dataset(data, [0.5, 0.1])
    with pytest.raises(smex.SmexValueError, match="expected 3 fractions, found 2"):
        utils.add_nodepred_split([], [0.5, 0.5])


def test_masks_and_info(tmp_path):
    h = sg.heterograph({("a", "x", "b"): ([0, 1], [5, 9])})
    utils.add_nodepred_split([h], [0.6, 0.2, 0.2], "b")
    masks = torch.stack([h.nodes["b"].data[f"{m}_mask"] for m in ("train", "val", "test")])
    assert masks.sum(1).tolist() == [6, 2, 2] and masks.sum(0).tolist() == [1] * 10
    info = {"n": np.int64(3), "names": {0: "a", (1, None): ["b"]}, "s": (1, 2.5, True)}
    utils.save_info(tmp_path / "i.pkl", info)
    assert utils.load_info(tmp_path / "i.pkl") == info
    utils.save_info(tmp_path / "t.pkl", {"t": torch.arange(3), "a": np.ones(2)})
    found = utils.load_info(tmp_path / "t.pkl")
    assert found["t"].tolist() == [0, 1, 2] and found["a"].tolist() == [1, 1]
    (tmp_path / "i.json").write_text('{"n": 3}')  # as it was written once
    assert utils.load_info(tmp_path / "i.json") == {"n": 3}
    for value in (lambda: 0, smex.SmexError("of a class"), range(3)):
        with pytest.raises(smex.SmexTypeError, match="save_info: expected numbers"):
            utils.save_info(tmp_path / "none.pkl", {"t": value})
    assert not (tmp_path / "none.pkl").exists()
    (tmp_path / "bad.pkl").write_bytes(pickle.dumps({"f": os.system}))
    with pytest.raises(smex.SmexValueError, match=r"bad.pkl is not read.*it names posix.system"):
        utils.load_info(tmp_path / "bad.pkl")


def test_what_was_kept_and_cannot_be_read_is_made_anew(tmp_path, caplog):
    made = []

    class Kept(sg.data.DGLDataset):
        def __init__(self):
            super().__init__("kept", raw_dir=str(tmp_path))

        def process(self):
            made.append(sg.graph(([0], [1])))

        def save(self):
            utils.save_info(tmp_path / "info.pkl", {0: len(made)})

        def load(self):
            self.info = utils.load_info(tmp_path / "info.pkl")
            made.append(self.info)

        def has_cache(self):
            return (tmp_path / "info.pkl").exists()

        def __len__(self):
            return 1

        def __getitem__(self, idx):
            return made[-1]

    Kept()
    assert Kept()[0] == {0: 1} and not caplog.records
    (tmp_path / "info.pkl").write_bytes(b"\x80\x04 of a version that is gone")
    assert Kept()[0].num_edges() == 1
    assert "Kept: what was kept in" in caplog.text and "made anew: SmexValueError" in caplog.text
    assert Kept()[0] == {0: 3}


def test_a_server_that_is_not_checked(served, tmp_path, monkeypatch, caplog):
    contexts, urlopen = [], files.urllib.request.urlopen

    def recorded(url, timeout, context):
        contexts.append(context)
        return urlopen(url, timeout=timeout)

    monkeypatch.setattr(files.urllib.request, "urlopen", recorded)
    utils.download(served, tmp_path / "a", True, None, 0, False, False)
    utils.download(served, tmp_path / "b", verbose=False)
    assert contexts[0].verify_mode == ssl.CERT_NONE and contexts[1] is None
    assert "without checking the server's certificate" in caplog.text
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
