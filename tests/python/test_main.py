import importlib.util
import re
import subprocess
import sys

import pytest

import smex
from smex import __main__ as command
from smex import _native


def test_facts_and_checks():
    done = subprocess.run(
        [sys.executable, "-m", "smex"], capture_output=True, text=True, timeout=250
    )
    assert (done.returncode, done.stderr) == (0, "")
    facts, _, checks = done.stdout.partition("\n\n")
    # Of a new process, too: what tests before this one have loaded or set is among the facts.
    own = [sys.executable, "-c", "import smex; print(smex.show_config())"]
    assert facts.startswith(subprocess.run(own, capture_output=True, text=True).stdout.rstrip())
    on_cpu = [line for line in checks.splitlines() if line.startswith("cpu ")]
    assert [line.split()[1] for line in on_cpu] == ["ok"] * len(command.CHECKS)


def test_facts_alone(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["smex", "--facts"])
    assert command.main() == 0
    assert capsys.readouterr().out.startswith(str(smex.show_config()))


def test_what_is_wrong_is_told_and_the_others_run(capsys, monkeypatch):
    def broken_kernel(device):
        raise AssertionError(f"3 is not 4 on {device}")

    monkeypatch.setattr(sys, "argv", ["smex"])
    monkeypatch.setattr(command, "CHECKS", (broken_kernel, lambda device: f"{device} works"))
    assert command.main() == 1
    lines = capsys.readouterr().out.splitlines()
    failed, well = [line for line in lines if line.startswith("cpu ")]
    assert "FAIL  broken kernel: AssertionError('3 is not 4 on cpu')" in failed
    assert "ok    cpu works" in well


def test_without_the_native_library(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["smex"])
    monkeypatch.setattr(_native, "missing_reason", "it has gone")
    assert command.main() == 1
    assert "missing: it has gone" in capsys.readouterr().out


def test_help_names_the_option(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["smex", "--help"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 0
    assert "--facts" in capsys.readouterr().out


def test_help_names_the_other_commands(capsys, monkeypatch):
    """Each of which is there."""
    monkeypatch.setattr(sys, "argv", ["smex", "--help"])
    with pytest.raises(SystemExit):
        command.main()
    names = re.findall(r"python -m (smex[.\w]+)", capsys.readouterr().out)
    assert len(names) == 4
    for name in names:
        found = importlib.util.find_spec(name)
        assert found is not None
        if found.submodule_search_locations:
            assert importlib.util.find_spec(f"{name}.__main__") is not None
