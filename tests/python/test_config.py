import dataclasses

import torch

import smex
from smex import _native, config


def test_config_names_what_runs():
    shown = smex.show_config()
    assert shown.version == smex.__version__
    assert shown.native
    assert shown.native_reason is None
    assert shown.torch == shown.torch_built == torch.__version__
    assert shown.threads == torch.get_num_threads()
    assert shown.build_type in ("Release", "Debug", "RelWithDebInfo")
    assert shown.compiler.split()[0] in ("GNU", "Clang", "AppleClang")


def test_cuda_is_either_there_or_has_a_reason():
    shown = smex.show_config()
    assert (shown.cuda is None) == (shown.cuda_reason is not None)
    assert (shown.cuda is None) == (shown.cuda_arch_list is None)


def test_text_has_a_line_per_fact_and_repr_is_the_text():
    shown = smex.show_config()
    lines = str(shown).splitlines()
    assert repr(shown) == str(shown)
    assert len(lines) == len(dataclasses.fields(shown)) - 2  # reasons stand behind their facts
    assert lines[0] == f"version         {smex.__version__}"


def test_table_escapes_its_text():
    shown = dataclasses.replace(smex.show_config(), compiler="<GNU & Co>")
    assert "&lt;GNU &amp; Co&gt;" in shown._repr_html_()


def test_missing_library_is_shown_with_its_reason(monkeypatch):
    monkeypatch.setattr(_native, "missing_reason", "it has gone")
    monkeypatch.setattr(_native, "build_info", {})
    shown = config.show_config()
    assert not shown.native
    assert "missing: it has gone" in str(shown)
    assert "no: not built" in str(shown)


def test_absent_cuda_is_shown_with_its_reason(monkeypatch):
    info = {**_native.build_info, "cuda": "", "cuda_arch_list": "", "cuda_reason": "no nvcc"}
    monkeypatch.setattr(_native, "build_info", info)
    assert "no: no nvcc" in str(config.show_config())
