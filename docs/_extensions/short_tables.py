"""Tables of names that fit narrow screens."""

from sphinx.ext.autosummary import Autosummary


class ShortAutosummary(Autosummary):
    """A table of names without that of the package, which narrow screens have no room for."""

    def get_items(self, names: list[str]) -> list[tuple]:
        """Return names as shown, signatures, summaries and full names."""
        return [
            (shown.removeprefix("gausscontrol."), *rest)
            for shown, *rest in super().get_items(names)
        ]


def setup(app) -> dict:
    """Put the shorter tables in the place of Sphinx's own."""
    app.setup_extension("sphinx.ext.autosummary")
    app.add_directive("autosummary", ShortAutosummary, override=True)
    return {"parallel_read_safe": True}
