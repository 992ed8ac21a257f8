"""Words get numbers from training texts alone, the same way every time."""

import json

import pytest
import torch

from perfed.data.samples import Samples
from perfed.data.text import SPECIAL, Vocabulary, tokenised, tokens
from perfed.errors import DataError, InputError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat sat.", ["the", "cat", "sat", "."]),
        ("Wall St. Bears (Reuters), again!", ["wall", "st", ".", "bears", "(", "reuters", ")", ",", "again", "!"]),
        ('It\'s "new"; see: page 2<br />now?', ["it", "'", "s", "new", "see", "page", "2", "now", "?"]),
        ("  tabs\tand\nlines ", ["tabs", "and", "lines"]),
        ("", []),
    ],
)
def test_texts_are_split_into_lower_case_words_and_marks(text, words):
    assert tokens(text) == words


def test_words_are_numbered_by_frequency_then_alphabet():
    vocabulary = Vocabulary.of(["b a c", "b a", "b d"])
    assert vocabulary.words == (*SPECIAL, "b", "a", "c", "d")
    assert Vocabulary.of(["b d", "b a", "b a c"]) == vocabulary
    assert len(vocabulary) == 6


def test_rare_words_and_a_full_table_are_cut():
    assert Vocabulary.of(["b a c", "b a", "b d"], least=2).words == (*SPECIAL, "b", "a")
    assert Vocabulary.of(["b a c", "b a", "b d"], size=3).words == (*SPECIAL, "b")


def test_texts_become_rows_of_one_length():
    vocabulary = Vocabulary.of(["b a c", "b a", "b d"])
    rows = vocabulary.encode(["a b", "z b b b b", ""], length=4)
    assert rows.dtype == torch.int32
    assert rows.tolist() == [[3, 2, 0, 0], [1, 2, 2, 2], [0, 0, 0, 0]]


def test_a_text_cannot_reach_the_special_entries():
    vocabulary = Vocabulary.of(["<padding> <unknown> word"])
    assert vocabulary.words == (*SPECIAL, "word")
    assert vocabulary.encode(["<padding>"], 1).tolist() == [[1]]


def test_only_training_texts_make_the_vocabulary():
    samples = Samples.of(["good film", "bad film", "dull film"], [0, 1, 1], classes=("good", "bad"))
    encoded, vocabulary = tokenised(samples, [0, 1], length=3)
    assert vocabulary.words == (*SPECIAL, "film", "bad", "good")
    assert encoded.x.tolist() == [[4, 2, 0], [3, 2, 0], [1, 2, 0]]
    assert encoded.digest() == samples.digest()


def test_a_saved_vocabulary_is_read_back(tmp_path):
    vocabulary = Vocabulary.of(["naïve café"])
    vocabulary.save(tmp_path / "vocabulary.json")
    assert Vocabulary.load(tmp_path / "vocabulary.json") == vocabulary
    assert [path.name for path in tmp_path.iterdir()] == ["vocabulary.json"]


@pytest.mark.parametrize(
    "contents",
    ["", "{", "[]", '{"words": 3}', '{"words": ["a", "b"]}', json.dumps({"words": [*SPECIAL, "a", "a"]})],
)
def test_a_damaged_vocabulary_is_named(tmp_path, contents):
    path = tmp_path / "vocabulary.json"
    path.write_text(contents)
    with pytest.raises(DataError, match="vocabulary.json"):
        Vocabulary.load(path)


def test_what_cannot_be_right_is_refused(tmp_path):
    with pytest.raises(DataError, match="no vocabulary at"):
        Vocabulary.load(tmp_path / "none.json")
    with pytest.raises(DataError, match="no word occurs 2 times"):
        Vocabulary.of(["one each"], least=2)
    with pytest.raises(InputError, match="size must be at least 3"):
        Vocabulary.of(["a"], size=2)
    with pytest.raises(InputError, match="length must be at least 1"):
        Vocabulary.of(["a"]).encode(["a"], 0)
    with pytest.raises(InputError, match="holds no texts"):
        tokenised(Samples.of(torch.rand(4, 3), [0, 1, 0, 1]), [0])
