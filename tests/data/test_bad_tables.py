"""A hundred tables as people have them: each is read as it was meant, or refused with file, column and row."""

import math
from pathlib import Path
from typing import Any

import pytest

from perfed.data import Samples, load
from perfed.errors import PerfedError

NO = None  # a gap
LABELS = "".join(f"1,{i}\n" for i in range(30))
PATIENTS = "".join(f"p{i}x,{i % 2}\n" for i in range(30))
NUMBER, MANY, TIMED = ({"task": task} for task in ("regression", "multilabel", "survival"))

# What it is, the file, options, and what is read (inputs by column, or rows of plain numbers) or the sentence of the refusal.
# A value under "label" or "client" is checked as the class or the client of every row.
READ: list[tuple[str, str | bytes, dict[str, Any], Any]] = [
    ("plain numbers", "a,b,label\n1,2,x\n3,4,y\n", {}, [[1, 2], [3, 4]]),
    ("a byte order mark", b"\xef\xbb\xbfa,b,label\n1,2,x\n3,4,y\n", {}, [[1, 2], [3, 4]]),
    ("UTF-16 with its mark", "a,b,label\n1,2,x\n3,4,y\n".encode("utf-16"), {}, [[1, 2], [3, 4]]),
    ("Windows line ends", "a,b,label\r\n1,2,x\r\n3,4,y\r\n", {}, [[1, 2], [3, 4]]),
    ("old Macintosh line ends", "a,b,label\r1,2,x\r3,4,y\r", {}, [[1, 2], [3, 4]]),
    ("no line end at the end", "a,b,label\n1,2,x\n3,4,y", {}, [[1, 2], [3, 4]]),
    ("semicolons", "a;b;label\n1;2;x\n3;4;y\n", {}, [[1, 2], [3, 4]]),
    ("tabs", "a\tb\tlabel\n1\t2\tx\n3\t4\ty\n", {}, [[1, 2], [3, 4]]),
    ("bars", "a|b|label\n1|2|x\n3|4|y\n", {}, [[1, 2], [3, 4]]),
    ("blank lines between rows", "a,label\n\n1,x\n\n\n3,y\n", {}, [[1], [3]]),
    ("rows of commas at the end", "a,b,label\n1,2,x\n3,4,y\n,,\n,,\n", {}, {"a": [1, 3], "b": [2, 4]}),
    ("a comma after every row", "a,b,label,\n1,2,x,\n3,4,y,\n", {}, {"a": [1, 3], "b": [2, 4]}),
    ("blanks around names", " a , b ,label\n1,2,x\n3,4,y\n", {}, {"a": [1, 3], "b": [2, 4]}),
    ("blanks around values", "a,sex,label\n 1 , F ,x\n 3,F , y\n5,M,y\n", {}, {"sex": ["f", "f", "m"], "label": ["x", "y", "y"]}),
    ("quotes around everything", '"a","b","label"\n"1","2","x"\n"3","4","y"\n', {}, [[1, 2], [3, 4]]),
    ("a comma inside quotes", 'town,label\n"York, UK",x\n"York, UK",y\n', {}, {"town": ["york, uk", "york, uk"]}),
    ("a quote inside quotes", 'town,label\n"the ""old"" ward",x\nnew,y\n', {}, {"town": ['the "old" ward', "new"]}),
    ("a line end inside quotes", 'note,a,label\n"good\nday",1,x\nbad,2,y\n', {}, {"note": ["good day", "bad"], "a": [1, 2]}),
    ("a comma in a quoted name", '"a, mg",label\n1,x\n2,y\n', {}, [[1], [2]]),
    ("empty cells in numbers", "a,b,label\n1,,x\n,4,y\n", {}, {"a": [1, NO], "b": [NO, 4]}),
    ("question marks", "a,label\n1,x\n?,y\n", {}, {"a": [1, NO]}),
    ("NA, N/A, nan, null, #N/A", "a,label\n1,x\nNA,y\nN/A,y\nnan,y\nnull,y\n#N/A,y\n", {}, {"a": [1, NO, NO, NO, NO, NO]}),
    ("None and unknown among numbers", "a,label\n1,x\nNone,y\nunknown,x\n", {}, {"a": [1, NO, NO]}),
    ("none as a level", "drinks,label\nnone,x\nsome,y\nnone,x\n", {}, {"drinks": ["none", "some", "none"]}),
    ("a dash for nothing", "a,label\n1,x\n-,y\n--,y\n", {}, {"a": [1, NO, NO]}),
    ("a dot for nothing", "a,label\n1,x\n.,y\n", {}, {"a": [1, NO]}),
    ("-999 for nothing, said", "a,label\n1,x\n-999,y\n-999.0,y\n", {"missing": "-999"}, {"a": [1, NO, NO]}),
    ("a word for nothing, said", "a,label\n1,x\nlost,y\n", {"missing": "lost"}, {"a": [1, NO]}),
    ("NA as a country, said", "land,label\nNA,x\nDE,y\nNA,x\n", {"missing": "?"}, {"land": ["na", "de", "na"]}),
    ("a gap in a category", "sex,label\nF,x\n,y\nM,y\nF,x\n", {}, {"sex": ["f", NO, "m", "f"]}),
    ("a gap in yes and no", "smokes,label\nyes,x\n,y\nno,y\n", {}, {"smokes": [1, NO, 0]}),
    ("yes and no in any spelling", "s,label\nYes,x\nNO,y\ny,y\nN,x\n", {}, {"s": [1, 0, 1, 0]}),
    ("true and false", "s,a,label\nTrue,1,x\nFalse,2,y\n", {}, [[1, 1], [0, 2]]),
    ("TRUE and FALSE with a gap", "s,label\nTRUE,x\nFALSE,y\n,y\n", {}, {"s": [1, 0, NO]}),
    ("T and F", "s,label\nT,x\nF,y\n", {}, {"s": [1, 0]}),
    ("F and M are no truths", "s,label\nF,x\nM,y\n", {}, {"s": ["f", "m"]}),
    ("F alone is no truth", "s,label\nF,x\nF,y\n", {}, {"s": ["f", "f"]}),
    ("yes, no and perhaps", "s,label\nyes,x\nno,y\nperhaps,y\n", {}, {"s": ["yes", "no", "perhaps"]}),
    ("levels in other capitals", "s,label\nMale,x\nmale,y\nMALE,y\n", {}, {"s": ["male", "male", "male"]}),
    ("levels that are numbers, said", "cp,label\n1,x\n3,y\n1.0,x\n", {"categories": "cp"}, {"cp": ["1", "3", "1"]}),
    ("codes of letters and digits", "icd,label\nI21,x\nI50,y\nI21,x\n", {}, {"icd": ["i21", "i50", "i21"]}),
    ("stages", "stage,label\nstage 1,x\nstage 2,y\nstage 1,y\n", {}, {"stage": ["stage 1", "stage 2", "stage 1"]}),
    ("bands of ages", "age,label\n18-30,x\n31-60,y\n61+,y\n18-30,x\n", {}, {"age": ["18-30", "31-60", "61+", "18-30"]}),
    ("letters of other scripts", "stadt,label\nKöln,x\nΑθήνα,y\nKÖLN,y\n", {}, {"stadt": ["köln", "αθήνα", "köln"]}),
    ("exponents", "a,label\n1e3,x\n-2.5E-2,y\n", {}, [[1000], [-0.025]]),
    ("signs and bare dots", "a,label\n+1,x\n-.5,y\n2.,y\n", {}, [[1], [-0.5], [2]]),
    ("a minus of typesetters", "a,label\n−5,x\n3,y\n", {}, {"a": [-5, 3]}),
    ("decimal commas", "a;label\n1,5;x\n-20,25;y\n", {}, {"a": [1.5, -20.25]}),
    ("thousands with a decimal point", 'a,label\n"1,234.5",x\n"12",y\n', {}, {"a": [1234.5, 12]}),
    ("millions with commas", 'a,label\n"1,234,567",x\n"12,000,000",y\n7,y\n', {}, {"a": [1234567, 12000000, 7]}),
    ("dots at thousands, decimal commas", "a;label\n1.234,5;x\n12,25;y\n", {}, {"a": [1234.5, 12.25]}),
    ("blanks at thousands", "a,label\n1 234,x\n12 345 678,y\n", {}, {"a": [1234, 12345678]}),
    ("Swiss thousands", "a,label\n1'234,x\n12’345,y\n", {}, {"a": [1234, 12345]}),
    ("1,234 with the mark said", 'a,label\n"1,234",x\n"5,678",y\n', {"decimal": "."}, {"a": [1234, 5678]}),
    ("1,234 as decimals, said", "a;label\n1,234;x\n5,678;y\n", {"decimal": ","}, {"a": [1.234, 5.678]}),
    ("zeros before a number", "a,label\n007,x\n010,y\n", {}, [[7], [10]]),
    ("a constant column", "a,b,label\n5,1,x\n5,2,y\n", {}, [[5, 1], [5, 2]]),
    ("a constant category", "s,label\nf,x\nf,y\n", {}, {"s": ["f", "f"]}),
    ("one row", "a,label\n1,x\n", {}, [[1]]),
    ("one column of inputs", "label,a\nx,1\ny,2\n", {}, [[1], [2]]),
    ("labels true and false", "a,label\n1,True\n2,False\n", {}, {"label": ["True", "False"]}),
    ("labels 1.0 and 0.0", "a,label\n1,1.0\n2,0.0\n", {}, {"label": ["1", "0"]}),
    ("labels 2 and 10 in order", "a,label\n1,10\n2,2\n", {}, {"label": ["10", "2"]}),
    ("a label called None", "a,label\n1,None\n2,Some\n", {}, {"label": ["None", "Some"]}),
    ("clients that are numbers", "a,h,label\n1,10,x\n2,9,y\n", {"client": "h"}, {"client": ["10", "9"]}),
    ("a client without one class", "a,h,label\n1,r,x\n2,r,x\n3,o,y\n", {"client": "h"}, {"label": ["x", "x", "y"]}),
    ("a column left out", "id,a,label\np1,1,x\np2,2,y\n", {"drop": "id"}, [[1], [2]]),
    ("a date left out", "seen,a,label\n2020-01-02,1,x\n2020-01-03,2,y\n", {"drop": "seen"}, [[1], [2]]),
    ("texts", 'body,label\n"a, b",x\nc,y\n', {"text": "body"}, {"label": ["x", "y"]}),
    ("a number to predict", "a,dose\n1,0.5\n2,1.5\n", {"label": "dose", "task": "regression"}, {"target": [0.5, 1.5]}),
    ("two labels", "a,c,f\n1,yes,0\n2,no,1\n", {"label": "c,f", "task": "multilabel"}, {"target": [[1, 0], [0, 1]]}),
    ("a time and an event", "a,d,e\n1,30,1\n2,9,0\n", {"label": "d,e", "task": "survival"}, {"target": [[30, 1], [9, 0]]}),
]

REFUSED: list[tuple[str, str | bytes, dict[str, Any], str]] = [
    ("an empty file", "", {}, "t.csv is no readable csv file: it is empty"),
    ("a header alone", "a,label\n", {}, "t.csv has a header, but no rows"),
    ("no header", "63,1,0\n67,1,1\n", {}, "t.csv has no column 'label'; it has 63, 1, 0"),
    ("a file of zeros", b"a,label\n1\x00,x\n", {}, "t.csv is no readable csv file: row 2 has a zero byte"),
    ("a zip called csv", b"PK\x03\x04\xff\xfe", {}, "t.csv is no readable csv file: row 1"),
    ("Windows-1252", "a,label\n1,k\xf6ln\n".encode("latin-1"), {}, "t.csv .*row 2 has bytes that are not UTF-8"),
    ("no label column", "a,target\n1,x\n", {}, "t.csv has no column 'label'; it has a, target"),
    ("a misspelt client", "a,h,label\n1,r,x\n", {"client": "hh"}, "t.csv has no column 'hh'"),
    ("a name twice", "a,a,label\n1,2,x\n", {}, "t.csv: the column 'a' occurs twice in the header, as number 1 and 2"),
    ("a name twice but for blanks", "a,a ,label\n1,2,x\n", {}, "t.csv: the column 'a' occurs twice"),
    ("a column of row numbers", ",a,label\n0,1,x\n1,2,y\n", {}, "t.csv: column 1 has no name in the header"),
    ("a row too long", "a,label\n1,x\n2,y,z\n", {}, "t.csv: row 3 has 3 values, but the header names 2"),
    ("every row too long", "a,label\n0,1,x\n1,2,y\n", {}, "t.csv: row 2 has 3 values, but the header names 2"),
    ("a row too short", "a,b,label\n1,2,x\n3,y\n", {}, "t.csv: row 3 has 2 values, but the header names 3"),
    ("a decimal comma between commas", "a,label\n1,5,x\n2,y\n", {}, "t.csv: row 2 has 3 values.*needs quotes"),
    ("a quote that never ends", 'a,label\n1,"x\n2,y\n', {}, "t.csv is no readable csv file: row 2 breaks off"),
    ("a label missing", "a,label\n1,x\n2,\n", {}, "t.csv: row 3 has no value in the column 'label'"),
    ("a label that is NA", "a,label\n1,x\n2,NA\n", {}, "t.csv: row 3 has no value in the column 'label'"),
    ("a client missing", "a,h,label\n1,r,x\n2,,y\n", {"client": "h"}, "t.csv: row 3 has no value in the column 'h'"),
    ("labels in other capitals", "a,label\n1,Yes\n2,yes\n3,no\n", {}, "t.csv: row 3, column 'label': 'yes' and 'Yes'"),
    ("measurements as labels", "a,label\n" + LABELS, {}, "t.csv.*'label' has 30 different labels"),
    ("halves as labels", "a,label\n1,0.5\n2,1\n", {}, "t.csv: labels are float64"),
    ("no inputs", "label\nx\ny\n", {}, "t.csv: there is no column besides label"),
    ("a column without any value", "a,b,label\n1,,x\n2,,y\n", {}, "t.csv: the column 'b' has no value in any row; .*drop=b"),
    ("a letter O for a zero", "a,label\n1,x\n2,y\n1O,y\n", {}, "t.csv: row 4, column 'a': '1O' is no number, but 2 others are"),
    ("a star beside a number", "a,label\n1,x\n2,y\n3*,y\n", {}, "t.csv: row 4, column 'a': '3\\*' is no number"),
    ("below the limit", "a,label\n1,x\n2,y\n<0.1,y\n", {}, "t.csv: row 4, column 'a': '<0.1' is no number"),
    ("infinity", "a,label\n1,x\ninf,y\n3,y\n", {}, "t.csv: row 3, column 'a': 'inf' is no number"),
    ("a division by zero", "a,label\n1,x\n#DIV/0!,y\n3,y\n", {}, "t.csv: row 3, column 'a': '#DIV/0!' is no number"),
    ("beyond all numbers", "a,label\n1,x\n1e400,y\n", {}, "t.csv: row 3, column 'a': '1e400' is too large"),
    ("beyond single precision", "a,label\n1,x\n1e39,y\n", {}, "t.csv: row 3, column 'a': '1e39' is too large"),
    ("1,234 without a hint", 'a,label\n"1,234",x\n"5,678",y\n', {}, "t.csv: row 2, column 'a': '1,234' may be a decimal"),
    ("decimal points and commas", "a;label\n1,5;x\n2.5;y\n", {}, "t.csv: row 2, column 'a': numbers are written in diff"),
    ("percentages", "a,label\n5%,x\n10%,y\n", {}, "t.csv: row 2, column 'a': '5%' is a number with a sign or a unit"),
    ("milligrams", "a,label\n5 mg,x\n10 mg,y\n", {}, "t.csv: row 2, column 'a': '5 mg' is a number with a sign or a unit"),
    ("money", "a,label\n$5,x\n$10,y\n", {}, "t.csv: row 2, column 'a': '\\$5' is a number with a sign"),
    ("dates", "a,label\n2020-01-02,x\n2020-01-03,y\n", {}, "t.csv: row 2, column 'a': '2020-01-02' is a date"),
    ("dates with times", "a,label\n2020-01-02 08:00,x\n2020-01-03T09:30:00Z,y\n", {}, "t.csv: row 2, column 'a': .* is a date"),
    ("German dates", "a,label\n2.1.2020,x\n13.12.2020,y\n", {}, "t.csv: row 2, column 'a': '2.1.2020' is a date"),
    ("American dates", "a,label\n1/2/20,x\n12/31/2020,y\n", {}, "t.csv: row 2, column 'a': '1/2/20' is a date"),
    ("months by name", "a,label\n2 Jan 2020,x\n3-Feb-20,y\n", {}, "t.csv: row 2, column 'a': '2 Jan 2020' is a date"),
    ("times of day", "a,label\n08:30,x\n17:45,y\n", {}, "t.csv: row 2, column 'a': '08:30' is a date or a time"),
    ("patients' names", "who,label\n" + PATIENTS, {}, "'who' has 30 different words in 30 rows"),
    ("a test column of words", "a,t,label\n1,train,x\n2,test,y\n", {"test": "t"}, "t.csv: row 2, column 't': 'train' says"),
    ("a drop that is not there", "a,label\n1,x\n", {"drop": "b"}, "t.csv has no column 'b'"),
    ("a category that is not there", "a,label\n1,x\n", {"categories": "b"}, "t.csv has no column 'b'"),
    ("words as a number to predict", "a,label\n1,x\n2,y\n", NUMBER, "t.csv: row 2, column 'label': 'x' is no number"),
    ("a number to predict missing", "a,label\n1,\n2,3\n", NUMBER, "t.csv: row 2 has no value in the column 'label'"),
    ("2 as a label that applies", "a,c,f\n1,2,0\n", {"label": "c,f", **MANY}, "t.csv: row 2, column 'c': 2 is neither 0"),
    ("a negative time", "a,d,e\n1,-3,0\n", {"label": "d,e", **TIMED}, "t.csv: row 2, column 'd': -3 is a time before"),
    ("no such scale", "a,label\n1,x\n", {"scale": "minmax"}, "scale must be one of usual, client, federated, none"),
]  # fmt: skip


def written(folder: Path, body: str | bytes) -> Path:
    path = folder / "t.csv"
    path.write_bytes(body if isinstance(body, bytes) else body.encode())
    return path


def shown(samples: Samples) -> dict[str, list[Any]]:
    """What was read, by column."""
    found: dict[str, list[Any]] = {}
    for column in samples.sheet.columns if samples.sheet else ():
        if column.kind == "category":
            found[column.name] = [None if place < 0 else column.levels[place] for place in column.values.tolist()]
        else:
            found[column.name] = [None if math.isnan(value) else value for value in column.values.tolist()]
    if samples.task == "classification":
        found["label"] = [samples.classes[place] for place in samples.y.tolist()]
    else:
        found["target"] = samples.y.tolist()
    if samples.group is not None:
        found["client"] = [samples.groups[place] for place in samples.group.tolist()]
    return found


def test_there_are_a_hundred() -> None:
    names = [case[0] for case in (*READ, *REFUSED)]
    assert len(names) >= 100 and len(set(names)) == len(names)


@pytest.mark.parametrize(("body", "options", "meant"), [c[1:] for c in READ], ids=[c[0] for c in READ])
def test_it_is_read_as_it_was_meant(tmp_path: Path, body: str | bytes, options: dict[str, Any], meant: Any) -> None:
    samples = load(f"csv:{written(tmp_path, body)}", **options)
    if isinstance(meant, list):
        assert samples.sheet is None and samples.x.tolist() == [pytest.approx(row) for row in meant]
    else:
        found = shown(samples)
        assert {name: found.get(name) for name in meant} == meant


@pytest.mark.parametrize(("body", "options", "said"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_it_is_refused_with_its_place(tmp_path: Path, body: str | bytes, options: dict[str, Any], said: str) -> None:
    with pytest.raises(PerfedError, match=said):
        load(f"csv:{written(tmp_path, body)}", **options)
