"""The version of callgrove, stated once."""

__version__ = "0.1.0"
