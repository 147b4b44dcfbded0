"""`callgrove completion`: what a shell asks when somebody presses Tab.

The script of a shell asks `callgrove completion --words N WORD...`, which answers from the parsers of the verbs
themselves, so that nothing is written down twice: verbs, options, choices, formats; after an input, its metrics. The
first line of the answer says whether names of files fit as well.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from callgrove.cli.parser import Command, Parser
from callgrove.errors import CallgroveError, UsageError

FILES, WORDS = "files", "words"
METRIC_SEC = 2  # an input that takes longer to open has no metrics to offer
TAKES_FILES = ("PATH", "FILE", "OUT", "RUN", "TARGET", "FOLDER")

BASH = r"""# callgrove: completion for bash. In ~/.bashrc:  eval "$(callgrove completion bash)"
_callgrove() {
    local cur="${COMP_WORDS[COMP_CWORD]}" answer word
    [ "$cur" = "=" ] && cur=""
    COMPREPLY=()
    mapfile -t answer < <(callgrove completion --words "$COMP_CWORD" -- "${COMP_WORDS[@]}" 2>/dev/null)
    for word in "${answer[@]:1}"; do
        printf -v word '%q' "$word"
        COMPREPLY+=("$word")
    done
    if [ "${answer[0]}" = files ]; then
        compopt -o filenames 2>/dev/null
        while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$cur")
    fi
}
complete -F _callgrove callgrove
"""

ZSH = r"""#compdef callgrove
# callgrove: completion for zsh. In ~/.zshrc, after compinit:  eval "$(callgrove completion zsh)"
_callgrove() {
    local -a answer
    local nothing=1
    answer=("${(@f)$(callgrove completion --words "$((CURRENT - 1))" -- "${words[@]}" 2>/dev/null)}")
    (( ${#answer} > 1 )) && compadd -- "${(@)answer[2,-1]}" && nothing=0
    [[ "${answer[1]}" == files ]] && _files && nothing=0
    return nothing
}
if [[ "${funcstack[1]}" == _callgrove ]]; then
    _callgrove "$@"  # loaded from a folder of $fpath, by the first Tab
else
    compdef _callgrove callgrove
fi
"""

FISH = r"""# callgrove: completion for fish. In ~/.config/fish/config.fish:  callgrove completion fish | source
function __callgrove_answer
    set -l words (commandline -opc) (commandline -ct)
    set -l answer (callgrove completion --words (math (count $words) - 1) -- $words 2>/dev/null)
    test (count $answer) -gt 1; and printf '%s\n' $answer[2..-1]
    test "$answer[1]" = files; and __fish_complete_path (commandline -ct)
end
complete -c callgrove -f -a '(__callgrove_answer)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


@dataclass(frozen=True, kw_only=True)
class Options:
    typed: Sequence[str]
    words: int | None
    metrics: str | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("typed", nargs="*", metavar="SHELL", help="bash, zsh or fish")
    parser.add_argument("--words", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--metrics", metavar="PATH", help=argparse.SUPPRESS)


def _write_harmless(lines: Iterable[str]) -> None:
    """Write lines for a shell, which shows them as they are: those with escape sequences are left out."""
    sys.stdout.writelines(f"{line}\n" for line in lines if line.replace("\t", "").isprintable())


def run(options: Options) -> int:
    if options.metrics is not None:
        _write_harmless(find_metrics(options.metrics))
    elif options.words is not None:
        _write_harmless(answer(options.typed, options.words))
    elif len(options.typed) == 1 and options.typed[0] in SCRIPTS:
        sys.stdout.write(SCRIPTS[options.typed[0]])
    else:
        raise UsageError(f"name one shell: {', '.join(SCRIPTS)}; see 'callgrove completion --help'")
    return 0


# -- what may come next ------------------------------------------------------------------------------------------------


def answer(words: Sequence[str], place: int) -> list[str]:
    """Return whether files fit, then the words that may stand at a place of a command line."""
    typed = [*words, ""][: place + 1]
    prefix = "" if typed[-1] == "=" else typed[-1]
    with_files, candidates = _propose(typed[1:-1], typed[-1])
    fitting = [word for word in dict.fromkeys(candidates) if word.startswith(prefix)]
    return [FILES if with_files else WORDS, *fitting]


def _propose(before: Sequence[str], prefix: str) -> tuple[bool, Iterable[str]]:
    from callgrove.cli.main import VERBS, load_command

    given = [word for word in before if word != "--debug"]
    verbs = {verb.name: verb for verb in VERBS}
    if not given:
        return not prefix.startswith("-"), [*verbs, "--help", "--version"] if prefix[:1] == "-" else verbs
    if given[0] == "completion" and not prefix.startswith("-"):
        return False, SCRIPTS
    if given[0] == "help" and not prefix.startswith("-") and given[-1] != "--man":
        from callgrove.cli.help import list_topics

        return False, list_topics()
    verb = verbs.get(given[0], verbs["info"])
    parser = Parser(f"callgrove {verb.name}")
    load_command(verb).add_arguments(parser)
    rest = given[1:] if given[0] in verbs else given
    option = _find_option(parser, rest)
    if option is not None:
        return _propose_values(option, rest)
    if prefix.startswith("-"):
        return False, _list_options(parser)
    return _propose_positional(parser)


def _find_option(parser: Parser, before: Sequence[str]) -> argparse.Action | None:
    """Return the option whose value is typed. Shells may take `--by=line` for three words."""
    words = [word for word in before if word != "="]
    name = words[-1] if words else ""
    action = parser._option_string_actions.get(name)
    if action is None and len(words) > 1:  # the second of two values
        action = parser._option_string_actions.get(words[-2])
        return action if action is not None and action.nargs == 2 else None
    return action if action is not None and action.nargs != 0 else None


def _list_options(parser: Parser) -> Iterator[str]:
    for action in parser._actions:
        if action.help != argparse.SUPPRESS:
            yield from action.option_strings


def _propose_values(option: argparse.Action, words: Sequence[str]) -> tuple[bool, Iterable[str]]:
    if option.choices is not None:
        return False, map(str, option.choices)
    if option.metavar == "FORMAT":
        return False, _list_formats(writing="--to" in option.option_strings)
    if option.dest == "metric":
        paths = [word for word in words if not word.startswith("-") and os.path.lexists(word)]
        return False, find_metrics(paths[0]) if paths else ()
    names = option.metavar if isinstance(option.metavar, tuple) else (option.metavar or "",)
    return any(name in TAKES_FILES for name in names), ()


def _propose_positional(parser: Parser) -> tuple[bool, Iterable[str]]:
    actions = [action for action in parser._get_positional_actions() if action.help != argparse.SUPPRESS]
    choices = [str(choice) for action in actions for choice in action.choices or ()]
    return len(actions) > 0 and not choices, choices


def _list_formats(*, writing: bool) -> list[str]:
    from callgrove.formats.registry import FORMATS

    return [entry.name for entry in FORMATS if (entry.writes if writing else entry.reads)]


# -- metrics of an input -----------------------------------------------------------------------------------------------


class _TooLong(Exception):
    """Nobody waits longer for an answer to Tab."""


@contextmanager
def _within(seconds: int) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def find_metrics(path: str) -> list[str]:
    """Return the metrics of an input; none where it cannot be opened, or not at once."""
    from callgrove.formats.interface import ReadOptions
    from callgrove.formats.registry import open_paths
    from callgrove.model.experiment import Experiment

    try:
        with _within(METRIC_SEC):
            opened = open_paths([path], "", ReadOptions())
    except (CallgroveError, OSError, _TooLong):
        return []
    return list(opened.metrics.quantities) if isinstance(opened, Experiment) else list(opened.metrics)


COMPLETION = Command(Options, add_arguments, run)
