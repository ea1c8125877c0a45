"""Places with an address: fsspec's memory, a disk on which files grow while they are written, and an S3 server."""

import logging
import os
import uuid

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from lexergy.files import publishers

PIECES = 8


class Disk(LocalFileSystem):
    """A shared disk: a file is seen while it is being written, and renamed at once."""

    protocol = "disk"
    cachable = False

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(str(path).removeprefix("disk://"))

    def put_file(self, lpath, rpath, callback=None, **kwargs):
        with open(lpath, "rb") as file:
            content = file.read()
        size = max(1, len(content) // PIECES)
        with open(self._strip_protocol(rpath), "wb") as file:
            for start in range(0, len(content), size):
                file.write(content[start : start + size])
                file.flush()
                self.piece_written()

    def piece_written(self):
        return None


fsspec.register_implementation("disk", Disk, clobber=True)


@pytest.fixture(scope="session")
def s3_server():
    """The settings with which every process finds the server."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    yield {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "toy",
        "AWS_SECRET_ACCESS_KEY": "toy",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    server.stop()


@pytest.fixture
def s3_place(s3_server, own_cache, monkeypatch):
    for name, value in s3_server.items():
        monkeypatch.setenv(name, value)
    fsspec.filesystem("s3").clear_instance_cache()
    bucket = f"toy-{uuid.uuid4().hex[:12]}"
    fsspec.filesystem("s3").mkdir(bucket)
    yield f"s3://{bucket}/run"
    publishers.clear()
    fsspec.filesystem("s3").clear_instance_cache()


@pytest.fixture
def disk_place(own_cache, tmp_path):
    (tmp_path / "disk").mkdir()
    yield f"disk://{tmp_path}/disk/run"
    publishers.clear()


@pytest.fixture
def memory_place(own_cache):
    name = uuid.uuid4().hex[:12]
    yield f"memory://{name}/run"
    publishers.clear()
    fsspec.filesystem("memory").rm(f"/{name}", recursive=True) if fsspec.filesystem("memory").exists(
        f"/{name}"
    ) else None


@pytest.fixture(params=["memory_place", "disk_place", "s3_place"])
def place(request):
    """The address of a run in each of them."""
    return request.getfixturevalue(request.param)


def another_machine(monkeypatch, tmp_path):
    """From now on, mirrors are those of a machine that has fetched nothing yet."""
    publishers.clear()
    folder = tmp_path / f"cache-{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv("LEXERGY_CACHE", os.fspath(folder))
    return folder
