"""Plans drafted from tables of pairs: nothing is removed that nobody decided to remove."""

import pytest

import doors
from unlabel import LabelPlan, UnlabelError


def drafted(folder, text, name="pairs.csv", **columns):
    (folder / name).write_bytes(text.encode())
    return doors.draft(folder / name, **columns)


@pytest.mark.parametrize(("name", "separator"), [("p.csv", ","), ("p.csv", ";"), ("p.tsv", "\t")])
def test_tables_of_pairs(tmp_path, name, separator):
    lines = [
        "# a concordance",
        "note,to,from,weight",
        "a remark,other,lynx,",
        ",7,B.LOC,1",
        "",
        '"x, y; z",small,"wild ""cat""",0.25',
        ',big,"wild ""cat""",.75',
        "",
    ]
    text = "\ufeff" + "\r\n".join(lines).replace(",", separator)
    plan = drafted(tmp_path, text, name).plan
    assert plan.changes == {
        "lynx": "other",
        "B.LOC": "7",
        'wild "cat"': {"small": 0.25, "big": 0.75},
    }


def test_columns_are_those_of_sssom_or_named(tmp_path):
    text = "subject_id,subject_label,object_id,object_label\n1,a,2,b\n"
    assert drafted(tmp_path, text).plan.changes == {"a": "b"}
    columns = {"from_column": "subject_id", "to_column": "object_id"}
    assert drafted(tmp_path, text, **columns).plan.changes == {"1": "2"}


def test_labels_without_a_destination_are_listed_and_stay(tmp_path):
    draft = drafted(tmp_path, "from,to\ncat,\ndog,hound\nfox,\n")
    assert draft.plan.changes == {"dog": "hound"}
    assert draft.without_destination == ("cat", "fox")
    path = tmp_path / "plan.toml"
    path.write_text(draft.to_toml())
    assert LabelPlan.load(path) == draft.plan
    path.write_text(draft.to_toml().replace('# "', '"'))  # as the remark says
    assert LabelPlan.load(path).changes == {"dog": "hound", "cat": None, "fox": None}


MALFORMED = {
    "empty": ("", "It has no column 'from' or "),
    "header-alone": ("from,to\n", "It has no pairs"),
    "one-column": ("from\na\n", "It has no column 'to' or"),
    "column-twice": ("from,to,to\na,b,c\n", "It has several columns 'to'"),
    "short-row": ("from,to\na,b\nc\n", "line 3: it has 1 cells and the header 2"),
    "long-row": ("# one\nfrom,to\na,b,c\n", "line 3: it has 3 cells and the header 2"),
    "pair-twice": ("from,to\na,b\na,b\n", "line 3: it repeats the pair 'a', 'b'"),
    "no-old-label": ("from,to\na,b\n,c\n", "new labels without an old one, 'c'"),
    "with-and-without": ("from,to\na,\na,b\n", "with and without a destination, 'a'"),
    "no-weights": ("from,to\na,b\na,c\nd,b\nd,e\n", "and no weights, 'a', 'd'"),
    "some-weights": ("from,to,weight\na,b,0.5\na,c,\n", "and no weights, 'a'"),
    "weight-word": ("from,to,weight\na,b,half\n", "line 2: it has the weight 'half'"),
    "weight-nan": ("from,to,weight\na,b,nan\n", "line 2: it has the weight 'nan'"),
    "weight-sum": ("from,to,weight\na,b,.5\na,c,.4\n", "'a': the weights sum to 0.9"),
    "one-weight": ("from,to,weight\na,b,.5\n", "'a': the weights sum to 0.5"),
    "open-quote": ('from,to\na,"b\n', "unexpected end of data"),
    "huge-cell": (f"from,to\na,{'b' * 200_000}\n", "field larger than field limit"),
}


@pytest.mark.parametrize(("text", "words"), MALFORMED.values(), ids=MALFORMED)
def test_pairs_that_are_no_plan_are_refused(tmp_path, text, words):
    with pytest.raises(UnlabelError) as caught:
        drafted(tmp_path, text)
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "pairs.csv"))
    assert words.lower() in message.lower()
    assert message.isprintable()
