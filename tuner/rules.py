"""A small, safe expression language for a stage's `rules:` (`max-num-seqs <= max-num-batched-tokens`). Pure.

Comparisons (chains too), `+ - * / // %`, `and or not`, numbers, quoted text, `true`, `false`, and flags by name.
A name is the same with `-` and with `_`; a minus between two names needs spaces around it. Nothing is ever
handed to `eval`: Python's parser gives a tree, and a rule may hold only the few nodes listed here.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

MAX_LENGTH = 500
MAX_WORDS = 100


class RuleError(ValueError):
    """This text is not a rule; its text says why."""


@dataclass(frozen=True)
class Rule:
    """A rule read once. `names` holds the flags it speaks of as written, in order."""

    text: str
    names: tuple[str, ...]
    tree: ast.expr

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether `values` (by flag) satisfy the rule; what cannot be told (an unknown name, 1 / 0) holds."""
        known = {_plain(name): value for name, value in values.items()}
        return _value(self.tree, {f"n{i}": known.get(_plain(name)) for i, name in enumerate(self.names)}) is not False


@lru_cache(maxsize=512)
def rule(text: str) -> Rule:
    """Read a rule.

    Raises:
        RuleError: not an expression of this language, or a longer one than it takes.
    """
    if len(text) > MAX_LENGTH:
        raise RuleError(f"a rule has at most {MAX_LENGTH} characters")
    source, names = _tokens(text)
    try:
        tree = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise RuleError("is not an expression") from None
    _check(tree)
    if not isinstance(tree, (ast.Compare, ast.BoolOp, ast.Name)) and not _is_not(tree):
        raise RuleError("must be true or false, such as a comparison")
    return Rule(text, names, tree)


def holds(text: str, values: Mapping[str, Any]) -> bool:
    """Whether `values` (by flag, spelled with `-` or `_`) satisfy the rule; a name without a value holds it."""
    return rule(text).holds(values)


_TOKEN = re.compile(
    r"""\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
         |(?P<name>[A-Za-z_]\w*(?:-[A-Za-z_]\w*)*)
         |(?P<text>"[^"\\\n]*"|'[^'\\\n]*')
         |(?P<sign><=|>=|==|!=|//|[-+*/%<>()]))""",
    re.VERBOSE | re.ASCII,
)
_WORDS = {"and": "and", "or": "or", "not": "not", "true": "True", "false": "False"}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


def _tokens(text: str) -> tuple[str, tuple[str, ...]]:
    """The rule as Python source with every flag replaced by n0, n1, ...; and the flags in that order."""
    source, names, at, end = [], [], 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise RuleError(f"has something that rules do not know at {text[at:end].strip()[:20]!r}")
        at, token = found.end(), found.group().strip()
        if found.lastgroup == "name" and token not in _WORDS:
            names.append(token)
            token = f"n{len(names) - 1}"
        elif found.lastgroup == "number":
            token = _number(token)
        source.append(_WORDS.get(token, token))
    if len(source) > MAX_WORDS:
        raise RuleError(f"a rule has at most {MAX_WORDS} words and signs")
    return " ".join(source), tuple(names)


def _number(token: str) -> str:
    """`007` is not Python; a number of more than 18 digits is no flag's value."""
    if len(token) > 18:
        raise RuleError(f"has a number of more than 18 characters at {token[:20]!r}")
    return str(int(token)) if token.isdigit() else token


def _check(tree: ast.expr) -> None:
    """Raises RuleError for any node that is not of this language."""
    if isinstance(tree, (ast.Constant, ast.Name)):
        return
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, (ast.Not, ast.USub, ast.UAdd)):
        parts = [tree.operand]
    elif isinstance(tree, ast.BinOp) and type(tree.op) in _ARITHMETIC:
        parts = [tree.left, tree.right]
    elif isinstance(tree, ast.BoolOp):
        parts = tree.values
    elif isinstance(tree, ast.Compare) and all(type(op) in _COMPARE for op in tree.ops):
        parts = [tree.left, *tree.comparators]
    else:
        raise RuleError("is not made of comparisons, + - * / // %, and, or, not, names and numbers alone")
    for part in parts:
        _check(part)


def _is_not(tree: ast.expr) -> bool:
    return isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not)


def _value(tree: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of a checked tree; None is 'cannot be told' and spreads as it does in three-valued logic."""
    match tree:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return values.get(name)
        case ast.UnaryOp(op=op, operand=operand):
            return _unary(op, _value(operand, values))
        case ast.BoolOp(op=op, values=parts):
            return _logic(isinstance(op, ast.Or), [_value(part, values) for part in parts])
        case ast.BinOp(left=left, op=op, right=right):
            return _apply(_ARITHMETIC[type(op)], _value(left, values), _value(right, values), numbers=True)
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [_value(side, values) for side in (left, *others)]
            pairs = zip(ops, sides, sides[1:], strict=False)
            return _logic(False, [_apply(_COMPARE[type(op)], a, b) for op, a, b in pairs])
    return None


def _unary(op: ast.unaryop, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(op, ast.Not):
        return not value
    return _apply(operator.mul, -1 if isinstance(op, ast.USub) else 1, value, numbers=True)


def _logic(any_of: bool, parts: list[Any]) -> bool | None:
    """`or` / `and` over true, false and cannot-be-told."""
    told = [bool(part) for part in parts if part is not None]
    if any_of in told:
        return any_of
    return (not any_of) if len(told) == len(parts) else None


def _apply(function: Callable[[Any, Any], Any], a: Any, b: Any, numbers: bool = False) -> Any:
    if a is None or b is None or (numbers and not (isinstance(a, (int, float)) and isinstance(b, (int, float)))):
        return None
    try:
        return function(a, b)
    except (TypeError, ZeroDivisionError, OverflowError):
        return None


def _plain(name: str) -> str:
    return name.replace("-", "_")
