"""The progress bar, with tqdm and without."""

import sys

import sweep_functions as functions

from gausscontrol.sweeps.sweep import sweep


class Terminal:
    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_progress_is_silent_where_nobody_looks(capsys):
    sweep(functions.square, range(3))
    assert capsys.readouterr() == ("", "")


def test_progress_by_tqdm(monkeypatch, tmp_path):
    sweep(functions.square, range(2), resume=tmp_path / "file", progress=False)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    sweep(functions.fail_at_odd, range(2))
    assert "2/2" in terminal.text
    assert "failed 1" in terminal.text
    terminal.text = ""
    sweep(functions.square, range(3), progress=False)
    assert terminal.text == ""


def test_progress_without_tqdm(monkeypatch):
    for name in ("tqdm", "tqdm.auto"):
        monkeypatch.setitem(sys.modules, name, None)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    sweep(functions.fail_at_odd, range(2))
    assert terminal.text.endswith("\rsweep: 2 of 2, failed 1\n")
    terminal.text = ""
    sweep(functions.square, range(3), progress=False)
    monkeypatch.setattr(terminal, "isatty", lambda: False)
    sweep(functions.square, range(3))
    assert terminal.text == ""
    monkeypatch.setattr(sys, "stderr", None)
    assert len(sweep(functions.square, range(3))) == 3
