"""Takes a thread's id out of stored texts and JSON. An id may be any text, so whole words are replaced and never a part of one, and
where a word of ours may stand (a verdict, a code) only what is said to be a thread's."""

import re
from collections.abc import Callable, Mapping
from typing import Any

_OURS = re.compile(r"[a-z_]+")


def scrubbed(value: Any, changes: Mapping[str, str]) -> Any:
    """A text, or what JSON holds, with each old text replaced by the new one. Numbers stay, whatever an id looks like."""
    replace = _replacing(changes)
    return _walk(value, "", changes, replace)


def _walk(value: Any, key: str, changes: Mapping[str, str], replace: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return _text(value, key, changes, replace)
    if isinstance(value, list):
        return [_walk(each, key, changes, replace) for each in value]
    if isinstance(value, dict):
        return {_text(name, key, changes, replace): _walk(each, name, changes, replace) for name, each in value.items()}
    return value


def _text(value: str, key: str, changes: Mapping[str, str], replace: Callable[[str], str]) -> str:
    may_be_ours = _OURS.fullmatch(value) is not None and key != "" and "thread" not in key and key != "subject"
    return value if value in changes and may_be_ours else replace(value)


def _replacing(changes: Mapping[str, str]) -> Callable[[str], str]:
    """Longest first: the audit cuts long ids off."""
    words = "|".join(re.escape(old) for old in sorted(changes, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w-])(?:{words})(?![\w-])")
    return lambda text: pattern.sub(lambda found: changes[found[0]], text)
