"""One Spark session for all Spark tests, and stores that hold a real journal."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from delta_store.settling.spark_session import open_session
from tests.spark.store import Store

HERE = Path(__file__).parent
NOT_OURS = (
    "ignore::ResourceWarning",  # pyspark leaves its sockets to the garbage collector
    "ignore::pytest.PytestUnraisableExceptionWarning",  # the same, noticed by pytest
    "ignore:PySpark does not yet fully support pandas:FutureWarning",  # Spark 4.2; Silt hands it Arrow alone
    "ignore:.*is deprecated:DeprecationWarning",  # deltalake's own use of its table methods
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Warnings inside pyspark and deltalake fail no test of ours."""
    for item in items:
        if HERE in item.path.parents:
            for ignored in NOT_OURS:
                item.add_marker(pytest.mark.filterwarnings(ignored))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with small-machine settings; Spark is slow to start, so all tests share it."""
    scratch = tmp_path_factory.mktemp("spark")
    session = open_session(
        "tests",
        master="local[2]",
        spark__driver__memory="1g",
        spark__local__dir=scratch,
        spark__sql__warehouse__dir=scratch / "warehouse",
        spark__sql__shuffle__partitions=2,
    )
    yield session
    session.stop()


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> Callable[..., Store]:
    """Makes a store in this test's folder: a journal that real decisions fill, and the settle job's parts."""
    return lambda **options: Store(spark, tmp_path / "data", **options)
