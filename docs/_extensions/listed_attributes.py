"""Sphinx extension: a property that its class's Attributes section explains is not listed again.

Results compute some attributes when they are asked for. To the reader these are attributes like the
others, and one entry for each is enough.
"""

import re
import sys


def owner(member):
    """Return the class of a property, cached or not; None for anything else."""
    function = getattr(member, "fget", None) or getattr(member, "func", None)
    name = getattr(function, "__qualname__", "").rpartition(".")[0]
    return getattr(sys.modules.get(getattr(function, "__module__", None)), name, None)


def skip_listed(app, what, name, member, skip, options):
    """Answer autodoc's question whether to leave a member out; None leaves it to others."""
    listed = rf"^\s*(\w+, )*{re.escape(name)}(, \w+)* : "
    documented = re.search(listed, getattr(owner(member), "__doc__", None) or "", re.MULTILINE)
    return True if documented else None


def setup(app):
    app.connect("autodoc-skip-member", skip_listed)
    return {"parallel_read_safe": True}
