"""The Databricks bundle: it fits the parts of the bundle schema that it uses, and starts what the wheel has.

The published schema (``databricks bundle schema``) has 600 KB and needs the CLI; :data:`SCHEMA` is written by hand
after it, closed where that is closed, for the fields that the bundle may use.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from delta_store.heads import view_text
from delta_store.heads.view_text import ViewEngine

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "conf" / "databricks"
TEXT = {"type": "string"}
PAUSED = {"enum": ["PAUSED", "UNPAUSED"]}


def closed(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    """The schema of an object with these fields and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def each(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object whose values are of one kind."""
    return {"type": "object", "additionalProperties": schema}


CLUSTER = closed(
    ("spark_version",),
    spark_version=TEXT,
    node_type_id=TEXT,
    num_workers={"type": "integer", "minimum": 0},
    data_security_mode={"enum": ["SINGLE_USER", "USER_ISOLATION"]},
    single_user_name=TEXT,
    aws_attributes=closed((), instance_profile_arn=TEXT),
    spark_env_vars=each(TEXT),
    spark_conf=each(TEXT),
)
TASK = closed(
    ("task_key",),
    task_key=TEXT,
    job_cluster_key=TEXT,
    python_wheel_task=closed(
        ("package_name", "entry_point"),
        package_name=TEXT,
        entry_point=TEXT,
        parameters={"type": "array", "items": TEXT},
    ),
    sql_task=closed(("warehouse_id",), warehouse_id=TEXT, file=closed(("path",), path=TEXT), parameters=each(TEXT)),
    libraries={"type": "array", "items": closed((), whl=TEXT)},
)
JOB = closed(
    (),
    name=TEXT,
    max_concurrent_runs={"type": "integer"},
    continuous=closed((), pause_status=PAUSED),
    schedule=closed(
        ("quartz_cron_expression", "timezone_id"),
        quartz_cron_expression=TEXT,
        timezone_id=TEXT,
        pause_status=PAUSED,
    ),
    job_clusters={
        "type": "array",
        "items": closed(("job_cluster_key", "new_cluster"), job_cluster_key=TEXT, new_cluster=CLUSTER),
    },
    tasks={"type": "array", "items": TASK},
)
SCHEMA = closed(
    ("bundle",),
    bundle=closed(("name",), name=TEXT),
    variables=each(closed((), description=TEXT, default=TEXT)),
    resources=closed((), jobs=each(JOB)),
    targets=each(
        closed(
            (),
            default={"type": "boolean"},
            mode={"enum": ["development", "production"]},
            workspace=closed((), root_path=TEXT),
        )
    ),
)


@pytest.fixture(scope="module")
def bundle() -> dict[str, Any]:
    """The bundle as the CLI reads it."""
    return dict(yaml.safe_load((FOLDER / "databricks.yml").read_text()))


def test_the_bundle_fits_the_schema(bundle: dict[str, Any]) -> None:
    """Every field is one that the schema knows, of its type; a field that is misspelt is found."""
    jsonschema.validate(bundle, SCHEMA)
    bundle["resources"]["jobs"]["settle"]["continous"] = {}
    with pytest.raises(jsonschema.ValidationError, match="continous"):
        jsonschema.validate(bundle, SCHEMA)
    del bundle["resources"]["jobs"]["settle"]["continous"]


def test_every_variable_is_declared_and_used(bundle: dict[str, Any]) -> None:
    """No job refers to a variable that is not there, and none is asked for in vain."""
    used = re.findall(r"\$\{var\.(\w+)\}", (FOLDER / "databricks.yml").read_text())
    assert set(used) == set(bundle["variables"])


def test_jobs_start_what_the_wheel_has(bundle: dict[str, Any]) -> None:
    """Package, entry point, cluster and SQL file exist; the file takes the parameters that it is given."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for job in bundle["resources"]["jobs"].values():
        clusters = {cluster["job_cluster_key"] for cluster in job.get("job_clusters", ())}
        for task in job["tasks"]:
            if wheel := task.get("python_wheel_task"):
                assert wheel["package_name"] == project["name"]
                assert wheel["entry_point"] in project["scripts"]
                assert task["job_cluster_key"] in clusters
            else:
                text = (FOLDER / task["sql_task"]["file"]["path"]).read_text()
                assert set(re.findall(r":(\w+)", re.sub(r"--.*|'[^']*'", "", text))) == set(
                    task["sql_task"]["parameters"]
                )


def test_the_view_is_the_printed_one() -> None:
    """``views.sql`` has what ``silt views --engine databricks`` prints, and registers the same tables."""
    text = (FOLDER / "views.sql").read_text()
    assert text.endswith(view_text.live_view(ViewEngine.DATABRICKS, ""))
    for statement in view_text.tables("store").splitlines():
        assert f"SET VAR statement = '{statement.partition(' LOCATION')[0]}" in text
