"""One module per bench; each has `run(conditions) -> Iterator[Finding]`."""
