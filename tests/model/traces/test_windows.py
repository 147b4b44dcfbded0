"""Windows of time as users write them."""

from __future__ import annotations

import pytest

from callgrove.model.traces.windows import TimeWindow


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("10%:100%", True),
        ("10%:100.0%", True),
        ("5ms:", True),
        (":", True),
        ("10%:99%", False),
        ("0:100", False),
        ("1ms:100ms", False),
    ],
)
def test_which_windows_end_with_the_traces(text: str, ends: bool) -> None:
    assert TimeWindow.parse(text).ends_with_traces == ends


def test_the_last_moment_belongs_to_a_window_up_to_the_end() -> None:
    whole = TimeWindow.parse("50%:100%").of((1000, 3001))
    assert TimeWindow.parse("50%:").of((1000, 3001)) == whole == (2000, 3002)  # an end does not belong to a window
