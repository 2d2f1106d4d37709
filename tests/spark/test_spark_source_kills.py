"""The format ``silt`` on clusters and under kill -9: what goes through source and sink arrives once."""

from pathlib import Path

import pytest

from tests.spark.kill_copy import copied, job, kill_rounds, said, store_of
from tests.spark.sparks import connect_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def test_each_message_arrives_once_through_kills(tmp_path: Path) -> None:
    """Source and sink, killed at random points, settled meanwhile: nothing is lost and nothing doubled."""
    outcome = kill_rounds(tmp_path, messages=20_000, kills=3, seed=3)
    assert (outcome.lost, outcome.doubled) == (0, 0), outcome


def test_executors_of_a_cluster_read_and_write(tmp_path: Path) -> None:
    """Two executors in processes of their own, which have nothing but the package."""
    with store_of(tmp_path, 30_000) as (data, url):
        master = ("--master", "local-cluster[2,1,1024]")
        with job(data, url, tmp_path, *master, "--most", 10_000, until=30_000) as running:
            said(running, "copied", tmp_path)
        assert copied(data) == list(range(1, 30_001))


def test_a_session_of_spark_connect_reads_and_writes(tmp_path: Path) -> None:
    """The server plans and publishes; the client only asks."""
    with store_of(tmp_path, 30_000) as (data, url), connect_server(tmp_path / "server") as remote:
        with job(data, url, tmp_path, "--remote", remote, "--most", 10_000, until=30_000) as running:
            said(running, "copied", tmp_path)
        assert copied(data) == list(range(1, 30_001))
