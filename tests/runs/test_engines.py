"""Engines: whoever computes the shards, in whatever order, they are the same to the last bit."""

import re
from collections import deque
from types import SimpleNamespace

import numpy
import pyarrow
import pytest
import torch
from pydantic import ValidationError

from lexergy.errors import LexergyError
from lexergy.recipes.sections.engine import EngineRecipe
from lexergy.runs.engine_choice import using_recipe
from lexergy.runs.engines import current_engine, using_engine
from lexergy.runs.ray_engine import MOST_DEATHS, _Crew
from lexergy.runs.shards import ShardStore
from lexergy.runs.transport import from_bytes, to_bytes
from lexergy.tasks.residual.run import run
from lexergy.testing import tiny_recipe, write_tiny_corpus

cloudpickle = pytest.importorskip("cloudpickle")


class Elsewhere:
    """As an engine of other processes: from bytes, and the last shard first."""

    workers = 1

    def tables(self, shards, compute, read):
        sent = from_bytes(to_bytes(compute, cloudpickle.CloudPickler))
        for index in reversed(shards):
            yield index, sent(read(index))


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("shard-*.parquet"))}


def test_shards_computed_elsewhere_are_those_of_this_process(tmp_path):
    recipe = tiny_recipe(write_tiny_corpus(tmp_path / "texts"))
    run(recipe, tmp_path / "here", progress=False)
    with using_engine(Elsewhere()):
        run(recipe, tmp_path / "elsewhere", progress=False)
    assert len(contents(tmp_path / "here")) == 2
    assert contents(tmp_path / "elsewhere") == contents(tmp_path / "here")


def test_progress_tells_how_many_work(tmp_path, capsys):
    with using_engine(Elsewhere()):
        ShardStore(tmp_path, {}).fill(2, lambda index: pyarrow.table({"value": [index]}), "rows", tokens_per_row=5)
    assert re.search(r"^rows 2/2 \d+s workers 1  tokens per second \d", capsys.readouterr().err, re.MULTILINE)


def test_tensors_arrive_where_they_lay_and_share_what_they_shared():
    memory = numpy.zeros(1000, numpy.uint8)
    for start in (0, 1, 6, 15):
        # As weights mapped from a file lie: torch's own memory would begin with a cache line.
        first = (4 * start - memory.ctypes.data) % 64
        room = torch.from_numpy(memory[first : first + 400].view(numpy.float32)).copy_(torch.arange(100.0))
        assert room.data_ptr() % 64 == 4 * start
        tensors = [room[start:80], room[start + 2 : start + 62].view(-1, 4)[:, ::2].T]
        own = [torch.nn.Parameter(tensors[0]), *tensors]
        sent = from_bytes(to_bytes(own, cloudpickle.CloudPickler))
        for before, after in zip(own, sent, strict=True):
            assert torch.equal(before, after)
            assert (before.data_ptr() - after.data_ptr()) % 64 == 0
            assert before.stride() == after.stride()
            assert type(before) is type(after)
            assert before.requires_grad == after.requires_grad
        sent[1].zero_()
        assert not sent[2].any()


def test_an_engine_in_a_line():
    assert EngineRecipe.model_validate("ray:actors=4,cpus=2,gpus=0.5") == EngineRecipe(
        kind="ray", actors=4, cpus=2, gpus=0.5
    )
    assert EngineRecipe.model_validate("in-place") == EngineRecipe()


@pytest.mark.parametrize(
    "text", ["spark", "ray:actors=0", "ray:cpus=-1", "ray:acters=1", "ray:gpus=nan", "in-place:cpus=1"]
)
def test_no_such_engine(text):
    with pytest.raises(ValidationError):
        EngineRecipe.model_validate(text)


def test_what_the_caller_says_goes_before_the_recipe():
    engine = Elsewhere()
    with using_engine(engine), using_recipe(EngineRecipe()):
        assert current_engine() is engine
    with using_recipe(EngineRecipe()):
        assert current_engine() is None, "a workspace that is open would look like `--engine in-place`"


def test_the_engine_is_no_part_of_a_result(tmp_path):
    recipe = tiny_recipe(write_tiny_corpus(tmp_path / "texts"))
    changed = type(recipe).model_validate(recipe.plain() | {"engine": "ray:actors=2"})
    assert changed.engine.actors == 2
    assert changed.plain() == recipe.plain()


class FakeRay:
    """Ray as far as a crew knows it: `room` actors get ready, no more; the mortal ones die at their first shard."""

    class RayError(Exception):
        pass

    class RayTaskError(RayError):
        pass

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, room, mortal):
        self.room, self.mortal = room, mortal
        self.hired, self.killed = 0, []

    def remote(self, **resources):
        return lambda worker: SimpleNamespace(remote=self.hire)

    def hire(self, compute, threads):
        self.hired += 1
        number = self.hired
        return SimpleNamespace(
            number=number,
            ready=SimpleNamespace(remote=lambda: ("ready", number, None)),
            shard=SimpleNamespace(remote=lambda index: ("shard", number, index)),
        )

    def wait(self, answers, num_returns):
        coming = sorted(answer for answer in answers if answer[1] <= self.room)  # who is ready before what is computed
        assert coming, "waits for an actor that no node has room for"
        return coming[:num_returns], None

    def get(self, answer):
        if answer[0] == "shard" and answer[1] in self.mortal:
            raise self.RayError("died")
        return answer[2]

    def kill(self, actor):
        self.killed.append(actor.number)


def test_a_dead_workers_shard_goes_to_who_is_idle_though_no_new_worker_comes():
    ray = FakeRay(room=2, mortal=[2])
    crew = _Crew(ray, None, 1, 0)
    crew.hire()
    crew.hire()
    assert sorted(crew.work(deque(range(2)), read=lambda index: f"row {index}")) == [(0, "row 0"), (1, "row 1")]
    crew.dismiss()
    assert (ray.hired, sorted(ray.killed)) == (3, [1, 2, 3])


def test_a_shard_that_kills_every_worker_is_given_up():
    ray = FakeRay(room=100, mortal=range(100))
    crew = _Crew(ray, None, 1, 0)
    crew.hire()
    with pytest.raises(LexergyError, match=f"{MOST_DEATHS} of Ray's workers died while they computed shard 7"):
        list(crew.work(deque([7])))
    assert ray.hired == MOST_DEATHS
