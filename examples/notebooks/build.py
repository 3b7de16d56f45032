"""Make the notebooks from the scripts beside them, run them, and keep what they print and draw.

    python examples/notebooks/build.py              make, run and write every notebook
    python examples/notebooks/build.py --check      run the notebooks that are there, change nothing

Needs the extra "notebooks". In a script, "# %%" begins a code cell and "# %% [markdown]" one of
words, whose lines are comments. A cell that raises ends the run with code 1.
"""

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

HERE = Path(__file__).resolve().parent
# Figures go into the notebook, whatever the environment says.
INLINE = "module://matplotlib_inline.backend_inline"
MARK = re.compile(r"^# %%(.*)\n", re.MULTILINE)


def cells_of(script):
    """Return the cells of a script."""
    _, *pieces = MARK.split(script)
    cells = []
    for kind, body in zip(pieces[::2], pieces[1::2], strict=True):
        if kind.strip() == "[markdown]":
            words = "\n".join(re.sub("^# ?", "", line) for line in body.strip().split("\n"))
            cells.append(nbformat.v4.new_markdown_cell(words))
        else:
            cells.append(nbformat.v4.new_code_cell(body.strip()))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # the same at every build
    return cells


def made_from(script):
    """Return the notebook of a script, not yet run."""
    notebook = nbformat.v4.new_notebook(cells=cells_of(script))
    notebook.metadata["kernelspec"] = {
        "display_name": "Python 3", "language": "python", "name": "python3",
    }  # fmt: skip
    return notebook


def run(notebook):
    """Run a notebook in an empty folder; raises CellExecutionError where a cell does."""
    os.environ["MPLBACKEND"] = INLINE
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=600,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            record_timing=False,
        )
        client.execute()
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = joined(cell.outputs)
            cell.metadata = {}
    return notebook


def joined(outputs):
    """Join what was printed in several pieces, which is a matter of timing."""
    whole = []
    for output in outputs:
        if whole and output.output_type == whole[-1].output_type == "stream":
            whole[-1].text += output.text
        else:
            whole.append(output)
    return whole


def main(arguments=()):
    """Make or check the notebooks and return an exit code."""
    parser = argparse.ArgumentParser(description="Make and run the notebooks")
    parser.add_argument("--check", action="store_true", help="run those there, change nothing")
    parser.add_argument("names", nargs="*", help="which, by default all")
    chosen = parser.parse_args(arguments)
    for script in sorted(HERE.glob("*.py")):
        if script.name == "build.py" or (chosen.names and script.stem not in chosen.names):
            continue
        path = script.with_suffix(".ipynb")
        try:
            if chosen.check:
                run(nbformat.read(path, as_version=4))
            else:
                nbformat.write(run(made_from(script.read_text("utf-8"))), path)
        except CellExecutionError as error:
            print(f"{script.stem}: {error}", file=sys.stderr)
            return 1
        print(f"{script.stem}: {path.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
