"""Shards on a Ray cluster of two nodes, whose workers and nodes die."""

import os
import signal
import sys
import threading

import numpy
import pyarrow
import pytest

from lexergy.cli.main import run_command
from lexergy.errors import LexergyError
from lexergy.runs.ray_engine import RayEngine

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'lexergy[ray]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # of Ray's own
NODE = {"num_cpus": 1, "object_store_memory": 80_000_000}


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    nodes = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    try:
        nodes.add_node(**NODE)
        ray.init(address=nodes.address, log_to_driver=False, logging_level="error")
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()


def shard(index):
    return pyarrow.table({"value": numpy.random.default_rng(index).normal(size=5)})


def once(marker):
    """Whether this is the first call of all processes with this file."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def test_a_run_on_two_nodes_is_that_of_one_process(cluster, tiny_run, tiny_recipe_file, tmp_path):
    command = ["run", str(tiny_recipe_file), "--out", str(tmp_path / "run"), "--json", "--engine", "ray:cpus=1"]
    assert run_command(command) == 0
    shards = sorted(path.relative_to(tiny_run) for path in tiny_run.rglob("shard-*.parquet"))
    assert len(shards) == 2
    for path in shards:
        assert (tmp_path / "run" / path).read_bytes() == (tiny_run / path).read_bytes()


def test_a_dead_worker_and_a_dead_node_lose_and_double_nothing(cluster, tmp_path):
    def compute(index):
        if index == 3 and once(tmp_path / "killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        return shard(index)

    node = cluster.add_node(**NODE)
    computed = []
    for index, table in RayEngine(actors=3, cpus=1).tables(range(40), compute):
        computed.append(index)
        assert table.equals(shard(index))
        if len(computed) == 10:
            cluster.remove_node(node, allow_graceful=False)
    assert (tmp_path / "killed").exists()
    assert sorted(computed) == list(range(40))


def test_mistakes_arrive_as_they_are(cluster):
    def compute(index):
        raise LexergyError(f"shard {index} is wrong")

    with pytest.raises(LexergyError, match=r"^shard 0 is wrong$"):
        list(RayEngine(actors=1, cpus=1).tables([0], compute))


def test_more_than_a_node_has(cluster):
    with pytest.raises(LexergyError, match="no node of the Ray cluster has 64 CPUs"):
        list(RayEngine(cpus=64).tables([0], shard))


def test_what_cannot_be_sent(cluster):
    lock = threading.Lock()
    with pytest.raises(LexergyError, match="cannot be sent to Ray's workers"):
        list(RayEngine(cpus=1).tables([0], lambda index: lock.acquire()))
