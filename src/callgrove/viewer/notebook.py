"""Pages inside notebooks: a report in a frame of its own, with its data inside.

The frame is sandboxed and has no origin, so that nothing in it can reach the notebook; what the page itself allows is
said by its policy, as in a file.
"""

from __future__ import annotations

import html
from dataclasses import dataclass, field

__all__ = ["NotebookPage"]

SANDBOX = "allow-scripts allow-downloads"


@dataclass(frozen=True)
class NotebookPage:
    """A page that a notebook shows as the last value of a cell; `text` is what a file of it would hold, and `notes`
    say what it lacks."""

    text: str = field(repr=False)
    title: str = ""
    height: int = 640
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        style = f"width:100%;height:{int(self.height)}px;border:1px solid #ccc;border-radius:8px"
        return (
            f'<iframe sandbox="{SANDBOX}" title="{html.escape(self.title)}" style="{style}" '
            f'srcdoc="{html.escape(self.text)}"></iframe>'
        )
