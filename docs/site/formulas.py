"""Formulas between dollar signs as MathML, so that a page needs no script and no outside address to show them."""

import re

from latex2mathml.converter import convert

FORMULA = re.compile(r"(?<![\\$\w])\$\$?(?!\s)([^$`]+?)(?<!\s)\$\$?(?![\w$])")
CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.S)
MARKS = str.maketrans({mark: f"&#{ord(mark)};" for mark in "*_`[]\\~^"})  # what Markdown would take for its own


def drawn(text: str) -> str:
    """Return a Markdown page with its formulas drawn; code is left as it is."""
    parts = CODE.split(text)
    return "".join(part if place % 2 else FORMULA.sub(_math, part) for place, part in enumerate(parts))


def _math(found: re.Match[str]) -> str:
    latex = found[1].replace("\n", " ")
    kind = "block" if found[0].startswith("$$") else "inline"
    made = convert(latex, display=kind)
    inner = re.sub(r">([^<]+)<", lambda text: f">{text[1].translate(MARKS)}<", made)
    return f'<span class="formula">{inner}</span>'  # Markdown would take a line that begins with <math> for a block of its own
