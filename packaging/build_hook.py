"""What a build adds to the wheel: pages of the documentation, manual pages, completion for shells.

All of it is made of the sources, so that a new verb or page is in the next wheel. Editable installations find the
pages in the checkout.

    docs/*.md, docs/tutorials/*.md  ->  callgrove/docs            `callgrove help TOPIC`
    the parsers                     ->  share/man/man1            `man callgrove-top`
    callgrove completion SHELL      ->  share/bash-completion, share/zsh, share/fish
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPLETION = {
    "bash": "share/bash-completion/completions/callgrove",
    "zsh": "share/zsh/site-functions/_callgrove",
    "fish": "share/fish/vendor_completions.d/callgrove.fish",
}


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add files to a wheel, but not to an editable one."""
        if version == "editable":
            return
        root = Path(self.root)
        for page in [*root.glob("docs/*.md"), *root.glob("docs/tutorials/*.md")]:
            build_data["force_include"][str(page)] = f"callgrove/{page.relative_to(root).as_posix()}"
        for file, place in write_shared_files(root, root / "build" / "shared").items():
            build_data["shared_data"][str(file)] = place


def write_shared_files(root: Path, folder: Path) -> dict[Path, str]:
    """Write manual pages and completion scripts into a folder; return where in an installation each belongs."""
    sys.path.insert(0, str(root / "src"))
    os.environ.setdefault("COLUMNS", "80")  # help texts do not depend on who builds
    from callgrove.cli.manual import write_pages
    from callgrove.cli.verbs.completion import SCRIPTS

    places = {page: f"share/man/man1/{page.name}" for page in write_pages(folder / "man")}
    for shell, place in COMPLETION.items():
        script = folder / shell
        script.write_text(SCRIPTS[shell], "utf-8")
        places[script] = place
    sys.path.remove(str(root / "src"))
    return places
