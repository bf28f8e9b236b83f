"""Formats of numbers and names."""

from collections.abc import Iterable


def printable(text: str) -> str:
    """The text with every character that a terminal or browser could obey, or not show, as its escape.

    That covers line breaks, terminal escapes, direction overrides and lone surrogates.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def in_shares(shares: Iterable[float]) -> str:
    """Shares in 0..1 as `10, 50 %`."""
    return f"{', '.join(f'{100 * share:.3g}' for share in shares)} %"


def in_bytes(count: int) -> str:
    """A number of bytes in the largest binary unit that leaves at least one."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{count} B" if unit == "B" else f"{significant(size)} {unit}"
        size /= 1024
    return f"{significant(size)} GiB"


def significant(value: float) -> str:
    """Three significant digits, without an exponent for large values."""
    text = f"{value:.3g}"
    # By the rounded value: 999.6 becomes 1,000.
    return f"{value:,.0f}" if abs(float(text)) >= 1000 else text


def in_seconds(seconds: float) -> str:
    """A duration as `12.3 s`, `4 min 5 s` or `2 h 3 min`."""
    if seconds < 120:
        return f"{significant(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def listed(names: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 video`, `2 videos`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def sentence(text: str) -> str:
    """The text with a capital letter at its start."""
    return text[:1].upper() + text[1:]
