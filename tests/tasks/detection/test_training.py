"""Training a detector: what is printed is what the saved detector says, and shortcuts are found and closed."""

import math
from dataclasses import asdict, replace

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from lexergy.core.detection.classification import classification_metrics
from lexergy.errors import LexergyError
from lexergy.models.detection import Detector
from lexergy.models.detection.readers import TokenisedText
from lexergy.models.energies import StatesEnergy
from lexergy.recipes.detection import DetectorRecipe
from lexergy.runs.stages import read_stage
from lexergy.tasks.detection import states
from lexergy.tasks.detection import training as training_module
from lexergy.tasks.detection.calibrating import cut_lengths, endings, read_pieces
from lexergy.tasks.detection.examples import Example, ExampleSplits, load_examples, split_examples
from lexergy.tasks.detection.generation import GeneratedPairs
from lexergy.tasks.detection.heads import fit_head
from lexergy.tasks.detection.prepared import PreparedTexts, prepare_splits, prepare_texts
from lexergy.tasks.detection.shortcuts import audit_shortcuts
from lexergy.tasks.detection.together import halves
from lexergy.tasks.detection.training import DETECTOR, TF_IDF, train_detector
from lexergy.training import loop
from toys.kills import killed_once, killed_when_done
from toys.texts import PEOPLE, written


def refuse(*arguments, **options):
    raise AssertionError("it is finished")


def file_times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != ".lock"}


def stage_keys(folder):
    return {path.parent.name: read_stage(path.parent).key for path in folder.glob("*/stage.json")}


def whole_in(report, folder):
    return replace(report, folder=str(folder))


def corpus_of_people(folder):
    folder.mkdir()
    for number in range(12):
        (folder / f"{number}.txt").write_text(written(PEOPLE, number))
    return folder


@pytest.fixture(scope="module")
def examples(text_pairs_file):
    return load_examples([str(text_pairs_file)], [str(text_pairs_file)], human_field="human", machine_field="machine")


@pytest.fixture(scope="module", params=["states", "encoder"])
def trained(request, examples, word_lm_folder, word_encoder_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("detectors") / request.param
    training = DetectorRecipe(
        lm=str(word_lm_folder),
        layers=(1,),
        encoder=str(word_encoder_folder) if request.param == "encoder" else None,
        epochs=6,
        block_tokens=64 if request.param == "states" else 32,
        validation=0.2,
        test=0.3,
    )
    return train_detector(examples, training, folder, progress=False), training, folder


def test_it_learns_and_its_report_is_what_the_saved_detector_says(trained, examples):
    report, training, folder = trained
    splits = split_examples(examples, validation=training.validation, test=training.test, seed=training.seed)
    detector = Detector.from_pretrained(folder)
    found = list(detector.detect(example.text for example in splits.test))
    energies = torch.tensor([math.log(each.probability / (1 - each.probability)) for each in found])
    is_machine = torch.tensor([example.is_machine for example in splits.test])
    expected = classification_metrics(energies, is_machine, [example.group for example in splits.test])
    assert report.metrics[DETECTOR].auc == pytest.approx(expected.auc)
    assert report.metrics[DETECTOR].balanced_accuracy == pytest.approx(expected.balanced_accuracy)
    assert report.metrics[DETECTOR].auc.value > 0.9
    assert report.metrics[TF_IDF].auc.value > 0.9
    assert report.calibration == detector.settings.text
    assert report.span_calibration == detector.settings.span
    assert report.trained_on == detector.settings.trained_on


def test_log_z_is_of_the_calibrated_energies(trained, examples):
    report, training, folder = trained
    splits = split_examples(examples, validation=training.validation, test=training.test, seed=training.seed)
    machine = [example.text for example in splits.test if example.is_machine]
    found = list(Detector.from_pretrained(folder).detect(machine))
    energies, tokens = (torch.tensor([getattr(each, name) for each in found]) for name in ("energy", "tokens"))
    expected = (-report.calibration.log_odds(energies, tokens)).exp().mean().log()
    assert set(report.log_z) == {f"{examples[0].source} ({who})" for who in ("people", "machines")}
    assert report.log_z[f"{examples[0].source} (machines)"].value == pytest.approx(float(expected), abs=1e-3)


def test_the_error_of_log_z_is_over_documents():
    """Ten texts of a document that are all alike are one text."""
    energies = torch.linspace(-2, 2, 8, dtype=torch.double)

    def errors(times):
        texts = PreparedTexts(
            texts=[],
            is_machine=torch.tensor([False, True]).repeat(4).repeat_interleave(times),
            groups=[f"document {n // 2}" for n in range(8) for _ in range(times)],
            sources=["corpus"] * 8 * times,
        )
        values = training_module._log_z(energies.repeat_interleave(times), texts, seed=0).values()
        return [log_z.std_error for log_z in values]

    assert errors(10) == pytest.approx(errors(1))
    assert min(errors(1)) > 0


def test_pieces_are_read_as_texts_of_their_own(detector):
    texts = [detector.read(written(PEOPLE, n)) for n in range(2)]
    cuts, spans = read_pieces(detector, texts)
    for number, text in enumerate(texts):
        own = [place for place, of in enumerate(cuts.texts) if of == number]
        lengths = [cuts.tokens[place] for place in own]
        assert lengths == [len(text.last(length).ids) for length in (*cut_lengths(len(text.ids)), len(text.ids))]
        for place in own:
            (alone,) = detector.judge([text.last(cuts.tokens[place])])
            assert cuts.energies[place] == pytest.approx(alone.energy, abs=1e-4)
        (whole,) = detector.judge([text])
        of_spans = [spans.energies[place] for place, of in enumerate(spans.texts) if of == number]
        assert of_spans == pytest.approx([span.energy for span in whole.spans], abs=1e-4)


def test_an_end_that_is_too_short_to_be_read_is_left_out():
    """The last eight tokens are pieces of one long word, but the last."""
    characters = [(0, 2), (2, 4), *((place, place + 1) for place in range(4, 14)), (14, 16)]
    text = TokenisedText("ab cdefghijklm x", list(range(13)), characters)
    assert len(text.last(8).ids) == 1
    assert [len(part.ids) for part in endings(text)] == [13]


def test_shortcuts_of_the_stored_texts_are_closed(trained):
    report, _, _ = trained
    assert report.shortcuts_stored.by_shortcut["line breaks"] > 0.95
    assert "line breaks" in report.shortcuts_stored.alarming
    assert report.shortcuts_seen.by_shortcut["line breaks"] == 0.5
    assert report.shortcuts_stored.by_shortcut["length"] > report.shortcuts_seen.by_shortcut["length"]


def test_the_same_seed_gives_the_same_detector(examples, word_lm_folder, tmp_path):
    training = DetectorRecipe(lm=str(word_lm_folder), layers=(1,), block_tokens=64, validation=0.2, test=0.3)
    first, second = (
        train_detector([*examples[:10], *examples[-30:-20]], training, tmp_path / name, progress=False) for name in "ab"
    )
    assert asdict(first) | {"folder": ""} == asdict(second) | {"folder": ""}


def test_a_finished_training_is_only_read(trained, examples, monkeypatch):
    report, training, folder = trained
    before = file_times(folder)
    for name in ("encoder_detector", "states_detector", "audit_shortcuts"):
        monkeypatch.setattr(training_module, name, refuse)
    assert train_detector(examples, training, folder, progress=False) == report
    assert file_times(folder) == before


def test_a_change_redoes_what_depends_on_it(examples, word_lm_folder, tmp_path):
    pairs = GeneratedPairs(
        (str(corpus_of_people(tmp_path / "corpus")),), (str(word_lm_folder),), 30, prompt_tokens=4, new_tokens=12
    )
    recipe = DetectorRecipe(lm=str(word_lm_folder), block_tokens=64, validation=0.2, test=0.3)
    folder = tmp_path / "out"
    first = train_detector(pairs, recipe, folder, progress=False)
    keys = stage_keys(folder)
    train_detector(pairs, recipe.model_copy(update={"epochs": 9}), folder, progress=False)  # of an encoder
    assert stage_keys(folder) == keys
    train_detector(pairs, recipe.model_copy(update={"layers": (1,)}), folder, progress=False)
    changed = stage_keys(folder)
    assert changed["texts"] == keys["texts"]
    assert changed["detector"] != keys["detector"]
    assert changed["report"] != keys["report"]
    train_detector(replace(pairs, pairs=25), recipe, folder, progress=False)
    assert stage_keys(folder)["texts"] != keys["texts"]
    assert train_detector(pairs, recipe, folder, progress=False) == first
    assert stage_keys(folder) == keys


def test_a_killed_reading_goes_on_to_the_same_detector(examples, word_lm_folder, tmp_path, monkeypatch):
    recipe = DetectorRecipe(lm=str(word_lm_folder), layers=(1,), block_tokens=64, validation=0.2, test=0.3)
    whole = train_detector(examples, recipe, tmp_path / "whole", progress=False)
    read = states.block_features
    monkeypatch.setattr(states, "block_features", killed_once(read, 21))
    with pytest.raises(KeyboardInterrupt):
        train_detector(examples, recipe, tmp_path / "killed", progress=False)
    with pytest.raises(LexergyError, match="no detector at"):
        Detector.from_pretrained(tmp_path / "killed")
    again = []
    monkeypatch.setattr(states, "block_features", lambda *given: again.append(given) or read(*given))
    assert train_detector(examples, recipe, tmp_path / "killed", progress=False) == whole_in(whole, tmp_path / "killed")
    texts = whole.texts["train"], whole.texts["test"]
    assert len(again) == sum(count for part in texts for count in part.values()) - states.TEXTS_PER_SHARD
    weights = [next((tmp_path / name / "detector" / "energy").glob("*.safetensors")) for name in ("whole", "killed")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


@pytest.mark.parametrize("trained", ["encoder"], indirect=True)
def test_a_killed_fine_tuning_goes_on_to_the_same_detector(trained, examples, tmp_path, monkeypatch):
    report, training, _ = trained
    monkeypatch.setattr(loop, "save_checkpoint", killed_when_done(loop.save_checkpoint))
    with pytest.raises(KeyboardInterrupt):
        train_detector(examples, training, tmp_path, progress=False)
    monkeypatch.undo()
    assert train_detector(examples, training, tmp_path, progress=False) == whole_in(report, tmp_path)
    assert read_stage(tmp_path / "detector").attempts == 2


def test_the_head_is_the_logistic_regression_on_standardised_features(word_lm):
    generator = torch.Generator().manual_seed(0)
    energy = StatesEnergy.for_lm(word_lm, (), statistics="moments")
    features = 5 + 2 * torch.randn(60, 10, generator=generator)
    is_machine = features[:, 3] + torch.randn(60, generator=generator) > 5
    groups = [f"group {n // 2}" for n in range(60)]
    strength = fit_head([energy], [features], is_machine, groups)
    standard = (features - features.mean(0)) / features.std(0, correction=0)
    fitted = LogisticRegression(C=strength, class_weight="balanced", max_iter=2000).fit(standard, is_machine)
    with torch.no_grad():
        energies = energy.of_features(features)
    torch.testing.assert_close(
        energies.double(), torch.from_numpy(fitted.decision_function(standard)), atol=1e-3, rtol=0
    )
    assert ((energies > 0) == is_machine).float().mean() > 0.8


def test_the_head_on_several_lms_is_one_regression_on_all_their_features(word_lm):
    """Only the difference of two features tells, and neither alone."""
    generator = torch.Generator().manual_seed(0)
    energies = [StatesEnergy.for_lm(word_lm, (), statistics="moments") for _ in range(2)]
    features = [5 + 2 * torch.randn(80, 10, generator=generator) for _ in energies]
    is_machine = torch.arange(80) % 2 == 1
    features[1][:, 3] = features[0][:, 3] + torch.where(is_machine, 1.5, -1.5)
    groups = [f"group {n // 2}" for n in range(80)]
    strength = fit_head(energies, features, is_machine, groups)
    standard = torch.cat([(own - own.mean(0)) / own.std(0, correction=0) for own in features], 1)
    fitted = LogisticRegression(C=strength, class_weight="balanced", max_iter=2000).fit(standard, is_machine)
    found = states.text_energies(energies, [row[None] for row in torch.cat(features, 1)])
    torch.testing.assert_close(found, torch.from_numpy(fitted.decision_function(standard)), atol=1e-3, rtol=0)
    assert ((found > 0) == is_machine).float().mean() > 0.95


def test_lms_and_an_encoder_together(examples, word_lm_folder, word_encoder_folder, tmp_path):
    recipe = DetectorRecipe(
        lm=str(word_lm_folder),
        more_lms=(str(word_lm_folder),),
        encoder=str(word_encoder_folder),
        together=True,
        epochs=1,
        block_tokens=32,
        validation=0.3,
        test=0.3,
    )
    examples = [*examples[:16], *examples[30:46]]
    report = train_detector(examples, recipe, tmp_path, progress=False)
    assert list(report.metrics) == ["detector", "LMs alone", "encoder alone", "likelihood", "TF-IDF"]
    assert report.metrics["detector"].auc.value > 0.9
    detector = Detector.from_pretrained(tmp_path)
    assert [reader.kind for reader in detector.reader.members] == ["states", "states", "encoder"]
    first, second, _ = detector.reader.coefficients
    assert first == second  # one head
    test = split_examples(examples, validation=0.3, test=0.3, seed=0).test
    is_machine = torch.tensor([own.is_machine for own in test])
    found = torch.tensor(detector.scores(own.text for own in test))
    raw = classification_metrics(found, is_machine, [own.group for own in test])
    assert raw.auc.value == pytest.approx(report.metrics["detector"].auc.value, abs=0.05)  # calibrated by length
    validation = split_examples(examples, validation=0.3, test=0.3, seed=0).validation  # of five pairs
    assert len(detector.settings.people) == len(validation) // 4  # of the half that no weight was fitted on
    lone = DetectorRecipe(encoder=recipe.encoder, epochs=1, block_tokens=32, validation=0.3, test=0.3)
    assert recipe.encoder_alone == lone.model_copy(update={"lm": recipe.lm})
    assert training_module._config(recipe.encoder_alone) == training_module._config(lone)


def test_weights_are_fitted_on_other_documents_than_probabilities(examples, states_detector):
    texts = prepare_texts(states_detector, examples)
    first, second = halves(texts)
    assert not set(first.groups) & set(second.groups)
    assert sorted(first.groups + second.groups) == sorted(texts.groups)
    assert abs(len(first) - len(second)) <= 2
    assert [own.ids for own in first.texts] == [
        own.ids for own, group in zip(texts.texts, texts.groups, strict=True) if group in first.groups
    ]
    assert first.is_machine.tolist() == [
        machine for machine, group in zip(texts.is_machine.tolist(), texts.groups, strict=True) if group in first.groups
    ]


def test_groups_on_both_sides_would_flatter_the_penalty(word_lm):
    """Features that only name the group are worthless: the strongest penalty is chosen."""
    generator = torch.Generator().manual_seed(0)
    named = torch.randn(30, 10, generator=generator).repeat_interleave(4, 0)
    is_machine = torch.rand(30, generator=generator).repeat_interleave(4) > 0.5
    groups = [f"group {n // 4}" for n in range(120)]
    energy = StatesEnergy.for_lm(word_lm, (), statistics="moments")
    assert fit_head([energy], [named], is_machine, groups) <= 1e-2
    assert fit_head([energy], [named], is_machine, [str(n) for n in range(120)]) == 1.0


@pytest.mark.parametrize(
    ("shortcut", "change"),
    [
        ("length", lambda text: text[: len(text) // 2]),
        ("line breaks", lambda text: text.replace(". ", ".\n")),
        ("other whitespace", lambda text: text.replace(".", " .")),
        ("end of text", lambda text: text.rstrip(".")),
        ("quotes and encoding", lambda text: f"“{text}”"),
        ("punctuation", lambda text: text.replace(" and ", "; and ").replace(" the ", ", the ")),
    ],
)
def test_a_shortcut_is_named(shortcut, change):
    texts = [written(PEOPLE, n) for n in range(60)]
    stored = [change(text) if n % 2 else text for n, text in enumerate(texts)]
    groups = [str(n // 2) for n in range(60)]
    audit = audit_shortcuts(stored, [n % 2 == 1 for n in range(60)], groups)
    assert shortcut in audit.alarming
    assert audit.by_shortcut[shortcut] > 0.9
    fair = audit_shortcuts(texts, [n % 2 == 1 for n in range(60)], groups)
    assert fair.accuracy < 0.75


def test_where_texts_were_cut_does_not_tell_who_wrote_them(states_detector):
    """People's texts are twice as long, and only they would break off within a sentence."""
    examples = [
        Example(written(PEOPLE, n) + (" " + written(PEOPLE, n + 100) if n % 2 else ""), n % 2 == 0, "toy", str(n))
        for n in range(60)
    ]
    splits = ExampleSplits(examples, examples, examples)
    train = prepare_splits(states_detector, splits).train
    ends = [text.text.rstrip()[-1] in ".!?" for text in train.texts]
    machine = train.is_machine.tolist()
    audit = audit_shortcuts([text.text for text in train.texts], machine, train.groups)
    assert audit.by_shortcut["end of text"] < 0.65
    assert audit.by_shortcut["length"] < 0.65
    assert sum(ends) < len(ends) / 2
