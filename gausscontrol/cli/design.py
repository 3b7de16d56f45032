"""What `design` does: parameters for a target, told and written to a model file (Theory 7a).

    target (mu*, Sigma*), a layer whose matrices are kept unless they are free  ->  a layer

The keys of the JSON object are described in `schema`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from gausscontrol import plots
from gausscontrol.cli.choices import MODEL_FILES
from gausscontrol.cli.gaussians import read_gaussian
from gausscontrol.cli.jsontext import json_text
from gausscontrol.cli.kept import finished
from gausscontrol.cli.outputs import check_output, make_folder
from gausscontrol.cli.report import wrapped
from gausscontrol.cli.streams import emit, working
from gausscontrol.cli.wording import by_option
from gausscontrol.errors import InfeasibleDesign, ParameterError
from gausscontrol.linalg.arrays import real_vector
from gausscontrol.linalg.symmetric import covariance_matrix
from gausscontrol.model.files import load_model, save_model
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.plots.design import design_plot
from gausscontrol.synthesis.design import Design, design

__all__ = ["run"]

PICTURE = "design.png"
# Arguments of `design` that an error may name, and the options that give them.
OPTIONS = {
    "decay_rate": "--decay-rate",
    "mean_decay_rate": "--mean-decay-rate",
    "norm_bound": "--norm-bound",
    "n_heads": "--heads",
    "dt": "--dt",
    "free": "--free",
    "initial": "--near",
    "norm bound": "--norm-bound",
    "target mean": "--mean",
}


def run(options: argparse.Namespace) -> int:
    """Design, write what is asked for, and report.

    Parameters
    ----------
    options : argparse.Namespace

    Returns
    -------
    int
        0.

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
        check_output(options.output, MODEL_FILES, options.force, (options.file, options.target))
    if options.plots is not None:
        make_folder(options.plots)
    pictures = []
    with working("solving for a design") as say:
        des = _design(options, model, target)
        if options.output is not None:
            save_model(options.output, des.model, overwrite=options.force)
            finished(options.output)
        if options.plots is not None:
            say("drawing")
            pictures = [options.plots / PICTURE]
            plots.save_picture(pictures[0], lambda ax: design_plot(des, ax=ax))
            finished(pictures[0])
    if options.json:
        emit(json_text("design", _as_json(options, des, target, pictures)))
    else:
        emit(_in_words(options, model, des, pictures))
    return 0


def _design(
    options: argparse.Namespace, model: GaussianTransformer, target: tuple[np.ndarray, np.ndarray]
) -> Design:
    free = tuple(options.free)
    given = {name: getattr(model, name) for name in "ABV" if name not in free}
    dt = model.dt if options.dt is None else options.dt
    try:
        return design(
            target,
            free=free,
            decay_rate=options.decay_rate,
            mean_decay_rate=options.mean_decay_rate,
            norm_bound=options.norm_bound,
            n_heads=options.heads,
            dt=dt,
            initial=model if options.near else None,
            **given,
        )
    except (InfeasibleDesign, ParameterError) as error:
        target_option = "--target" if options.covariance is None else "--covariance"
        words = OPTIONS | {"target covariance": target_option}
        raise type(error)(by_option(str(error), words)) from error


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
        mean, Sigma = read_gaussian(options.target, dim, "--target")
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
    return {
        "file": str(options.file),
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
