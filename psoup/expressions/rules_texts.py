"""The typing rules of functions of text; see `rules`.

    x LIKE 'a%'   ->   like(x, 'a%')        regexp_matches(x, 'a|b', 'i')   ->   the pattern is read, and must be sound

Patterns of regular expressions are constants: a pattern from a column would be compiled for each value.
"""

from __future__ import annotations

from collections.abc import Sequence

from psoup.errors import InvalidInput
from psoup.expressions.conversion import as_text, is_null_literal, is_text_literal, mismatch, need
from psoup.expressions.rules import Rule
from psoup.expressions.texts.like import MOST_TOKENS, tokenize, too_long
from psoup.expressions.texts.regex import OPTIONS, check_replacement, regex_of
from psoup.expressions.tree import Call, Expr, Literal
from psoup.model import BIGINT, BOOLEAN, TEXT, DataType

_SPACES = " ,\t\n"
"""Characters that may stand between the letters of options."""


def texts(name: str, args: Sequence[Expr]) -> Expr:
    """Type functions from TEXT to TEXT, such as lower, upper and replace."""
    return Call(TEXT, name, tuple(need(arg, TEXT, name) for arg in args))


def trimming(name: str, args: Sequence[Expr]) -> Expr:
    """Type trim, ltrim and rtrim(text [, characters]). The characters must be a constant."""
    if len(args) == 2 and not isinstance(args[1], Literal):
        raise mismatch(f"the characters of {name} must be a constant")
    return texts(name, args)


def text_test(name: str, args: Sequence[Expr]) -> Expr:
    """Type functions from TEXT to BOOLEAN, such as starts_with and contains."""
    return Call(BOOLEAN, name, tuple(need(arg, TEXT, name) for arg in args))


def text_length(name: str, args: Sequence[Expr]) -> Expr:
    """Type length and the other functions from TEXT to BIGINT."""
    return Call(BIGINT, name, (need(args[0], TEXT, name),))


def slicing(name: str, args: Sequence[Expr]) -> Expr:
    """Type substr(text, start [, length])."""
    return Call(TEXT, name, (need(args[0], TEXT, name), *(need(arg, BIGINT, name) for arg in args[1:])))


def taking(result: DataType, *wanted: DataType) -> Rule:
    """The rule of a function that takes exactly the types `wanted`, and returns the type `result`."""

    def rule(name: str, args: Sequence[Expr]) -> Expr:
        return Call(result, name, tuple(need(arg, kind, name) for arg, kind in zip(args, wanted, strict=True)))

    return rule


def joining_with(name: str, args: Sequence[Expr]) -> Expr:
    """Type concat_ws(separator, ...). All arguments are cast to TEXT."""
    return Call(TEXT, name, (need(args[0], TEXT, f"the separator of {name}"), *map(as_text, args[1:])))


def joining(name: str, args: Sequence[Expr]) -> Expr:
    """Type concat and ||. All arguments are cast to TEXT."""
    return Call(TEXT, name, tuple(as_text(arg) for arg in args))


def like(name: str, args: Sequence[Expr]) -> Expr:
    """Type x LIKE pattern [ESCAPE e]. The escape e is a constant: empty, or one ASCII character."""
    call = Call(BOOLEAN, name, tuple(need(arg, TEXT, "LIKE") for arg in args))
    escape = ""
    if len(args) == 3:
        constant = call.args[2]
        if not isinstance(constant, Literal):
            raise InvalidInput("ESCAPE must be a constant")
        if constant.value is None:
            return Literal(BOOLEAN, None)
        escape = str(constant.value)
        if len(escape.encode()) > 1:
            raise InvalidInput(f"ESCAPE {escape!r} must be empty or one ASCII character")
    pattern = call.args[1]
    if isinstance(pattern, Literal) and pattern.value is not None:
        tokens = tokenize(str(pattern.value), escape)
        if tokens is None:
            raise InvalidInput(f"LIKE pattern {pattern.value!r} ends with its escape character; double it")
        if too_long(tokens):
            raise InvalidInput(f"a LIKE pattern with wildcards inside has at most {MOST_TOKENS} characters")
    return call


def matching(name: str, args: Sequence[Expr]) -> Expr:
    """Type regexp_matches and regexp_full_match(text, pattern [, options])."""
    pattern, options = _pattern(name, args[1]), _options(name, args[2:])
    if pattern.value is not None:
        regex_of(str(pattern.value), options)
    return Call(BOOLEAN, name, (need(args[0], TEXT, name), pattern, *_given(options)))


def extracting(name: str, args: Sequence[Expr]) -> Expr:
    """Type regexp_extract(text, pattern [, group] [, options]). The group is a constant from 0 to 9."""
    pattern, rest = _pattern(name, args[1]), list(args[2:])
    group: Expr = Literal(BIGINT, 0)
    if rest and (len(rest) == 2 or not is_text_literal(rest[0])):
        group = need(rest.pop(0), BIGINT, f"the group of {name}")
    if not isinstance(group, Literal):
        raise mismatch(f"the group of {name} must be a constant")
    if group.value is not None and not 0 <= int(group.value) <= 9:
        raise InvalidInput(f"the group of {name} is from 0 to 9, not {group.value}", reason="INVALID_VALUE")
    options = _options(name, rest)
    if pattern.value is not None:
        regex_of(str(pattern.value), options)
    return Call(TEXT, name, (need(args[0], TEXT, name), pattern, group, *_given(options)))


def replacing(name: str, args: Sequence[Expr]) -> Expr:
    """Type regexp_replace(text, pattern, replacement [, options])."""
    pattern, new, options = _pattern(name, args[1]), need(args[2], TEXT, name), _options(name, args[3:])
    if not isinstance(new, Literal):
        raise mismatch(f"the replacement of {name} must be a constant")
    if pattern.value is not None:
        regex = regex_of(str(pattern.value), options)
        if new.value is not None:
            check_replacement(regex, str(new.value))
    return Call(TEXT, name, (need(args[0], TEXT, name), pattern, new, *_given(options)))


def _pattern(name: str, arg: Expr) -> Literal:
    """The pattern, which must be a constant."""
    pattern = need(arg, TEXT, f"the pattern of {name}")
    if not isinstance(pattern, Literal):
        raise mismatch(f"the pattern of {name} must be a constant; contains, LIKE and starts_with take a column")
    return pattern


def _options(name: str, args: Sequence[Expr]) -> str:
    """The letters of the options. They are one optional argument, which must be a constant."""
    if not args:
        return ""
    if not is_text_literal(args[0]):
        if is_null_literal(args[0]):
            raise InvalidInput(f"the options of {name} must not be NULL", reason="INVALID_VALUE")
        raise mismatch(f"the options of {name} must be a constant, such as 'i'")
    assert isinstance(args[0], Literal)
    options = "".join(letter for letter in str(args[0].value) if letter not in _SPACES)
    for letter in options:
        if letter not in OPTIONS:
            raise InvalidInput(
                f"{name} has no option {letter!r}; its options are {', '.join(OPTIONS)}", reason="INVALID_VALUE"
            )
        if letter == "g" and name != "regexp_replace":
            raise InvalidInput(
                f"the option 'g' (replace all) is for regexp_replace, not for {name}", reason="INVALID_VALUE"
            )
    return options


def _given(options: str) -> tuple[Expr, ...]:
    return (Literal(TEXT, options),) if options else ()
