"""The front page of the results leads to every study, and quotes no agreement that the study's page does not have."""

import re
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "docs" / "results"
FRONT = (RESULTS / "index.md").read_text(encoding="utf-8")


def test_every_study_is_on_the_front_page() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)", FRONT))
    assert linked == {path.name for path in RESULTS.glob("*.md")} - {"index.md"}


def test_every_agreement_stands_on_its_page() -> None:
    rows = re.findall(r"^\| \w+ \| \[[^\]]*\]\(([\w-]+\.md)[^)]*\) \|.*\| ([^|]*) \|$", FRONT, re.M)
    assert len(rows) == 20
    for page, said in rows:
        text = (RESULTS / page).read_text(encoding="utf-8")
        quoted = re.findall(r"[-−]?\b\d\.\d\d\b", said)
        assert all(number in text for number in quoted), (page, said)
