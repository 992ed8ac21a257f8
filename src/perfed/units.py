"""Bytes, seconds, rules and differences as people say them."""

MINUS = "−"
BYTES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def unit(most: float) -> tuple[int, str]:
    """Return size and name of the unit for numbers of bytes of which ``most`` is the largest."""
    return next(((size, name) for size, name in BYTES if most >= size), BYTES[-1])


def weighed(count: float) -> str:
    """Return a number of bytes as people say it."""
    size, name = unit(count)
    if count < size:
        return f"{count:.0f} B"
    return f"{count / size:.3g} {name}" if count < 999 * size else f"{count / size:,.0f} {name}"


def spoken(duration: float) -> str:
    """Return a duration in seconds as people say it."""
    for size, name in ((86400 * 365, "years"), (86400, "days"), (3600, "h"), (60, "min")):
        if duration >= size:
            return f"{duration / size:.1f} {name}" if duration < 10 * size else f"{duration / size:,.0f} {name}"
    return f"{duration:.0f} s"


def ruled(title: str, rule: str, usual: str) -> str:
    """Return a method's title with the rule by which it averages, unless that is the usual one."""
    same = rule == usual or {rule, usual} == {"mean", "weighted"}
    return title if same else f"{title} ({rule})"


def minus(number: float, digits: int) -> str:
    """Return ``0.31`` or ``−0.31``; what rounds to nothing has no minus."""
    return signed(number, digits).removeprefix("+")


def signed(number: float, digits: int) -> str:
    """Return ``+0.31`` or ``−0.31``; what rounds to nothing has no minus."""
    text = f"{abs(number):.{digits}f}"
    return f"{MINUS if number < 0 and float(text) else '+'}{text}"
