"""What a gate says: sentences about what was seen, and about what could have been."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import comb
from typing import TYPE_CHECKING

from callgrove.analysis.gate.orders import count_orders
from callgrove.errors import Parameter, compose_text

if TYPE_CHECKING:
    from callgrove.analysis.gate.decision import Gate, GateRow

__all__ = ["least_repetitions", "limit", "p_text", "percent", "say_power", "say_row", "say_untested", "say_verdict"]

MOST_NAMED = 3


def percent(share: float, signed: bool = False) -> str:
    """Return a measured share in percent: 2.1%, or with its sign +19.6%."""
    return f"{100 * share:+.1f}%" if signed else f"{100 * share:.1f}%"


def limit(share: float) -> str:
    """Return a share that somebody chose in percent, with the digits that it has: 3%, 0.5%."""
    return f"{100 * share:.4g}%"


def p_text(p: float) -> str:
    """Return a p with two digits; what is rarer than all orders is `<0.0001`."""
    return f"{p:.2g}" if p >= 0.0001 else "<0.0001"


def least_repetitions(alpha: float) -> int:
    """Return how many runs each side needs, so that one order of them is rare enough."""
    n = 2
    while 1 / comb(2 * n, n) > alpha:
        n += 1
    return n


def say_row(row: GateRow) -> str:
    """Return the change of a row and how sure it is: +19.6% (p 0.001)."""
    change = "no left cost" if row.change is None else percent(row.change, signed=True)
    return f"{change} (p {p_text(row.p)})" if row.p is not None else change


def say_verdict(gate: Gate) -> str:
    """Return one sentence: what is slower, or that nothing is, or that nobody can tell; and the whole program."""
    matters, n_rows = limit(gate.limits.fail_above), len(gate.rows)
    n_tested = sum(row.p is not None for row in gate.rows)
    slower, unclear, faster = (_of(gate.rows, verdict) for verdict in ("slower", "unclear", "faster"))
    if slower:
        said = f"slower: {_name(slower, say_row)}"
    elif gate.whole.verdict == "slower":
        said = "slower: the whole program, and no function that could be named"
    elif not n_tested or len(unclear) == n_rows:
        said = f"undecided: none of {n_rows} rows can be told to {matters}"
    elif unclear:
        said = (
            f"undecided: nothing is seen to be slower, and {len(unclear)} of {n_rows} rows cannot be told to {matters}"
        )
    else:
        said = f"not slower: a change of {matters} would have been seen in {_count_tested(n_tested, n_rows)}"
    if faster:
        said += f"; faster: {_name(faster, say_row)}"
    return f"{said}; in all {say_row(gate.whole)}"


def _count_tested(n_tested: int, n_rows: int) -> str:
    return f"all {n_rows} rows" if n_tested == n_rows else f"the {n_tested} of {n_rows} rows that could be tested"


def say_power(gate: Gate) -> Iterator[str]:
    """Yield what the repetitions can tell, or why they cannot."""
    n_left, n_right = gate.sides.n_left, gate.sides.n_right
    if gate.is_tested:
        runs = f"{n_left} and {n_right} repetitions"
        yield ": ".join([runs, "; ".join(_say_detectable(gate))])
        if gate.limits.assume_noise is not None:
            yield "the noise was measured in these repetitions, so none is assumed"
        return
    if gate.is_assumed:
        what = "; ".join(_say_detectable(gate))
        noise = limit(gate.limits.assume_noise or 0)
        yield f"a noise of {noise} was assumed and not measured, for {_count(n_left, n_right)}: {what}"
        return
    yield _say_too_few(gate)


def _say_too_few(gate: Gate) -> str:
    n_left, n_right, alpha = gate.sides.n_left, gate.sides.n_right, gate.limits.alpha
    remedy = Parameter("assume_noise", 0.01)
    least = f"at least {least_repetitions(alpha)} repetitions of each side are needed (or "
    if n_left == n_right == 1:
        return compose_text("one run of each side says nothing about noise; ", least, remedy, ")")
    n_orders = count_orders(n_left, n_right)
    rarest = f"{n_orders} orders, none rarer than {limit(1 / n_orders)}"
    return compose_text(f"{_count(n_left, n_right)} cannot tell: {rarest}; ", least, remedy, ")")


def _count(n_left: int, n_right: int) -> str:
    return "one run of each side" if n_left == n_right == 1 else f"{n_left} and {n_right} repetitions"


def _say_detectable(gate: Gate) -> Iterator[str]:
    """Yield which change of the largest row would be seen, and which rows are too noisy for the limit."""
    tested = [row for row in gate.rows if row.detectable is not None]
    if not tested:
        yield "no row has a cost in every run"
        return
    largest = max(tested, key=lambda row: (row.left + row.right, row.path))
    yield f"changes above {percent(largest.detectable or 0)} of {largest.path} would be seen"
    if noisy := sorted((row for row in _of(tested, "unclear")), key=lambda row: -(row.left + row.right)):
        are = "1 row is" if len(noisy) == 1 else f"{len(noisy)} rows are"
        matters = limit(gate.limits.fail_above)
        yield f"{are} too noisy for {matters}: {_name(noisy, lambda row: f'(needs {row.needs} repetitions)')}"


def say_untested(gate: Gate) -> Iterator[str]:
    """Yield the rows that have no cost on a side or in some runs."""
    n_runs = gate.sides.n_left + gate.sides.n_right
    for verdict, where in (("new", "left"), ("gone", "right")):
        if rows := _of(gate.rows, verdict):
            yield f"not tested, as no run on the {where} has a cost of it: {_name(rows, _say_kind)}"
    if partly := [row for row in gate.rows if row.not_reached]:
        text = _name(partly, lambda row: f"({row.not_reached} of {n_runs})")
        yield f"not tested, as some runs have no cost of it: {text}"


def _say_kind(row: GateRow) -> str:
    return f"({row.verdict})"


def _of(rows: Sequence[GateRow], verdict: str) -> list[GateRow]:
    return [row for row in rows if row.verdict == verdict]


def _name(rows: Sequence[GateRow], say: Callable[[GateRow], str]) -> str:
    """Return the first rows by name, each with what is said of it."""
    named = [f"{row.path} {say(row)}" for row in rows[:MOST_NAMED]]
    return ", ".join(named) + (f" and {len(rows) - MOST_NAMED} more" if len(rows) > MOST_NAMED else "")
