"""Whatever a file holds, its reader gives what it promises or says in a line what is wrong (Hypothesis)."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lexergy.data.corpora import load_corpus
from lexergy.data.labelled import load_questions
from lexergy.data.lists.candidates import read_candidate_lists
from lexergy.data.lists.nbest import load_nbest
from lexergy.data.tagging.files import load_tagged
from lexergy.data.texts import PlacedText, Unreadable, read_texts
from lexergy.data.translation.pairs import load_pairs
from lexergy.data.windows import Windows
from lexergy.errors import LexergyError

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["text", "hypotheses", "score", "prompt", "candidates", "reference", "data", "a"]), inner
        ),
    ),
    max_leaves=8,
)
LINES = st.lists(JSON.map(json.dumps), max_size=4).map(lambda lines: "\n".join(lines).encode())
CONTENT = st.one_of(
    st.binary(max_size=80), st.text(max_size=80).map(lambda text: text.encode("utf-8", "replace")), LINES
)
READERS = {
    "corpus.jsonl": lambda path: load_corpus(str(path)),
    "corpus.txt": lambda path: load_corpus(str(path)),
    "corpus.txt.gz": lambda path: load_corpus(str(path)),
    "corpus.parquet": lambda path: load_corpus(str(path)),
    "windows.parquet": Windows.load,
    "lists.json": load_nbest,
    "lists.jsonl": load_nbest,
    "candidates.jsonl": lambda path: list(read_candidate_lists(str(path))),
    "questions.json": lambda path: load_questions(str(path)),
    "tagged.conll": load_tagged,
    "tagged.txt": load_tagged,
    "pairs.tsv": load_pairs,
}


@pytest.mark.parametrize("name", READERS)
@QUICK
@given(content=CONTENT)
def test_any_content_is_read_or_refused(name, content, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    message = name
    try:
        READERS[name](path)
    except LexergyError as error:
        message = str(error)
    assert name in message


@pytest.mark.parametrize("name", ["texts.txt", "texts.jsonl", "texts.parquet", "texts.txt.gz"])
@QUICK
@given(content=CONTENT)
def test_texts_have_places_whatever_the_content(name, content, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    for entry in read_texts([str(path)]):
        assert entry.place.startswith(str(path))
        assert entry.text.strip() if isinstance(entry, PlacedText) else isinstance(entry, Unreadable)


def test_texts_of_a_parquet_file(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = tmp_path / "texts.parquet"
    pyarrow.parquet.write_table(pa.table({"text": ["our union", None, "the state"]}), path)
    first, second, third = read_texts([str(path)])
    assert (first.text, third.text) == ("our union", "the state")
    assert (first.place, second.reason) == (f"{path}:1", "It is empty; expected some text.")
    (unreadable,) = read_texts([str(path)], text_field="body")
    assert "has no field `body`" in unreadable.reason
