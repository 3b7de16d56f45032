"""Model files: one model or a stack of layers, in .npz, .mat and .json.

`layout` says which keys a file has, `keys` how each is laid out; the formats themselves are in
`formats`. Values are exact to the last bit in all three.

Dense models. Keys A, B, V must be there; b, k, dt, name may be left out.

Factored models. Keys W_Q, W_K, W_V, W_O must be there; b_Q, b_V, b_O, A, b, scale, n_heads, dt,
name may be left out, as in `GaussianTransformer.from_weights`, and n_heads says there that the
heads stand side by side, in weights of two dimensions. Without it those are one head. The tilt k
may stand in place of b_Q. Saving writes the factors back, each head on its own: W_Q with the logit
scale in it and scale = 1, k in place of b_Q (which k does not determine), and a b that holds what
b_V and b_O add to it. A file with B or V beside weights is an error, since it says everything
twice. In .npz and .json the four arrays of a torch.nn.MultiheadAttention may stand beside n_heads
under the names of its state_dict (`fused`).

Stacks. Key layers holds the keys of each layer, dense or factored; durations may be left out where
every layer has dt > 0, and is written where it says more than dt does. As JSON

    {"layers": [{"A": ..., "B": ..., "V": ...}, ...], "durations": [...]}

in .npz arrays are called layers/0/A, layers/0/B, ..., layers/1/A, ..., durations; in .mat layers is
a struct array, layers(1).A = ..., or a cell array of structs, where a field that is [] counts as
not given.

Layout. In .npz and .json arrays are those of the constructor: heads on the first axis, B and V
(h, d, d) or (d, d), k (h, d), weights (h, dk, d) or, for one head, (dk, d). In .mat they follow
MATLAB: heads on the last axis, B and V d x d x h (d x d for one head; a row or column of h numbers
for d = 1), W_Q and W_K dk x d x h, W_V dv x d x h, W_O d x dv x h, one column a head in k (d x h),
b_Q (dk x h) and b_V (dv x h), b a row or a column, dt 1 x 1, name a row of characters. Integers,
single precision and sparse matrices become float arrays; logical, complex, cell, struct and object
variables are refused.

Names. They are case-sensitive. A .npz, a .json or one layer of a stack holds a model and nothing
else, so an unknown key is an error. A .mat is often a whole workspace, so other variables are
ignored; one whose name differs only by case from a key that is absent is pointed at, in the error
if the key is required and by a warning if it is optional.

Errors. What a file contains raises ParameterError or ShapeError, both GausscontrolError; what the
file system refuses (no such file, a directory, no permission) stays the OSError that it is. The
pair (GausscontrolError, OSError) therefore covers every failure. Nothing is ever unpickled.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.model.entries import fault, listed
from gausscontrol.model.formats import FORMATS, Format, read_entries
from gausscontrol.model.keys import KEYS, LAYERS
from gausscontrol.model.layout import decoded, encoded, overlooked
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["load_model", "save_model"]


def load_model(path: str | os.PathLike[str]) -> GaussianTransformer | LayerStack:
    """Read a model or a stack from a .npz, .mat or .json file.

    Keys A, B, V, and optionally b, k, dt, name, are the arguments of `GaussianTransformer`; W_Q,
    W_K, W_V, W_O, and optionally b_Q (or k), b_V, b_O, A, b, scale, n_heads, dt, name, those of
    `GaussianTransformer.from_weights`; layers, and optionally durations, those of `LayerStack`.

    Parameters
    ----------
    path : str or path-like
        The suffix says the format. In .mat (v4 to v7) heads lie on the last axis, B and V
        d x d x h, W_Q and W_K dk x d x h, W_V dv x d x h, W_O d x dv x h, k d x h, b_Q dk x h and
        b_V dv x h; elsewhere on the first.

    Returns
    -------
    GaussianTransformer or LayerStack
        A stack if the file has the key layers: a list of objects in .json, names such as
        layers/0/A in .npz, a struct array or a cell array of structs in .mat.

    Raises
    ------
    ParameterError
        If `path` is no path, the suffix is none of the three, the file is damaged, empty, pickled
        or a v7.3 .mat, a key is missing or unknown, weights stand beside B or V, or a value is not
        what the constructor takes. In a stack the message names the layer, in the file's own
        counting.
    ShapeError
        If the shapes do not agree.
    OSError
        If there is no such file, it is a directory, or the system refuses to read it.

    Warns
    -----
    UserWarning
        If an optional key is absent from a .mat that holds the same name in other case.

    Notes
    -----
    An unknown key in .npz or .json is an error; other variables of a .mat are ignored. Files are
    never unpickled. SciPy reads .mat files, so damage to one is diagnosed as far as SciPy survives
    it.

    Examples
    --------
    >>> import tempfile
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer([[0, 1], [-1, 0]], [[1, 0], [0, 1]], [[-1, 0], [0, -1]])
    >>> stack = gct.LayerStack([model, model.reversed()], [1, 0.5])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gct.save_model(f"{folder}/layer.mat", model)
    ...     gct.save_model(f"{folder}/stack.npz", stack)
    ...     gct.load_model(f"{folder}/layer.mat") == model
    ...     gct.load_model(f"{folder}/stack.npz") == stack
    True
    True
    """
    path = _path_of(path)
    form = _format_of(path)
    _refuse_directory(path)
    if not path.exists():
        raise FileNotFoundError(
            errno.ENOENT, "expected a model file, found none at this path", str(path)
        )
    try:
        with path.open("rb") as stream:
            entries = read_entries(stream, form, KEYS, LAYERS)
        model = decoded(entries, form.matlab)
    except (ParameterError, ShapeError) as error:
        raise type(error)(f"{path}: {error}") from error
    for key, twins in overlooked(entries):
        warnings.warn(
            f"{path}: {key}: expected {key} for a value other than the default, found only "
            f"{listed(twins)}, which is ignored; rename it if it is meant, or store {key} too",
            UserWarning,
            stacklevel=2,
        )
    return model


def save_model(
    path: str | os.PathLike[str],
    model: GaussianTransformer | LayerStack,
    *,
    overwrite: bool = True,
) -> None:
    """Write a model or a stack to a .npz, .mat or .json file.

    The file appears complete or not at all, and `load_model` gives back an equal model.

    Parameters
    ----------
    path : str or path-like
        The suffix says the format; the folder must exist.
    model : GaussianTransformer or LayerStack
        What to write.
    overwrite : bool, optional
        Whether an existing file is replaced. Default: True.

    Raises
    ------
    ParameterError
        If `path` is no path, the suffix is none of the three, `model` is neither a model nor a
        stack, or a name holds characters that files cannot keep.
    OSError
        If the folder does not exist, the path is a directory, the file exists and is not to be
        replaced, or the system refuses to write it.

    Notes
    -----
    Of a dense model A, B, V, b, k, dt are written, and name if there is one. Of a factored one,
    W_Q, W_K, W_V, W_O, A, b, k, scale, dt and name, where W_Q holds the logit scale, scale is 1,
    k stands for b_Q, and b includes W_O b_V and b_O; it is factored again when loaded. Of a stack,
    the layers, and durations unless they are the dt of the layers. Equal models, factored alike,
    give equal bytes.

    Examples
    --------
    >>> import tempfile
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(1, 1, -1, name="scalar")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gct.save_model(f"{folder}/scalar.json", model)
    ...     gct.load_model(f"{folder}/scalar.json").name
    'scalar'
    """
    if not isinstance(model, (GaussianTransformer, LayerStack)):
        raise ParameterError(
            f"model: expected a GaussianTransformer or LayerStack, found {type(model).__name__}; "
            "call save_model(path, model)"
        )
    path = _path_of(path)
    form = _format_of(path)
    if isinstance(model, LayerStack):
        for i, layer in enumerate(model):
            _check_storable(layer.name, f"model[{i}].name")
    else:
        _check_storable(model.name, "name")
    content = io.BytesIO()
    form.write(content, encoded(model, form.matlab))
    _write_atomically(path, content.getvalue(), overwrite)


# -- the file system -------------------------------------------------------------------------------


def _path_of(path: Any) -> Path:
    if isinstance(path, (str, os.PathLike)):
        return Path(path)
    advice = "name a file such as 'layer.mat'"
    if isinstance(path, Mapping):
        weights = {"W_Q", "W_K", "W_V", "W_O"} & set(path)
        maker = "GaussianTransformer.from_weights" if weights else "GaussianTransformer"
        advice = f"make a model of arrays with {maker}(**arrays)"
    raise ParameterError(f"path: expected a path, found {type(path).__name__}; {advice}")


def _format_of(path: Path) -> Format:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ParameterError(
            f"path: expected a name ending in {listed(FORMATS)}, found {str(path)!r}; "
            "the suffix says the format"
        )
    return FORMATS[suffix]


def _refuse_directory(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(
            errno.EISDIR, "expected a file, found a directory; name a file in it", str(path)
        )


def _check_storable(name: str | None, argument: str) -> None:
    if name is None:
        return
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise fault(argument, "Unicode text", repr(name), "remove the lone surrogates") from error
    if "\0" in name:
        raise fault(argument, "text without NUL", repr(name), "use replace(name=...)")


def _write_atomically(path: Path, content: bytes, overwrite: bool) -> None:
    target = Path(os.path.realpath(path))  # A link keeps pointing where it points.
    _refuse_directory(target)
    if not target.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "expected an existing folder, found none; create it", str(path.parent)
        )
    if target.exists() and not overwrite:
        raise FileExistsError(
            errno.EEXIST, "expected a new name, found a file; pass overwrite=True", str(path)
        )
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
