"""argparse with one sentence per error, the nearest valid option, arguments in any order, and examples in `--help`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from callgrove.errors import UsageError

__all__ = ["EXAMPLES", "Command", "JoinValues", "Parser", "RefuseOption", "did_you_mean"]


T = TypeVar("T")


class Command(NamedTuple, Generic[T]):
    """What a verb is: a dataclass of options, the arguments that they are made of, and what is done with them. `run`
    gives the exit code."""

    options: type[T]
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[T], int]

    @property
    def flags(self) -> frozenset[str]:
        """The options that it takes, as they are typed."""
        parser = Parser("")
        self.add_arguments(parser)
        actions = (action for action in parser._actions if not isinstance(action, RefuseOption))
        return frozenset(flag for action in actions for flag in action.option_strings)


# Options that choose a part of an experiment, which some verbs do not take: docs/selecting.md has the table.
SELECTING = {
    f"--{word}"
    for word in (
        *("rank", "thread", "node", "gpu", "device", "stream", "window", "name", "file", "module", "kind"),
        *("under", "callers-of", "query", "exclude", "prune", "fold", "leaf", "rest"),
    )
}
PLAIN = "\0"  # no argument of a program can have one


class Parser(argparse.ArgumentParser):
    def __init__(self, prog: str, description: str | None = None, examples: Sequence[str] = ()) -> None:
        super().__init__(
            prog,
            description=description,
            epilog="\n".join(["examples:", *(f"  {example}" for example in examples)]) if examples else None,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.add_argument("--debug", action="store_true", help="show a traceback when something fails")

    def read(self, arguments: Sequence[str], options: type[T]) -> T:
        """Read options and positional arguments in any order into a dataclass, whose fields are called as they are."""
        self.complete_usage()
        namespace, unknown = self.parse_known_intermixed_args(_mark_plain_words(arguments))
        if unknown:
            self._refuse_selection(unknown[0].partition("=")[0])
            self.error(f"unknown argument {unknown[0]!r}{self._suggestion(unknown[0])}")
        return options(**{name: _unmark(value) for name, value in vars(namespace).items() if name != "debug"})

    def complete_usage(self) -> None:
        """Make the usage line of the arguments, where the verb has none of its own."""
        self.usage = self.usage or " ".join([self.prog, "[options]", *self._list_required_arguments()])

    def _list_required_arguments(self) -> list[str]:
        """Return the arguments that the usage line names; the help lists options one by one, in groups."""
        options = [a for a in self._actions if a.option_strings and a.required]
        needed = [f"{action.option_strings[0]} {action.metavar or action.dest.upper()}" for action in options]
        for action in self._get_positional_actions():
            several = {"?": "[{0}]", "*": "[{0} ...]", "+": "{0} [{0} ...]"}.get(str(action.nargs), "{0}")
            needed.append(several.format(action.metavar or action.dest.upper()))
        return needed

    def error(self, message: str) -> NoReturn:
        missing = message.removeprefix("the following arguments are required: ")
        if missing != message:
            message = f"{missing} {'are' if ', ' in missing else 'is'} missing"
        raise UsageError(f"{message}; see '{self.prog} --help'")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse what is none of the choices, and name the nearest one."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            near = did_you_mean(str(value), map(str, action.choices or ()))
            raise argparse.ArgumentError(action, f"{error.message}{near}") from None

    def _refuse_selection(self, option: str) -> None:
        """Refuse an option that other verbs take, with what to do instead."""
        if option in SELECTING:
            instead = f"`callgrove convert PATH PART {option} ...` writes the part that it can read"
            raise UsageError(f"'{self.prog}' takes whole experiments, so it has no {option}; {instead}")
        if option == "--where":
            raise UsageError(f"'{self.prog}' prints no table whose rows --where could choose; see '{self.prog} --help'")

    def _suggestion(self, unknown: str) -> str:
        if unknown[0] == "-" and os.path.lexists(unknown):
            return f" (the file of that name is ./{unknown})"
        if unknown[0] != "-":
            return ""
        options = {option.lstrip("-"): option for option in self._option_string_actions}
        return did_you_mean(unknown.partition("=")[0].lstrip("-"), options, shown=options.__getitem__)


class JoinValues(argparse.Action):
    """Store what an option gives, joined by `|` with what the same option gave before."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, values if before is None else before | values)


class RefuseOption(argparse.Action):
    """Refuses an option that another tool has; `const` says what to use instead. The help does not list it."""

    def __init__(self, option_strings: Sequence[str], dest: str, **about: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, **{**about, "default": argparse.SUPPRESS})
        self.help = argparse.SUPPRESS

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        raise UsageError(f"{option}: {self.const}")


def _mark_plain_words(arguments: Sequence[str]) -> list[str]:
    """Mark the words after `--`, which are not options whatever they look like; argparse forgets that where arguments
    are intermixed."""
    if "--" not in arguments:
        return list(arguments)
    end = list(arguments).index("--")
    return [*arguments[:end], *(f"{PLAIN}{word}" for word in arguments[end + 1 :])]


def _unmark(value: object) -> object:
    if isinstance(value, str):
        return value.removeprefix(PLAIN) if value.startswith(PLAIN) else value  # a default stays what it is
    return [_unmark(one) for one in value] if isinstance(value, list) else value


def did_you_mean(word: str, choices: Iterable[str], *, shown: Callable[[str], str] = str) -> str:
    """Return ` (did you mean 'top'?)`, or nothing where no choice is near; `shown` spells a choice."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(choices), n=1, cutoff=0.55)
    return f" (did you mean {shown(near[0])!r}?)" if near else ""


# What one may type, verb by verb: the end of each `--help`. Names are those that `callgrove demo --keep .` leaves.


EXAMPLES: dict[str, tuple[str, ...]] = {
    "info": ("callgrove stencil.d", "callgrove info stencil.d --metrics"),
    "formats": ("callgrove formats --format csv",),
    "top": (
        "callgrove top stencil.d --by line --limit 5",
        "callgrove top stencil.d -m cycles --rank 0-1",
        "callgrove top stencil.d --by rank",
        "callgrove top stencil.d --by function --columns rank",
        "callgrove top stencil.d --derive 'ghz = cycles / CPUTIME / 1e9'  # a further column",
    ),
    "tree": (
        "callgrove tree stencil.d --rank 3",
        "callgrove tree stencil.d --bottom-up --limit 8",
        "callgrove tree stencil.d --metrics --remap",
        "callgrove tree stencil.d -o flame.svg  # a flame graph",
    ),
    "hot": ("callgrove hot stencil.d", "callgrove hot train.db --share 0.3"),
    "imbalance": (
        "callgrove imbalance stencil.d",
        "callgrove imbalance stencil.d --over thread --by context --scope inclusive",
        "callgrove imbalance stencil.d -m 'ghz = cycles / CPUTIME / 1e9'  # of each rank",
    ),
    "explain": ("callgrove explain stencil.d", "callgrove explain train.db --format markdown"),
    "why": ("callgrove why before.d after.d", "callgrove why before.d after.d -m CPUTIME --format json"),
    "explore": (
        "callgrove explore stencil.d  # ? shows the keys, q ends",
        "callgrove explore before.d after.d -m CPUTIME  # left, right and their difference",
    ),
    "view": (
        "callgrove view stencil.d  # opens a browser where there is a screen, and prints the address",
        "callgrove view before.d after.d --port 8123 --no-browser  # side by side, on a login node",
    ),
    "diff": (
        "callgrove diff before.d after.d --limit 10",
        "callgrove diff run.cubex run.d --flat -m time=CPUTIME  # of two profilers, by function",
        "callgrove diff p64.d p128.d --scaling strong --scope inclusive --sort loss",
        "callgrove diff before.d after.d --write change.d  # an experiment of the differences",
        "callgrove diff before.d after.d --report change.html  # a page with both sides",
        "callgrove diff --left old1.d old2.d ... --right new1.d new2.d ... --fail-above 3%  # in CI: exit code 5",
    ),
    "model": (
        "callgrove model scaling.txt",
        "callgrove model runs -m time  # a folder of runs: runs/app.p4.n100.r1, ...",
        "callgrove model --point p=4 a.d --point p=8 b.d --scaling strong",
    ),
    "predict": ("callgrove predict scaling.txt --at p=4096,n=500",),
    "advise": (
        "callgrove advise scaling.txt --budget 2",
        "callgrove advise runs --at p=4096  # a folder of runs: runs/app.p4.n100.r1, ...",
    ),
    "pop": (
        "callgrove pop stencil.d",
        "callgrove pop stencil.d --under solve --format latex",
        "callgrove pop before.d after.d --scaling weak  # the first is the reference",
    ),
    "summary": (
        "callgrove summary train.db --section kernels --by rank",
        "callgrove summary train.db --start 10% --end 60% --format csv -o window.csv",
    ),
    "timeline": (
        "callgrove timeline stencil.d --window 10%:20%",
        "callgrove timeline stencil.d --by rank --by class",
        "callgrove timeline train.db --kind marker --exclusive -o train.svg",
        "callgrove timeline stencil.d --phases --rank 0 --thread 0",
    ),
    "report": ("callgrove report stencil.d -o stencil.html", "callgrove report stencil.d train.db -o both.html"),
    "watch": (
        "callgrove watch hpctoolkit-app-measurements",
        "callgrove watch results --every 10s --until-quiet 1m --format json",
    ),
    "mcp": ("callgrove mcp runs/  # an assistant starts it; it reads nothing outside of runs/",),
    "export": (
        "callgrove export stencil.d --table values --scope exclusive -o values.csv",
        "callgrove export train.db --table spans --format jsonl",
    ),
    "sql": (
        "callgrove sql train.db --tables",
        'callgrove sql train.db "SELECT name, count(*) AS n FROM kernels GROUP BY name"',
    ),
    "anonymize": (
        "callgrove anonymize stencil.d stencil-anonymous.d",
        "callgrove anonymize train.db anonymous.db --map names.json  # what was replaced, for you alone",
    ),
    "convert": (
        "callgrove convert stencil.d stencil.cubex  # the ending chooses the format",
        "callgrove convert stencil.d part.d --rank 0-1 --window 10%:20%",
        "callgrove convert train.db train.pftrace  # a trace for Perfetto",
        "callgrove convert stencil.d stencil.folded  # stacks for flamegraph.pl",
    ),
    "prof": ("callgrove prof hpctoolkit-app-measurements app.d",),
    "merge": ("callgrove merge low.d high.d whole.d", "callgrove merge a.d b.d runs.d --system side-by-side"),
    "mean": ("callgrove mean first.d second.d third.d mean.d",),
    "cut": (
        "callgrove cut stencil.d solve.d --root 'main->solve'",
        "callgrove cut stencil.d short.d --prune '/^MPI_/'",
    ),
    "part": ("callgrove part stencil.d first.d --rank 0-1",),
    "remap": (
        "callgrove remap run.cubex remapped.cubex --evaluate",
        "callgrove remap stencil.d stencil.cubex  # classified by the names of functions and libraries",
    ),
    "common": ("callgrove common before.d after.d both.d",),
    "rocpd": (
        "callgrove rocpd convert -i train.db -f pftrace csv -d traces -o run",
        "callgrove rocpd summary -i train.db --domain-summary",
        'callgrove rocpd query -i train.db --query "SELECT * FROM top_kernels LIMIT 5"',
    ),
    "dump": ("callgrove dump stencil.d --section ProfileInfos", "callgrove dump stencil.m --tree"),
    "check": (
        "callgrove check stencil.d",
        "callgrove check stencil.d --record stencil.json  # digests, for --against later",
    ),
    "completion": ("callgrove completion bash  # its first line says where it goes",),
    "demo": ("callgrove demo --keep .",),
    "help": (
        "callgrove help",
        "callgrove help selecting",
        "callgrove help 'folders of runs'  # a part of a page",
        "callgrove help --man man1  # manual pages, for man",
    ),
}
