"""Gaussian Transformer dynamics for python-control: analysis, certificates, responses.

The public names are listed in `__init__.pyi`, each with the module it comes from. A module is
imported when a name of it is first asked for (PEP 562), since importing all of them takes seconds.
"""

import ast
from difflib import get_close_matches
from importlib import import_module
from pkgutil import get_data, iter_modules
from types import ModuleType
from typing import Any


def _homes() -> dict[str, str]:
    """Return the module of each name that the stub imports."""
    stub = ast.parse(get_data(__name__, "__init__.pyi"))
    imports = [line for line in stub.body if isinstance(line, ast.ImportFrom)]
    return {alias.name: line.module for line in imports for alias in line.names}


_HOMES = _homes()

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import what is asked for, once."""
    if name in {module.name for module in iter_modules(__path__)}:
        value = _imported(f"{__name__}.{name}")
    elif name in _HOMES:
        value = getattr(_imported(_HOMES[name]), name)
    else:
        close = get_close_matches(name, __all__, n=1)
        advice = f"did you mean {close[0]}?" if close else "dir(gausscontrol) lists what it has"
        message = f"module {__name__!r} has no attribute {name!r}; {advice}"
        # Python would look for a suggestion of its own in the object.
        raise AttributeError(message, name=name, obj=None)
    globals()[name] = value
    return value


def _imported(module: str) -> ModuleType:
    try:
        return import_module(module)
    except AttributeError as error:  # Python would take it for a name that is not there.
        raise ImportError(f"{module} cannot be imported: {error}", name=module) from error


def __dir__() -> list[str]:
    return __all__
