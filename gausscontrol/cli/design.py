"""What `design` does: parameters for a target, told and written to a model file (Theory 7).

    target (mu*, Sigma*), a layer whose matrices are kept unless they are free  ->  a layer

The JSON object has these keys; what does not exist is null: file, version; output (path); free;
target (mean, covariance); model (name, dim, heads, mean_heads, dt); decay_rate, optimal_rate,
mean_decay_rate; norms (A, V, B), norm_bound; residual; largest_step; certificate (kind, statement,
scope, margin); status; plots (paths).
"""

from __future__ import annotations

import argparse
import errno
import json
from pathlib import Path
from typing import Any

import numpy as np

from gausscontrol import plots
from gausscontrol._version import __version__
from gausscontrol.cli.report import plain, wrapped
from gausscontrol.cli.simulate import read_start
from gausscontrol.errors import GausscontrolError, ParameterError
from gausscontrol.linalg.arrays import real_vector
from gausscontrol.linalg.symmetric import covariance_matrix
from gausscontrol.model.entries import listed
from gausscontrol.model.files import load_model, save_model
from gausscontrol.model.formats import FORMATS
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.plots.design import design_plot
from gausscontrol.synthesis.design import Design, design
from gausscontrol.synthesis.design_request import FREE

__all__ = ["add_design", "run_design"]

PICTURE = "design.png"
FREE_CHOICES = tuple("".join(names) for names in FREE)

DESCRIPTION = """\
Design parameters that make every Gaussian with Sigma_0 > 0 tend to a target,
and certify that they do. Matrices of the layer in FILE are kept unless they are
free; b is always chosen, since it puts the mean at the target."""

EXAMPLES = """\
examples:
  gausscontrol design layer.mat --target 2 --output designed.npz
  gausscontrol design layer.mat --target target.json --free AV --decay-rate 0.5
  gausscontrol design layer.mat --mean 1 0 --covariance 2 1 --norm-bound V=5
  gausscontrol design layer.mat --target 1 --free VB --heads 2 --plots out

A target file (.mat, .npz, .json) holds covariance (d x d) and optionally mean,
which --mean replaces; --covariance is given in place of --target, not beside it.
Without --decay-rate the rate is as large as the norm bounds allow; with it, the
norms are as small as the rate allows. tr A > 0 is necessary unless A is free.

exit codes:
  0  done: designed, certified and written
  1  there is no such design; one line on standard error says what is in the way
  2  bad input, or a solver that fails; one line on standard error says what to do"""


def add_design(commands: argparse._SubParsersAction, raw: type) -> argparse.ArgumentParser:
    """Add the parser of this command.

    Parameters
    ----------
    commands : argparse action
        What `add_subparsers` returned.
    raw : type
        The formatter class.

    Returns
    -------
    argparse.ArgumentParser
    """
    parser = commands.add_parser(
        "design",
        help="parameters that attract every Gaussian to a target",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=raw,
    )
    add = parser.add_argument
    add("file", metavar="FILE", type=Path, help="model file")
    add(
        "--target",
        metavar="TARGET",
        help="a file, a number s for mean 0 and covariance s I, or identity",
    )
    add(
        "--mean",
        metavar="X",
        type=float,
        nargs="+",
        help="target mean, d numbers; replaces that of --target",
    )
    add(
        "--covariance",
        metavar="X",
        type=float,
        nargs="+",
        help="target covariance in place of --target: s for s I, d numbers for a diagonal, or "
        "d x d row by row",
    )
    add(
        "--free",
        metavar="NAMES",
        choices=FREE_CHOICES,
        default="V",
        help=f"what is designed: {', '.join(FREE_CHOICES)} (default V)",
    )
    add("--decay-rate", metavar="R", type=float, help="of the covariance, to be reached")
    add("--mean-decay-rate", metavar="R", type=float, help="of the mean, to be reached")
    add(
        "--norm-bound",
        metavar="X",
        nargs="+",
        help="bound on spectral norms: one number, or V=5 A=1",
    )
    add("--heads", metavar="H", type=int, help="how many, with --free VB")
    add("--dt", metavar="T", type=float, help="depth of a layer, by default the file's")
    add("--near", action="store_true", help="stay near the file's weights, by Frobenius norm")
    add("--output", metavar="OUT", type=Path, help=f"write the layer to OUT{{{','.join(FORMATS)}}}")
    add("--force", action="store_true", help="let --output replace a file")
    add("--plots", metavar="DIR", type=Path, help=f"write {PICTURE} into DIR, made if need be")
    add("--json", action="store_true", help="print one JSON object and nothing else")
    return parser


def run_design(options: argparse.Namespace) -> str:
    """Design, write what is asked for, and return the report.

    Parameters
    ----------
    options : argparse.Namespace

    Returns
    -------
    str

    Raises
    ------
    InfeasibleDesign
        If there is no design.
    ParameterError, ShapeError
        If an option or a file makes no sense.
    OSError
        If a file cannot be read or written.
    """
    model = load_model(options.file)
    if isinstance(model, LayerStack):
        raise ParameterError(
            f"{options.file}: expected a single layer, found a stack of {len(model)}; design one "
            "layer at a time"
        )
    target = _target(options, model.dim)
    if options.output is not None:
        _check_output(options.output, options.force)
    if options.plots is not None:
        _make_folder(options.plots)
    des = _design(options, model, target)
    if options.output is not None:
        save_model(options.output, des.model)
    pictures = []
    if options.plots is not None:
        pictures = [options.plots / PICTURE]
        plots.save_picture(pictures[0], lambda ax: design_plot(des, ax=ax))
    if options.json:
        return json.dumps(_as_json(options, des, target, pictures), allow_nan=False)
    return _in_words(options, model, des, pictures)


def _design(
    options: argparse.Namespace, model: GaussianTransformer, target: tuple[np.ndarray, np.ndarray]
) -> Design:
    free = tuple(options.free)
    given = {name: getattr(model, name) for name in "ABV" if name not in free}
    dt = model.dt if options.dt is None else options.dt
    return design(
        target,
        free=free,
        decay_rate=options.decay_rate,
        mean_decay_rate=options.mean_decay_rate,
        norm_bound=_norm_bound(options.norm_bound),
        n_heads=options.heads,
        dt=dt,
        initial=model if options.near else None,
        **given,
    )


# -- options --------------------------------------------------------------------------------------


def _target(options: argparse.Namespace, dim: int) -> tuple[np.ndarray, np.ndarray]:
    if options.target is None and options.covariance is None:
        raise ParameterError(
            "--target: expected one, or --covariance, found neither; give --target identity, a "
            "number or a file"
        )
    mean, Sigma = np.zeros(dim), None
    if options.target is not None:
        if options.covariance is not None:
            raise ParameterError("--covariance: expected nothing beside --target; drop one of them")
        try:
            mean, Sigma = read_start(options.target, dim)
        except GausscontrolError as error:
            raise type(error)(str(error).replace("--initial:", "--target:")) from error
    if options.mean is not None:
        mean = real_vector(options.mean, "--mean", dim)
    if Sigma is None:
        Sigma = _covariance(np.array(options.covariance), dim)
    return mean, Sigma


def _covariance(values: np.ndarray, dim: int) -> np.ndarray:
    if values.size not in (1, dim, dim * dim):
        raise ParameterError(
            f"--covariance: expected 1, {dim} or {dim * dim} numbers for d = {dim}, found "
            f"{values.size}"
        )
    if values.size == 1:
        values = np.repeat(values, dim)
    if values.size == dim:
        return covariance_matrix(np.diag(values), "--covariance", dim)
    return covariance_matrix(values.reshape(dim, dim), "--covariance", dim)


def _norm_bound(texts: list[str] | None) -> float | dict[str, float] | None:
    if texts is None:
        return None
    try:
        if len(texts) == 1 and "=" not in texts[0]:
            return float(texts[0])
        pairs = [text.split("=", 1) for text in texts]
        return {name: float(value) for name, value in pairs}
    except ValueError as error:
        raise ParameterError(
            f"--norm-bound: expected one number, or pairs such as V=5 A=1, found "
            f"{' '.join(texts)!r}"
        ) from error


def _check_output(path: Path, force: bool) -> None:
    if path.suffix.lower() not in FORMATS:
        raise ParameterError(
            f"--output: expected a name ending in {listed(FORMATS)}, found {str(path)!r}"
        )
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "expected a file, found a folder", str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "expected an existing folder, found none; create it", str(path.parent)
        )
    if path.exists() and not force:
        raise FileExistsError(
            errno.EEXIST,
            "it exists and is not overwritten; name another, or add --force",
            str(path),
        )


def _make_folder(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(
            errno.ENOTDIR, "expected a folder for --plots, found a file; name another", str(path)
        )
    path.mkdir(parents=True, exist_ok=True)


# -- the report -----------------------------------------------------------------------------------


def _in_words(
    options: argparse.Namespace, model: GaussianTransformer, des: Design, pictures: list[Path]
) -> str:
    lines = str(des).splitlines()
    if model.k.any() and not des.model.k.any():
        lines.append("  tilts      k of the file are not kept; --near keeps them")
    if options.output is None:
        lines.append("  written    nowhere; give --output OUT")
    else:
        lines.append(f"  written    {options.output}")
    lines += [f"  picture    {path}" for path in pictures]
    return "\n".join(wrapped(lines))


def _as_json(
    options: argparse.Namespace,
    des: Design,
    target: tuple[np.ndarray, np.ndarray],
    pictures: list[Path],
) -> dict[str, Any]:
    model, certificate = des.model, des.certificate
    report = {
        "file": str(options.file),
        "version": __version__,
        "output": None if options.output is None else str(options.output),
        "free": list(des.free),
        "target": {"mean": target[0], "covariance": target[1]},
        "model": {
            "name": model.name,
            "dim": model.dim,
            "heads": model.n_heads,
            "mean_heads": des.mean_heads,
            "dt": model.dt,
        },
        "decay_rate": des.decay_rate,
        "optimal_rate": des.optimal_rate,
        "mean_decay_rate": des.mean_decay_rate,
        "norms": des.norms,
        "norm_bound": des.bounds,
        "residual": des.equilibrium.residual,
        "largest_step": des.largest_step,
        "certificate": {
            "kind": type(certificate).__name__,
            "statement": certificate.statement,
            "scope": certificate.scope,
            "margin": certificate.margin,
        },
        "status": des.status,
        "plots": [str(path) for path in pictures],
    }
    return plain(report)
