"""Words of Cube files, and the names under which the model keeps what only Cube files have."""

from __future__ import annotations

from callgrove.model.metrics import Scope

__all__ = [
    "CLUSTERING",
    "CREATOR",
    "DERIVED",
    "GHOST",
    "KNOWN_VERSIONS",
    "MIRRORS",
    "SCOPES",
    "TITLE",
    "VOID",
    "WIDE",
]

KNOWN_VERSIONS = ("4.0", "4.1", "4.2", "4.3", "4.4", "4.5", "4.7")
SCOPES = {
    "EXCLUSIVE": Scope.EXCLUSIVE,
    "INCLUSIVE": Scope.INCLUSIVE,
    "SIMPLE": Scope.INCLUSIVE,  # CubeLib stores and treats it exactly like an inclusive metric
    "PREDERIVED_EXCLUSIVE": Scope.EXCLUSIVE,
    "PREDERIVED_INCLUSIVE": Scope.INCLUSIVE,
    "POSTDERIVED": Scope.NONE,
}
WIDE = ("INCLUSIVE", "SIMPLE")  # types whose rows are in the wide order
DERIVED = ("PREDERIVED_EXCLUSIVE", "PREDERIVED_INCLUSIVE", "POSTDERIVED")
GHOST, VOID = "GHOST", "VOID"

# Attributes of an experiment that no <attr> holds.
TITLE = "cube: title of "  # and the section: metrics, program, system
MIRRORS = "cube: mirrors"  # separated by newlines
CREATOR, CLUSTERING = "Creator", "CLUSTERING"
