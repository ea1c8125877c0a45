import base64
import dataclasses
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import torch

from lexergy.core.estimation.coverage import Ranks
from lexergy.report.pages import run as page
from lexergy.report.pages.run import page_content, rank_sentence, render_page, training_panels, write_report
from toys.runs import make_perplexity, make_run, make_windows

VOID = {"meta", "img", "br", "link", "input", "hr"}


class Reader(HTMLParser):
    """Collects tags, attributes and text; every tag must be closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_page_stands_alone(hostile_page):
    reader = Reader(hostile_page)
    links = [value for _, name, value in reader.attributes if name in ("src", "href", "srcset", "data", "action")]
    assert links
    assert all(link.startswith("data:image/svg+xml;base64,") for link in links)
    assert "//" not in re.sub(r'src="data:[^"]*"', "", hostile_page)
    assert "url(" not in hostile_page
    assert not {"script", "link", "iframe", "object"} & set(reader.tags)


def test_figures_are_valid_svg_with_a_title(hostile_page):
    reader = Reader(hostile_page)
    images = [dict(pairs) for pairs in _images(reader)]
    assert len(images) == 6  # bound, energies, weights, ranks, training, timings
    for image in images:
        svg = base64.b64decode(image["src"].partition(",")[2])
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert len(image["alt"]) > 10


def _images(reader):
    sources = [value for tag, name, value in reader.attributes if (tag, name) == ("img", "src")]
    titles = [value for tag, name, value in reader.attributes if (tag, name) == ("img", "alt")]
    return [(("src", source), ("alt", title)) for source, title in zip(sources, titles, strict=True)]


def test_what_a_model_writes_stays_text(hostile_page):
    reader = Reader(hostile_page)
    assert "script" not in reader.tags
    assert "onerror" not in {name for _, name, _ in reader.attributes}
    assert "<script>alert(1)</script> & \"quoted\" <img src=x onerror='alert(2)'>" in reader.text


def test_page_shows_every_part(hostile_page):
    text = Reader(hostile_page).text
    for part in (
        "at most 26.85",
        "26.34 - 26.53",
        "0.069 ± 0.008",
        "k-hat 0.31 is no more than 0.45",
        "error over 16 documents",
        "people's energy is below that of all 64 samples",
        "Lowest energy",
        "Highest energy",
        "a very important part of the state",
        "7 min 15 s in all",
        "180 train, 23 validation, 23 test",
        "64 tokens given, 32 tokens predicted",
        "smollm2-135m",
        "learning_rate: 0.001",
        "2.13.0",
    ):
        assert part in text


def test_several_energies_share_a_prompt(tmp_path, no_drawing):
    content = page_content(make_run(tmp_path, energies=("unit", "bit")))
    (sample,) = content["samples"]
    assert [joint["title"] for joint in sample["joints"]] == [
        "Joint model with “unit”",
        "Joint model with “bit”",
    ]
    assert len(content["energies"]) == 2


def test_share_ranked_right(run_result, no_drawing):
    energy = dataclasses.replace(
        run_result.energies["energy"],
        measured=make_perplexity(windows=make_windows(torch.tensor([0.0, 10.0]))),
        lm_energies=np.array([[1.0, -1.0, 2.0, 3.0], [11.0, 12.0, 13.0, 14.0]]),
    )
    figures = page_content(dataclasses.replace(run_result, energies={"energy": energy}))["energies"][0]["figures"]
    assert "88 % of the LM's continuations have a higher energy" in figures[0].caption


def test_the_sentence_about_ranks_follows_the_numbers():
    """20 documents of 10 windows; the lowest energy is people's in some of them, and should be in half."""

    def sentence(share):
        is_lowest = torch.tensor([float(window % 10 < 10 * share) for window in range(200)], dtype=torch.double)
        half = torch.full((200,), 0.5, dtype=torch.double)
        spread = 0.01 * torch.arange(200, dtype=torch.double).sin()
        found = Ranks(low=half, high=half, is_lowest=is_lowest, lowest_weight=half + spread)
        return rank_sentence(found, [window // 10 for window in range(200)], num_samples=32)

    assert sentence(0.7) == (
        "In 70 % of windows people's energy is below that of all 32 samples. It would be in 50 % if the joint model "
        "were right, and in 3 % if the LM were: the joint model still under-rates people's text."
    )
    assert sentence(0.3).endswith("the energy is surer of itself than people's text bears out.")
    assert sentence(0.5).endswith("this does not speak against the joint model.")


def test_training_panels_keep_only_what_was_measured(run_result):
    panels = training_panels(run_result.energies["energy"].history)
    assert list(panels) == ["loss", "accuracy"]
    assert panels["loss"]["validation"].steps[0] == 0
    assert panels["loss"]["training"].steps[0] == 5  # nothing was trained before step 0
    language_model = ({"step": 10, "loss": 3.0, "training": {}, "validation": {"loss": 2.0, "perplexity": 7.4}},)
    assert training_panels(language_model) == {"loss": {"training": ((10,), (3.0,)), "validation": ((10,), (2.0,))}}


def test_page_survives_numbers_that_are_not(tmp_path):
    nothing = float("nan")
    changes = {"pareto_k": nothing, "bound": float("inf"), "upper": float("inf"), "std_error": nothing, "ess": nothing}
    assert "Nothing bounds" in Reader(render_page(make_run(tmp_path, **changes))).text


def test_report_is_written_into_the_run(run_result, no_drawing, monkeypatch):
    monkeypatch.setattr(page, "load_run", lambda folder: run_result)
    path = write_report(run_result.folder)
    assert path == run_result.folder / "report.html"
    assert [file.name for file in run_result.folder.iterdir()] == ["report.html"]
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
