"""Modules of checks explain a failed `assert` as tests do."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.formats.contract", "tests.formats.damage")
