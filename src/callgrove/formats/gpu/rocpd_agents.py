"""What rocprofv3's databases say of agents, which are devices here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from callgrove.formats.gpu.cells import Type
from callgrove.formats.gpu.json_cells import json_scalars
from callgrove.formats.gpu.rocpd_tables import AGENT_NUMBERS
from callgrove.formats.gpu.sqlite_file import SqliteFile

__all__ = ["AgentWords"]

AGENT_TEXTS = ("name", "model_name", "vendor_name", "product_name")


class AgentWords(Mapping[str, str]):
    """Names of an agent, and what its JSON holds. All but its numbers is long, and read when it is asked for."""

    def __init__(self, numbers: Mapping[str, str], file: SqliteFile, table: str, row: int) -> None:
        self._numbers, self._file, self._table, self._row = numbers, file, table, row
        self._read: Mapping[str, str] | None = None

    @property
    def _all(self) -> Mapping[str, str]:
        if self._read is None:
            with self._file.reading():
                agents = self._file.table(self._table, dict.fromkeys((*AGENT_TEXTS, "extdata"), Type.TEXT))
            names = {word: agents[word][self._row] for word in AGENT_TEXTS if agents[word][self._row]}
            self._read = {**json_scalars(agents["extdata"][self._row]), **names, **self._numbers}
        return self._read

    def __getitem__(self, word: str) -> str:
        return self._numbers[word] if word in AGENT_NUMBERS else self._all[word]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)
