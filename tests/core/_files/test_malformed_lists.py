"""Malformed files of lists: one sentence each, which names the file and the line."""

import pytest

from unlabel import AllowLists, UnlabelError

TABLES = {
    "empty": ("", "Line 1 has no column 'list' among : write list and label"),
    "only a header": ("list,label\n", "It has no lists"),
    "no column of lists": (
        "country,label\nDE,cat\n",
        "Line 1 has no column 'list' among 'country'",
    ),
    "no column of labels": ("list,species\nDE,cat\n", "Line 1 has no column 'label'"),
    "two columns of labels": ("list,label,label\nDE,a,b\n", "Line 1 has 2 columns 'label'"),
    "another separator": ("list;label\nDE;cat\n", "Line 1 has no column 'list' among 'list;label'"),
    "a short line": ("list,label\nDE,cat\nDE\n", "Line 3 does not have as many cells"),
    "a long line": ("list,label\nDE,cat,dog\n", "Line 2 does not have as many cells"),
    "no list": ("list,label\n,cat\n", "Line 2 has no list: write one"),
    "no label": ("list,label\nDE,cat\nDE,\n", "Line 3 has no label: write one"),
    "a pair twice": (
        "list,label\nDE,cat\nAU,cat\nDE,cat\n",
        "Line 4 repeats 'cat' in the list 'DE'",
    ),
    "an open quote": ('list,label\nDE,"cat\n', "Line 2 cannot be read"),
    "text after a quote": ('list,label\nDE,"cat"s\n', "Line 2 cannot be read"),
    "an empty first line": ("\nlist,label\nDE,cat\n", "Line 1 has no column 'list'"),
    "names in capitals": ("List,Label\nDE,cat\n", "Line 1 has no column 'list' among 'List'"),
    "two columns of lists": ("list,list,label\nDE,AU,a\n", "Line 1 has 2 columns 'list'"),
    "a short line after an empty one": ("list,label\nDE,cat\n\nDE\n", "Line 4 does not have"),
    "a pair twice over line breaks": (
        'list,label\nDE,"a\nb"\nAU,c\nDE,"a\nb"\n',
        r"Line 6 repeats 'a\\nb' in the list 'DE'",
    ),
    "a label that is only quotes": ('list,label\nDE,""\n', "Line 2 has no label"),
    "a cell without end": (
        "list,label\nDE," + "a" * 200_000 + "\n",
        "Line 2 cannot be read: field",
    ),
    "a separator too many": ("list,label\nDE,cat,\n", "Line 2 does not have as many cells"),
}
OBJECTS = {
    "not JSON": ("{", "It is not JSON"),
    "a list": ('["cat"]', "It is not an object"),
    "an empty object": ("{}", "It has no lists"),
    "a text for a list": ('{"DE": "cat"}', "The list 'DE' is not a list"),
    "a number for a label": ('{"DE": [1]}', "The list 'DE' holds 1: write labels as texts"),
    "an empty label": ('{"DE": [""]}', "The list 'DE' holds ''"),
    "a label twice": ('{"DE": ["cat", "cat"]}', "The list 'DE' repeats 'cat'"),
    "a list twice": ('{"DE": ["cat"], "DE": ["dog"]}', "The key 'DE' appears twice"),
    "NaN": ('{"DE": [NaN]}', "It is not JSON: NaN is not JSON"),
    "nested": ('{"DE": ' + "[" * 100_000, "It is nested too deeply|It is not JSON"),
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
    with pytest.raises(UnlabelError, match=words) as caught:
        AllowLists.read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert message.endswith(".")
    assert message.isprintable()
    assert [*tmp_path.iterdir()] == [path]


def test_files_that_cannot_be_lists_are_refused(tmp_path):
    (tmp_path / "lists.csv").write_bytes(b"list,label\nDE,\xff\xfe\n")
    (tmp_path / "lists.txt").write_text("cat")
    with (tmp_path / "large.csv").open("wb") as file:
        file.truncate(100 << 20)
    for name, words in {
        "lists.csv": "is not text in UTF-8",
        "lists.txt": "is not named as lists: give a file that ends in .csv, .tsv, .json",
        "large.csv": "is larger than 64 MiB",
        "nowhere.csv": "could not be read: No such file",
    }.items():
        with pytest.raises(UnlabelError, match=words) as caught:
            AllowLists.read(tmp_path / name)
        assert name in str(caught.value)
