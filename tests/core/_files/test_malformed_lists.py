"""Malformed files of lists: one sentence each, which names the file and the line."""

import pytest

import doors
from unlabel import UnlabelError

FITTED = doors.mask(["cat", "dog", "fox"], {})
TABLES = {
    "empty": ("", ": it has no column 'list'"),
    "only a header": ("list,label\n", ": there is no list"),
    "no column of lists": ("country,label\nDE,cat\n", "no column 'list' among 'country', 'label'"),
    "no column of labels": ("list,species\nDE,cat\n", "no column 'label'"),
    "two columns of labels": ("list,label,label\nDE,a,b\n", "several columns 'label'"),
    "a short line": ("list,label\nDE,cat\n\nDE\n", ", line 4: it has 1 cells"),
    "a separator too many": ("list,label\nDE,cat,\n", ", line 2: it has 3 cells"),
    "no list": ("list,label\n,cat\n", ", line 2: it has no list"),
    "no label": ('list,label\nDE,cat\nDE,""\n', ", line 3: it has no label"),
    "a pair twice over line breaks": (
        'list,label\nDE,"a\nb"\nAU,c\nDE,"a\nb"\n',
        r", the list 'DE': the label 'a\nb' appears twice",
    ),
    "an open quote": ('list,label\nDE,"cat\n', ", line 2: it cannot be read"),
    "text after a quote": ('list,label\nDE,"cat"s\n', ", line 2: it cannot be read"),
    "names in capitals": ("List,Label\nDE,cat\n", "no column 'list' among 'List'"),
    "a cell without end": ("list,label\nDE," + "a" * 200_000 + "\n", ", line 2: it cannot be read"),
}
OBJECTS = {
    "not JSON": ("{", ": it is not JSON"),
    "a list of lists": ('[["cat"]]', ": the label ['cat'] is neither"),
    "an empty object": ("{}", ": there is no list"),
    "a text for a list": ('{"DE": "cat"}', ", the list 'DE': the labels are given as str"),
    "an unknown label": (
        '{"DE": ["cta"]}',
        ": the filter's result has no label 'cta': the nearest",
    ),
    "no label": ('{"DE": []}', ", the list 'DE': no label is allowed"),
    "a label twice": ('{"DE": ["cat", "cat"]}', ", the list 'DE': the label 'cat' appears twice"),
    "NaN": ('{"DE": [NaN]}', ", the list 'DE': the label nan is neither"),
    "nested": ('{"DE": ' + "[" * 100_000, ": it is nested too deeply"),
}


@pytest.mark.parametrize(
    ("content", "words", "ending"),
    [
        *((*case, ".csv") for case in TABLES.values()),
        *((*case, ".json") for case in OBJECTS.values()),
    ],
    ids=[*TABLES, *OBJECTS],
)
def test_a_malformed_file_gets_one_sentence(tmp_path, content, words, ending):
    path = tmp_path / f"lists{ending}"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UnlabelError) as caught:
        FITTED.apply([[0.5, 0.3, 0.2]], allow=path, allow_by=["DE"])
    message = str(caught.value)
    assert message.startswith(str(path))
    assert words in message
    assert message.endswith(".")
    assert message.isprintable()
    assert [*tmp_path.iterdir()] == [path]


def test_files_that_cannot_be_lists_are_refused(tmp_path):
    (tmp_path / "lists.csv").write_bytes(b"list,label\nDE,\xff\xfe\n")
    (tmp_path / "lists.txt").write_text("cat")
    with (tmp_path / "large.csv").open("wb") as file:
        file.truncate(100 << 20)
    for name, words in {
        "lists.csv": "it is not text in UTF-8",
        "lists.txt": "its name does not end in .csv or .tsv or .json",
        "large.csv": "it is larger than 64 MiB",
    }.items():
        with pytest.raises(UnlabelError, match=f"{name}: {words}"):
            FITTED.apply([[0.5, 0.3, 0.2]], allow=tmp_path / name, allow_by=["DE"])
