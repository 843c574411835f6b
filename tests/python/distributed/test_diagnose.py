"""What processes did last, written and compared."""

import json
import subprocess
import sys
import threading

import pytest

import smex
from smex import _C
from smex.distributed.flight import flight_folder


def enter(recorder, number, text, *, ended, **kwargs):
    ticket = recorder.begin(text, exchange=True, phase="backward", run=3, number=number, **kwargs)
    if ended:
        recorder.end(ticket)


def write(folder, programs, size, **kwargs):
    """Files of ranks, of each of which `programs` has its exchanges as (number, text, ended)."""
    for rank, entries in programs.items():
        recorder = _C.Recorder()
        for number, text, ended in entries:
            enter(recorder, number, text, ended=ended, **kwargs)
        recorder.dump(str(folder), rank, size)


def test_the_last_entries_are_kept_in_order(tmp_path):
    recorder = _C.Recorder()
    for number in range(300):
        ticket = recorder.begin(f"op {number % 7}", run=1, phase="forward", worker=2, number=number)
        recorder.end(ticket)
    last = recorder.begin("open", number=300, bytes=12, peer=1)
    path = recorder.dump(str(tmp_path), 4, 6)
    assert path == str(tmp_path / "rank-4.json")
    found = json.loads((tmp_path / "rank-4.json").read_text())
    assert (found["rank"], found["size"], found["failure"]) == (4, 6, None)
    entries = found["entries"]
    assert [e["number"] for e in entries] == list(range(45, 301))
    assert entries[-1]["sequence"] == last
    assert {k: entries[0][k] for k in ("kind", "run", "phase", "worker", "text", "peer")} == {
        "kind": "instruction", "run": 1, "phase": "forward", "worker": 2, "text": f"op {45 % 7}",
        "peer": None,
    }  # fmt: skip
    assert all(e["begin"] <= e["end"] <= found["time"] for e in entries[:-1])
    assert (entries[-1]["end"], entries[-1]["bytes"], entries[-1]["peer"]) == (None, 12, 1)
    recorder.end(1)  # overwritten long ago
    assert len(list(tmp_path.iterdir())) == 1


def test_threads_enter_while_others_write(tmp_path):
    recorder = _C.Recorder()
    stop = threading.Event()

    def work(worker):
        number = 0
        while not stop.is_set():
            number += 1
            ticket = recorder.begin(f"op of {worker}", worker=worker, number=number, run=worker)
            recorder.end(ticket)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        recorder.dump(str(tmp_path), 0, 1)
        entries = json.loads((tmp_path / "rank-0.json").read_text())["entries"]
        assert all(e["text"] == f"op of {e['worker']}" and e["run"] == e["worker"] for e in entries)
    stop.set()
    for thread in threads:
        thread.join()


def test_any_text_is_valid_json(tmp_path):
    recorder = _C.Recorder()
    text = 'a "quoted" \\ text\nwith\ttabs, a null \x00 and µ'
    recorder.begin(text)
    recorder.dump(str(tmp_path), 0, 1)
    assert smex.diagnose(tmp_path).flights[0].entries[0].text == text


def test_a_rank_that_is_behind(tmp_path):
    before = [(117, "fetch of a", True)]
    here = [*before, (118, "fetch of b", False)]
    write(tmp_path, {0: here, 1: before, 2: here}, 3)
    found = smex.diagnose(tmp_path)
    assert found.missing == ()
    assert found.difference == (
        "ranks 0 and 2 began run 3, backward exchange 118 (fetch of b), which rank 1 did not"
    )
    assert found.waits == {0: (1,), 2: (1,)}
    lines = str(found).splitlines()
    assert lines[0] == "3 of 3 ranks wrote what they did last"
    assert lines[3].split() == ["rank", "in", "for", "bytes", "waits", "for"]
    assert lines[4].startswith("0     run 3, backward exchange 118 (fetch of b)")
    assert lines[4].endswith("rank 1")
    assert lines[5].startswith("1     after run 3, backward exchange 117 (fetch of a)")


def test_a_rank_that_is_missing(tmp_path):
    here = [(118, "fetch of b", False)]
    write(tmp_path, {0: here, 2: here}, 3)
    found = smex.diagnose(tmp_path)
    assert found.missing == (1,)
    assert found.difference == (
        "ranks 0 and 2 were in run 3, backward exchange 118 (fetch of b); "
        "nothing is known of rank 1"
    )
    assert found.waits == {0: (1,), 2: (1,)}
    assert "nothing of rank 1 (killed, stopped, or elsewhere)" in str(found)


def test_a_rank_that_was_killed_is_missing(tmp_path):
    failure = {"kind": "gone", "rank": 1, "where": "", "text": "", "message": "rank 1 was killed"}
    write(tmp_path, {0: [(118, "fetch of b", False)]}, 2)
    path = tmp_path / "rank-0.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "failure": failure}))
    assert "nothing of rank 1 (it was killed, or crashed" in str(smex.diagnose(tmp_path))


def test_programs_that_differ(tmp_path):
    write(tmp_path, {0: [(1, "fetch of a", True), (2, "fetch of b", False)],
                     1: [(1, "fetch of a", True), (2, "fetch of c", False)]}, 2)  # fmt: skip
    assert smex.diagnose(tmp_path).difference == (
        'run 3, backward exchange 2 is "fetch of b" on rank 0; "fetch of c" on rank 1: '
        "the ranks run different programs"
    )


def test_an_exchange_that_ended_on_some(tmp_path):
    write(tmp_path, {0: [(1, "a", True)], 1: [(1, "a", False)]}, 2, peer=0)
    found = smex.diagnose(tmp_path)
    assert found.difference == (
        "run 3, backward exchange 1 (a) has ended on rank 0 and not on rank 1"
    )
    assert found.waits == {1: (0,)}


def test_no_difference(tmp_path):
    write(tmp_path, {0: [(1, "a", True)], 1: [(1, "a", True)]}, 2)
    write_nothing = smex.diagnose(tmp_path)
    assert write_nothing.difference is None
    assert "first difference: none" in repr(write_nothing)
    assert "<table>" in write_nothing._repr_html_()


def test_the_folder_is_the_users_or_torchruns(monkeypatch, tmp_path):
    for name in ("SMEX_FLIGHT_FOLDER", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_ERROR_FILE"):
        monkeypatch.delenv(name, raising=False)
    recorder = _C.Recorder()
    recorder.begin("op")
    assert flight_folder() is None
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", "/logs/none_x/attempt_0/1/error.json")
    assert str(flight_folder()) == "/logs/none_x/attempt_0/flight"
    monkeypatch.setenv("SMEX_FLIGHT_FOLDER", str(tmp_path))
    assert flight_folder() == tmp_path
    for attempt in (2, 10):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(attempt))
        recorder.dump(str(flight_folder()), 0, 2, None)
    assert smex.diagnose(tmp_path).folder == tmp_path / "attempt_10"


def test_the_failure_stands_in_the_files(tmp_path):
    import torch.distributed as dist

    watcher = _C.Watcher(dist.HashStore(), 0, 2)
    failure = watcher.report("no memory", "forward instruction 5 (aten.mm)")
    _C.Recorder().dump(str(tmp_path), 0, 2, failure)
    found = smex.diagnose(tmp_path)
    assert (found.failure["kind"], found.failure["rank"]) == ("raised", 0)
    assert "failure: rank 0 failed in forward instruction 5 (aten.mm): no memory" in str(found)
    assert "nothing yet" in str(found)


def test_from_a_shell(tmp_path):
    write(tmp_path, {0: [(1, "a", True)]}, 1)
    command = [sys.executable, "-m", "smex.distributed", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.splitlines()[0] == "1 of 1 rank wrote what they did last"


def test_folders_that_are_no_flight(tmp_path):
    with pytest.raises(smex.SmexValueError, match="expected files rank-<r>.json in .*, found none"):
        smex.diagnose(tmp_path)
    (tmp_path / "rank-0.json").write_text("{}")
    with pytest.raises(smex.SmexValueError, match="is not a file that a process of this version"):
        smex.diagnose(tmp_path)
    write(tmp_path, {0: [(1, "a", True)]}, 1)
    write(tmp_path, {1: [(1, "a", True)]}, 2)
    with pytest.raises(smex.SmexValueError, match="runs of 1 and 2 processes"):
        smex.diagnose(tmp_path)
