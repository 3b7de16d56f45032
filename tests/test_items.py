"""What becomes of an item that fails, whatever it raises."""

import sweep_functions as functions

from gausscontrol.sweeps.sweep import sweep


def test_exceptions_of_every_kind():
    kinds = ["exit", "unprintable", "certificate", "lines", "fine"]
    result = sweep(functions.misbehave, kinds)
    assert [error.type for error in result.errors] == [
        "SystemExit", "Unprintable", "NotCertified", "ValueError",
    ]  # fmt: skip
    assert result.errors[1].message == "(its message cannot be printed)"
    assert str(result.errors[3]) == "item 3 ('lines'): ValueError: first line"
    assert result.values[4] == "fine"
    assert str(result).splitlines()[-2] == "    and 1 more in errors"


def test_points_that_cannot_be_printed():
    class Silent:
        def __repr__(self):
            raise RuntimeError("no text")

    assert "item 0 (<" in str(sweep(functions.square, [Silent()]))
