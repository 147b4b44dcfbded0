"""Questions that people ask, put to the tools by the protocol's own client, with answers that other programs gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from callgrove.assistant.tools import TOOLS
from tests.assistant.client import call, with_session
from tests.assistant.questions import look_up, questions, same

N_QUESTIONS = 200


def test_the_tools_answer_every_question(shared: Path) -> None:
    """All in one session, scored without any language model."""
    asked = questions(shared)
    assert len({(one.tool, json.dumps(one.arguments), str(one.place)) for one in asked}) == len(asked) >= N_QUESTIONS
    assert {one.tool for one in asked} == set(TOOLS)
    answers: dict[str, Any] = {}
    wrong: list[str] = []

    async def work(session: Any) -> None:
        for one in asked:
            key = json.dumps([one.tool, one.arguments])
            if key not in answers:
                answers[key] = await call(session, one.tool, **one.arguments)
            try:
                found = look_up(answers[key], one.place)
            except (KeyError, ValueError, IndexError) as error:
                found = f"{type(error).__name__} in {json.dumps(answers[key])[:300]}"
            if not same(found, one):
                wrong.append(f"{one.tool} {one.arguments} {one.place}: {found!r}, and {one.source}: {one.expected!r}")

    with_session([shared / "data"], work)
    assert wrong == [], "\n".join([f"{len(wrong)} of {len(asked)}", *wrong])
