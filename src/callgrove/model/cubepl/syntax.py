"""From the text of a CubePL formula to its tree.

    expr       = add ; add = mul { (+|-) mul } ; mul = pow { (*|/) pow } ; pow = ["-"] atom { "^" atom }
    atom       = number | string | var | "(" expr ")" | "|" expr "|" | function "(" args ")" | reference | block
    var        = "${" name "}" [ "[" expr "]" ]
    reference  = "metric::" [ "fixed::" | "context::" | "call::" ] NAME "(" modifiers ")"
    block      = "{" { statement ";" } "return" expr ";" "}"
    statement  = var "=" expr | "if" "(" cond ")" body { "elseif" "(" cond ")" body } [ "else" body ]
               | "while" "(" cond ")" body | "global" "(" NAME ")" | "local" "(" NAME ")"
               | "cube::metric::set::" NAME "(" string "," string ")"
    body       = "{" { statement ";" } "}"
    cond       = bterm { ("and"|"or") bterm }
    bterm      = "not" "(" cond ")" | "(" cond ")" | "true" | "false" | expr cmp expr | expr "=~" "/" regex "/"

All operators bind to the left: 2^3^2 is 64. `and` and `or` bind equally, strictly from left to right. A condition is no
value: comparisons stand inside of `if` and `while` only. Sums and products are flat however long they are, so the depth
of a tree is that of its brackets, of which there are at most MAX_DEPTH.

What a bracket holds, a condition or a value, is known when it is read: nothing is read twice.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from callgrove.model.cubepl.nodes import (
    Assignment,
    Block,
    Branch,
    Call,
    Chain,
    Comparison,
    Condition,
    CubePlError,
    Declaration,
    If,
    Match,
    Negative,
    Node,
    Not,
    Number,
    Power,
    Product,
    Reference,
    Setting,
    Sum,
    Text,
    Truth,
    Variable,
    While,
    children,
)
from callgrove.model.cubepl.patterns import Pattern, PatternError

__all__ = ["FUNCTIONS", "MAX_DEPTH", "MAX_TEXT", "parse"]

MAX_DEPTH = 200  # open brackets, and levels of a tree
MAX_TEXT = 1 << 20  # characters
MAX_PATTERNS = 1 << 20  # states of all regular expressions
FUNCTIONS = {
    **dict.fromkeys(("sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "exp", "log", "abs", "sgn", "pos", "neg"), 1),
    **dict.fromkeys(("floor", "ceil", "random", "lowercase", "uppercase"), 1),
    **dict.fromkeys(("min", "max"), 2),
}
OF_NAMES = ("defined", "sizeof", "env")  # functions whose argument is a name
COMPARISONS = ("==", "!=", "<=", ">=", "<", ">", "eq", "seq")
FORMS = ("fixed", "context", "call")
MODIFIERS = ("i", "e", "*")
BRACKETS = {"(": ")", "|": "|", "{": "}"}


# -- from text to a tree -----------------------------------------------------------------------------------------------


SPACE = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+)*+")
TOKEN = re.compile(
    r"""(?P<number>[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)
    |(?P<text>"[^"]*+"|'[^']*+')
    |\$\{(?P<variable>[^}{\s]++)\}
    |metric::(?P<metric>[^\s(){}\[\];,"|/*^]++)
    |cube::metric::set::(?P<set>[^\s(){}\[\];,"|/*^]++)
    |(?P<word>[A-Za-z_][A-Za-z0-9_:]*+)
    |(?P<sign>==|!=|<=|>=|=~|[-+*/^()\[\]{}|;,=<>])""",
    re.VERBOSE,
)
NAME = re.compile(r'[^\s(){}\[\];,"$]++')
REGEX = re.compile(r"\s*+/([^/\n]*+)/")


def parse(text: str, words: Collection[str] = ()) -> Node:
    """Return the tree of a formula, in which `words` are variables too. Raises CubePlError where it is none."""
    if len(text) > MAX_TEXT:
        raise CubePlError(0, f"the text has {len(text):,} characters, and at most {MAX_TEXT:,} are read")
    return _Parser(text, words).run()


class _Parser:
    """One pass over the text, with the token in hand."""

    def __init__(self, text: str, words: Collection[str]) -> None:
        self.source, self.words = text, words
        self.depth, self.pattern_size = 0, 0
        self.kind, self.word, self.at, self.end = "", "", 0, 0
        self.advance()

    def run(self) -> Node:
        tree = value_of(self.expression())
        if self.kind != "end":
            raise self.error("an operator or the end")
        _check_depth(tree)
        return tree

    # -- tokens ------------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Take the next token into hand."""
        space = SPACE.match(self.source, self.end)
        assert space is not None
        self.at = space.end()
        token = TOKEN.match(self.source, self.at)
        if token is None:
            at_end = self.at >= len(self.source)
            self.kind, self.word = ("end", "") if at_end else ("other", self.source[self.at])
            self.end = self.at + (not at_end)
            return
        self.kind = token.lastgroup or "other"
        self.word, self.end = token[self.kind], token.end()

    def error(self, expected: str) -> CubePlError:
        found = "the end" if self.kind == "end" else repr(self.source[self.at : self.end][:40])
        return CubePlError(self.at, f"expected {expected}, found {found}")

    def accept(self, *words: str) -> str:
        """Take a sign or a word if it is one of these; return it, or an empty text."""
        if self.kind in ("sign", "word") and self.word in words:
            taken = self.word
            self.advance()
            return taken
        return ""

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.error(f"'{word}'")

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise CubePlError(self.at, f"brackets are nested more than {MAX_DEPTH} deep")

    def name(self) -> str:
        """Take a name in brackets."""
        if not (self.kind == "sign" and self.word == "("):
            raise self.error("'('")
        space = SPACE.match(self.source, self.end)
        assert space is not None
        found = NAME.match(self.source, space.end())
        if found is None:
            self.advance()
            raise self.error("a name")
        self.end = found.end()
        self.advance()
        self.expect(")")
        return found[0]

    # -- values ------------------------------------------------------------------------------------------------------

    # Every bracket costs three levels of Python's own stack, of which there are a thousand.

    def expression(self) -> Node:
        """Take a sum of products of powers, or a condition in brackets alone."""
        start = self.at
        terms: list[tuple[str, Node]] = []
        factors: list[tuple[str, Node]] = []
        sign, operator = "+", "*"
        while True:
            at = self.at
            is_negative = bool(self.accept("-"))
            node = self.atom()
            exponents = []
            while self.accept("^"):
                exponents.append(self.atom())
            if isinstance(node, Condition) and not (is_negative or exponents or factors or terms):
                return node
            if exponents:
                node = Power(at, value_of(node), tuple(map(value_of, exponents)))
            factors.append((operator, Negative(at, value_of(node)) if is_negative else value_of(node)))
            if operator := self.accept("*", "/"):
                continue
            first = factors[0][1]
            terms.append((sign, first if len(factors) == 1 else Product(first.at, tuple(factors))))
            factors, operator = [], "*"
            if not (sign := self.accept("+", "-")):
                return terms[0][1] if len(terms) == 1 else Sum(start, tuple(terms))

    def atom(self) -> Node:
        at, kind, word = self.at, self.kind, self.word
        if kind == "sign" and word in BRACKETS:
            self.deeper()
            self.advance()
            node = self.block(at) if word == "{" else self.condition()
            self.expect(BRACKETS[word])
            self.depth -= 1
            return Call(at, "abs", (value_of(node),)) if word == "|" else node
        if kind == "word":
            return self.call(at, word) if word in FUNCTIONS or word == "not" else self.parse_named(at, word)
        if kind == "variable":
            self.advance()
            return self.element(at, word)
        if kind == "metric":
            self.advance()
            return self.reference(at, word)
        if kind not in ("number", "text"):
            raise self.error("a value")
        self.advance()
        return Number(at, float(word)) if kind == "number" else Text(at, word[1:-1])

    def element(self, at: int, name: str) -> Variable:
        """Take the index of a variable, if it has one."""
        if not (self.kind == "sign" and self.word == "["):
            return Variable(at, name)
        self.deeper()
        self.advance()
        index = value_of(self.expression())
        self.expect("]")
        self.depth -= 1
        return Variable(at, name, index)

    def call(self, at: int, word: str) -> Node:
        """Take a function, or `not`, with its arguments."""
        self.deeper()
        self.advance()
        self.expect("(")
        args = [self.condition() if word == "not" else self.expression()]
        while self.accept(","):
            args.append(self.expression())
        self.expect(")")
        self.depth -= 1
        if word == "not":
            return Not(at, condition_of(args[0]))
        if len(args) != FUNCTIONS[word]:
            raise CubePlError(args[-1].at, f"{word} takes {FUNCTIONS[word]} arguments, not {len(args)}")
        return Call(at, word, tuple(map(value_of, args)))

    def parse_named(self, at: int, word: str) -> Node:
        """Take a word that is a value, a condition, or a function of a name."""
        if word not in (*OF_NAMES, *self.words, "true", "false"):
            raise CubePlError(at, f"there is no function or value {word[:40]!r}")
        self.advance()
        if word in OF_NAMES:
            where = self.at
            return Call(at, word, (Text(where, self.name()),))
        return Variable(at, word) if word in self.words else Truth(at, word == "true")

    def reference(self, at: int, name: str) -> Reference:
        """Take what stands in the brackets of a metric."""
        form, _, rest = name.partition("::")
        if form not in FORMS or not rest:
            form, rest = "", name
        self.expect("(")
        parts: list[Node] = []  # a call path, and a place of the system
        modifiers: list[str] = []
        self.deeper()
        if form == "call":
            parts.append(value_of(self.expression()))
            if self.accept(","):
                modifiers.append(self.modifier())
            if self.accept(","):
                parts.append(value_of(self.expression()))
                self.expect(",")
                modifiers.append(self.modifier())
        elif not (self.kind == "sign" and self.word == ")"):
            modifiers.append(self.modifier())
            if self.accept(","):
                modifiers.append(self.modifier())
        self.depth -= 1
        self.expect(")")
        return Reference(at, form, rest, tuple(modifiers), *parts)

    def modifier(self) -> str:
        if not (taken := self.accept(*MODIFIERS)):
            raise self.error("i, e or *")
        return taken

    # -- conditions --------------------------------------------------------------------------------------------------

    def condition(self) -> Node:
        """Take a condition, or a value where no comparison follows it."""
        at, word = self.at, ""
        parts: list[tuple[str, Node]] = []
        while True:
            parts.append((word, self.compare(self.expression())))
            if not (word := self.accept("and", "or")):
                break
        return parts[0][1] if len(parts) == 1 else Chain(at, tuple((word, condition_of(part)) for word, part in parts))

    def compare(self, left: Node) -> Node:
        """Take what a value is compared with, if anything."""
        if isinstance(left, Condition):
            return left
        if self.kind == "sign" and self.word == "=~":
            return self.match(left.at, left)
        operator = self.accept(*COMPARISONS)
        return Comparison(left.at, operator, left, value_of(self.expression())) if operator else left

    def match(self, at: int, text: Node) -> Match:
        regex = REGEX.match(self.source, self.end)
        if regex is None:
            self.advance()
            raise self.error("a regular expression between two '/'")
        self.end = regex.end()
        where = regex.start(1)
        try:
            pattern: Pattern | None = Pattern(regex[1])
            self.pattern_size += pattern.size if pattern is not None else 0
        except PatternError as error:
            if not error.is_broken:
                raise CubePlError(where, f"this regular expression is not supported: {error}") from None
            pattern = None
        if self.pattern_size > MAX_PATTERNS:
            raise CubePlError(where, "the regular expressions of this formula are too large")
        self.advance()
        return Match(at, text, pattern, regex[1])

    # -- statements --------------------------------------------------------------------------------------------------

    def block(self, at: int) -> Block:
        """Take statements and what they return, up to the bracket."""
        statements: list[Node] = []
        while not self.accept("return"):
            statements.append(self.statement())
            self.expect(";")
        result = value_of(self.expression())
        self.expect(";")
        return Block(at, tuple(statements), result)

    def body(self) -> tuple[Node, ...]:
        self.deeper()
        self.expect("{")
        statements: list[Node] = []
        while not self.accept("}"):
            if self.kind == "word" and self.word == "return":
                raise CubePlError(self.at, "return stands only at the end of a whole block")
            statements.append(self.statement())
            self.expect(";")
        self.depth -= 1
        return tuple(statements)

    def statement(self) -> Node:
        at, kind, word = self.at, self.kind, self.word
        if kind == "variable":
            self.advance()
            target = self.element(at, word)
            self.expect("=")
            return Assignment(at, target, value_of(self.expression()))
        if kind == "set":
            self.advance()
            return self.setting(at, word)
        if kind == "word" and word in ("global", "local"):
            self.advance()
            return Declaration(at, word, self.name())
        if self.accept("while"):
            return While(at, self.in_brackets(), self.body())
        if self.accept("if"):
            return self.choice(at)
        if kind == "word" and word.startswith("cube::metric::"):
            raise CubePlError(at, "metrics that are made inside of a formula are not supported")
        raise self.error("a statement")

    def choice(self, at: int) -> If:
        branches = [Branch(at, self.in_brackets(), self.body())]
        while True:
            where = self.at
            if self.accept("elseif"):
                branches.append(Branch(where, self.in_brackets(), self.body()))
                continue
            if self.accept("else"):
                branches.append(Branch(where, None, self.body()))
            return If(at, tuple(branches))

    def in_brackets(self) -> Node:
        self.expect("(")
        condition = condition_of(self.condition())
        self.expect(")")
        return condition

    def setting(self, at: int, metric: str) -> Setting:
        self.expect("(")
        words = [self.string()]
        self.expect(",")
        words.append(self.string())
        self.expect(")")
        return Setting(at, metric, *words)

    def string(self) -> str:
        if self.kind != "text":
            raise self.error("a text in quotes")
        word = self.word[1:-1]
        self.advance()
        return word


def value_of(node: Node) -> Node:
    """Return a node that must be a value."""
    if isinstance(node, Condition):
        raise CubePlError(node.at, "expected a value, found a condition, which only if and while can have")
    return node


def condition_of(node: Node) -> Node:
    """Return a node that must be a condition."""
    if not isinstance(node, Condition):
        raise CubePlError(node.at, "expected a condition, found a value")
    return node


def _check_depth(tree: Node) -> None:
    """Raise where a tree is too deep to be evaluated."""
    stack = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise CubePlError(node.at, f"the formula is nested more than {MAX_DEPTH} deep")
        stack += [(part, depth + 1) for part in children(node)]
