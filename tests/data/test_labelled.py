import json

import pytest

from lexergy.data import labelled, sotu_tasks
from lexergy.data.labelled import Fields, LabelledText, Question, Span, load_labelled, load_questions
from lexergy.errors import LexergyError

CONTEXT = "Lincoln spoke in 1862."


def test_the_same_examples_from_jsonl_csv_and_tsv(tmp_path):
    rows = [("a, b", "one", "1"), ("c", 'say "d"\nor not', "2")]
    contents = {
        "t.jsonl": "\n\n".join(json.dumps({"first": a, "second": b, "stars": int(c)}) for a, b, c in rows),
        "t.csv": 'first,second,stars\n"a, b",one,1\nc,"say ""d""\nor not",2\n',
        "t.tsv": 'first\tsecond\tstars\n"a, b"\tone\t1\nc\t"say ""d""\nor not"\t2\n',
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
        found = load_labelled(str(tmp_path / name), Fields("first", "second", "stars"))
        assert [(each.text, each.pair, each.label) for each in found] == rows
        assert found[0].place == f"{tmp_path / name}:{1 if name == 't.jsonl' else 2}"
        assert found[1].number == 2
    assert load_labelled(str(tmp_path / "t.csv"), Fields("first", None, None))[0] == LabelledText(
        f"{tmp_path / 't.csv'}:2", "a, b", None, None
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": ', "a.jsonl:2 is no JSON"),
        ("b.jsonl", '{"text": "a", "label": 1}\n\n[1]', "b.jsonl:3 is no JSON object"),
        ("c.jsonl", '{"text": "a"}', "c.jsonl:1: there is no field `label`; expected one of: text"),
        ("d.jsonl", '{"text": " ", "label": 1}', "d.jsonl:1: the field `text` is empty"),
        ("e.jsonl", '{"text": "a", "label": null}', "e.jsonl:1: the field `label` is None"),
        ("f.csv", "text,label\na,1\nb\n", "f.csv:3: expected 2 columns"),
        ("f2.csv", "text\rlabel\na,1\n", "f2.csv:1: new-line character"),
        ("g.jsonl", "\n", "holds no records"),
        ("h.txt", "text", "unknown kind; expected .jsonl, .csv, .tsv or .parquet"),
    ],
)
def test_mistakes_name_their_line(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(LexergyError) as raised:
        load_labelled(str(tmp_path / name), Fields())
    assert message in str(raised.value)


def test_a_folder_is_told_from_a_file_that_is_missing(tmp_path):
    with pytest.raises(LexergyError, match=r"is a folder; expected a \.jsonl, \.csv, \.tsv or \.parquet file"):
        load_labelled(str(tmp_path), Fields())
    with pytest.raises(LexergyError, match="does not exist"):
        load_labelled(str(tmp_path / "missing.jsonl"), Fields())


def test_questions_in_all_their_forms(tmp_path):
    answer = {"text": "1862", "answer_start": 17}
    flat = {"id": 7, "context": CONTEXT, "question": "When?"}
    squad = {"data": [{"paragraphs": [{"context": CONTEXT, "qas": [{**flat, "answers": [answer]}]}]}]}
    (tmp_path / "squad.json").write_text(json.dumps(squad))
    forms = [{**flat, **answer}, {**flat, "answers": {key: [value] for key, value in answer.items()}}]
    (tmp_path / "flat.jsonl").write_text("\n".join(json.dumps(form) for form in forms))
    found = [*load_questions(str(tmp_path / "squad.json")), *load_questions(str(tmp_path / "flat.jsonl"))]
    assert len(found) == 3
    for question in found:
        assert question == Question(question.place, "7", "When?", CONTEXT, (Span("1862", 17),))
    (tmp_path / "none.jsonl").write_text(json.dumps({**flat, "answers": []}))
    assert load_questions(str(tmp_path / "none.jsonl"))[0].answers == ()


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"text": "1862", "answer_start": 3}, "does not stand at character 3"),
        ({"text": "1862"}, "expected answers with `text` and `answer_start`"),
        ({"answers": [{"text": "1862"}]}, "expected answers with `text` and `answer_start`"),
    ],
    ids=["place", "no start", "no start in a list"],
)
def test_wrong_answers_name_their_line(tmp_path, record, message):
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps({"context": CONTEXT, "question": "When?", **record}))
    with pytest.raises(LexergyError, match=r"q\.jsonl:1: ") as raised:
        load_questions(str(path))
    assert message in str(raised.value)


def test_squad_s_form_is_checked(tmp_path):
    (tmp_path / "q.json").write_text('{"data": [{"paragraphs": [{"qas": [{}]}]}]}')
    with pytest.raises(LexergyError, match="expected SQuAD's form"):
        load_questions(str(tmp_path / "q.json"))


class HubSplit(list):
    """What `datasets` gives, as far as it is read here."""

    def __init__(self, records, names):
        super().__init__(records)
        self.features = {"label": type("Feature", (), {"names": names})()}


def test_glue_by_name(monkeypatch):
    asked = []

    def hub_dataset(name, split, remedy):
        asked.append((name, split))
        return HubSplit([{"sentence1": "a", "sentence2": "b", "label": 1}], ["entailment", "other"])

    monkeypatch.setattr(labelled, "hub_dataset", hub_dataset)
    assert load_labelled("glue:rte", Fields())[0] == LabelledText("glue:rte:0", "a", "b", "other")
    load_labelled("glue:rte:validation", Fields())
    assert asked == [("nyu-mll/glue:rte", "train"), ("nyu-mll/glue:rte", "validation")]
    with pytest.raises(LexergyError, match="GLUE has no task `wnli`"):
        load_labelled("glue:wnli", Fields())


def test_the_tasks_of_the_addresses(own_cache):
    paths = sotu_tasks.sotu_tasks()
    years = {}
    for split in sotu_tasks.SIZES:
        excerpts = load_labelled(str(paths[f"excerpts-{split}"]), Fields(label="year"))
        years[split] = {each.label for each in excerpts}
        eras = [each.label for each in load_labelled(str(paths[f"excerpts-{split}"]), Fields(label="era"))]
        assert {eras.count(era) for era in sotu_tasks.ERAS} == {sotu_tasks.SIZES[split] // 4}
        pairs = load_labelled(str(paths[f"sentences-{split}"]), Fields("first", "second", "follows"))
        assert 0.4 < sum(pair.label == "yes" for pair in pairs) / len(pairs) < 0.6
        assert all(question.answers for question in load_questions(str(paths[f"quotations-{split}"])))
    assert not years["train"] & years["test"]
    assert not years["train"] & years["validation"]
