import hashlib
import io
import json
import tarfile

import pytest

from lexergy.data.lists import librispeech
from lexergy.data.lists.nbest import Hypothesis, Utterance, load_nbest, save_nbest, some_of
from lexergy.errors import LexergyError

LISTS = [
    Utterance("a-1", tuple(Hypothesis(f"text {rank}", -float(rank)) for rank in range(12)), "text 3"),
    Utterance("a-2", (Hypothesis("", -1.0), Hypothesis("naïve", -2.5))),
]


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_a_list_is_read_as_it_was_written(tmp_path, suffix):
    """Ranks are numbers: hyp_10 comes after hyp_2."""
    path = tmp_path / f"list{suffix}"
    save_nbest(path, LISTS)
    assert load_nbest(path) == LISTS


def test_some_of_a_list_are_spread_over_it():
    many = [Utterance(str(number), (Hypothesis("a", 0.0),)) for number in range(10)]
    assert [utterance.id for utterance in some_of(many, 4)] == ["0", "2", "5", "7"]
    assert some_of(many, 20) == some_of(many, None) == many


def test_the_json_of_mlm_scoring(tmp_path):
    path = tmp_path / "list.json"
    hypotheses = {"hyp_2": {"score": -6, "text": " b"}, "hyp_1": {"score": -5.1, "text": " a"}}
    path.write_text(json.dumps({"1272-1": {**hypotheses, "ref": "a"}}))
    (utterance,) = load_nbest(path)
    assert utterance == Utterance("1272-1", (Hypothesis(" a", -5.1), Hypothesis(" b", -6.0)), "a")


def test_hypotheses_are_in_the_order_of_their_numbers_however_long_these_are(tmp_path):
    path = tmp_path / "list.json"
    numbers = ["x", "9" * 5001, "10", "9"]
    path.write_text(json.dumps({"u": {f"hyp_{number}": {"score": 0, "text": number} for number in numbers}}))
    (utterance,) = load_nbest(path)
    assert [hypothesis.text for hypothesis in utterance.hypotheses] == ["9", "10", "9" * 5001, "x"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no valid JSON"),
        ("[]", "holds no JSON object"),
        ("{}", "holds no utterance"),
        ('{"u7": []}', "utterance u7: is no object"),
        ('{"u7": {"ref": "a"}}', "utterance u7: has no hypothesis"),
        ('{"u7": {"hyp_1": {"text": "a"}}}', "utterance u7, hypothesis 1: `score` is None; expected a number"),
        ('{"u7": {"hyp_1": {"text": "a", "score": NaN}}}', "utterance u7, hypothesis 1: `score` is nan"),
        ('{"u7": {"hyp_1": {"score": 1}}}', "utterance u7, hypothesis 1: has no `text`"),
        ('{"u7": {"hyp_1": {"text": "a", "score": 1}, "ref": 3}}', "utterance u7: the reference is a int"),
    ],
    ids=["broken", "array", "empty", "utterance", "no-hypothesis", "no-score", "nan", "no-text", "reference"],
)
def test_a_mistake_names_its_utterance(tmp_path, content, message):
    path = tmp_path / "list.json"
    path.write_text(content)
    with pytest.raises(LexergyError) as error:
        load_nbest(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_a_mistake_in_jsonl_names_its_line(tmp_path):
    path = tmp_path / "list.jsonl"
    path.write_text('{"id": "a", "hypotheses": [{"text": "a", "score": 1}]}\n\n{"id": "b"}\n')
    with pytest.raises(LexergyError, match=r"Line 3 .* has no list `hypotheses`"):
        load_nbest(path)
    with pytest.raises(LexergyError, match="does not exist"):
        load_nbest(tmp_path / "none.json")


@pytest.fixture
def archive(own_cache, tmp_path, monkeypatch):
    """A stand-in for the published archive, with the same names inside."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name in librispeech.LISTS:
            content = json.dumps({f"{name}-1": {"hyp_1": {"score": -1.0, "text": " a"}, "ref": "a"}}).encode()
            info = tarfile.TarInfo(librispeech.INSIDE.format(name=name))
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    path = tmp_path / "archive.tar.gz"
    path.write_bytes(buffer.getvalue())
    monkeypatch.setattr(librispeech, "ARCHIVE", path.as_uri())
    monkeypatch.setattr(librispeech, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path


def test_lists_are_fetched_once(archive):
    paths = librispeech.librispeech_nbest()
    assert [load_nbest(path)[0].id for path in paths.values()] == [f"{name}-1" for name in librispeech.LISTS]
    archive.unlink()
    assert librispeech.librispeech_nbest() == paths


def test_an_archive_that_is_not_the_published_one_is_refused(archive):
    archive.write_bytes(archive.read_bytes()[:-1])
    with pytest.raises(LexergyError, match="has the SHA-256"):
        librispeech.librispeech_nbest()
    assert not librispeech.cache_folder().exists()


def test_an_archive_that_cannot_be_reached(archive):
    archive.unlink()
    with pytest.raises(LexergyError, match="could not be fetched"):
        librispeech.librispeech_nbest()
