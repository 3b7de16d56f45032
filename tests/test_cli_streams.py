"""What goes to which stream: progress on a terminal only, one line for an error."""

import io
import sys
import time

import pytest

from gausscontrol.cli import streams
from gausscontrol.cli.streams import complain, emit, one_line, plain_warnings, working


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(name="open_terminal")
def _open_terminal(monkeypatch):
    """Make a terminal of standard error; to be called in the test, since pytest takes it back."""

    def open_terminal():
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(streams, "PATIENCE", 0.005)
        monkeypatch.setattr(streams, "PERIOD", 0.005)
        return terminal

    return open_terminal


def wait_for(terminal, text):
    """Wait until the other thread has written it."""
    patience = time.monotonic() + 30
    while text not in terminal.getvalue():
        assert time.monotonic() < patience, terminal.getvalue()
        time.sleep(0.002)


def left(terminal):
    """Return what is left to be seen: a line begun anew hides what it covers."""
    lines = []
    for line in terminal.getvalue().split("\n"):
        shown = ""
        for part in line.split("\r"):
            shown = part + shown[len(part) :]
        lines.append(shown.rstrip())
    return lines


def test_a_terminal_sees_what_is_done_and_then_nothing(open_terminal):
    terminal = open_terminal()
    with working("solving") as say:
        wait_for(terminal, "solving, 0 s")
        say("drawing a picture")
        wait_for(terminal, "drawing a picture, 0 s")
    assert left(terminal) == [""]


def test_a_warning_does_not_tear_the_line(open_terminal):
    terminal = open_terminal()
    with working("solving"):
        wait_for(terminal, "solving, 0 s")
        complain("warning: it escapes")
    assert left(terminal) == ["gausscontrol: warning: it escapes", ""]


def test_progress_ends_with_an_error(open_terminal):
    terminal = open_terminal()

    def interrupted():
        with working("solving"):
            wait_for(terminal, "solving, 0 s")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert left(terminal) == [""]


def test_quick_work_is_not_told(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with working("solving") as say:
        say("drawing")
    assert terminal.getvalue() == ""


def test_a_pipe_sees_no_progress(monkeypatch):
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    monkeypatch.setattr(streams, "PATIENCE", 0.0)
    with working("solving"):
        time.sleep(0.02)
    assert pipe.getvalue() == ""


def test_warnings_are_one_line(capsys):
    import warnings

    with plain_warnings():
        warnings.warn("two\nlines", UserWarning, stacklevel=1)
        warnings.warn("not for users", DeprecationWarning, stacklevel=1)
    assert capsys.readouterr().err == "gausscontrol: warning: two lines\n"


def test_errors_of_the_system_name_their_file():
    assert one_line(FileNotFoundError(2, "No such file", "x.mat")) == "x.mat: No such file"
    assert one_line(ValueError("a\n  b")) == "a b"


def test_what_a_stream_cannot_encode_is_escaped(monkeypatch):
    plain = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", plain)
    emit("layer m\u00e9")
    assert plain.buffer.getvalue() == b"layer m\\xe9\n"
