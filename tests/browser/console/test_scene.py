"""The scene says nothing that a hall could not say: every answer is one that `/openapi.json` describes."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.browser.console.scene import BELOW, SCENE, TASKS
from tests.browser.console.scene_calls import RECORDS
from tests.browser.console.scene_tools import DEFINITIONS, TOOLS
from tests.browser.console.scene_upstreams import UPSTREAMS
from tests.browser.console.staging import answer

DESCRIBED = json.loads((Path(__file__).parents[2] / "golden/openapi.json").read_text())
IDS = {"/api/calls/{}": "/api/calls/{call}"}
QUERIES = [
    *[("/api/overview", {"window": each}) for each in ("15m", "24h", "7d")],
    ("/api/approvals", {"state": "decided"}),
    ("/api/tools", {"state": "quarantined"}),
    ("/api/tools", {"kind": "resource"}),
]


def schema_of(method: str, path: str) -> Any:
    """Return the schema of an answer."""
    content = DESCRIBED["paths"][path][method]["responses"]["200"]["content"]["application/json"]
    return {**content["schema"], "components": DESCRIBED["components"]}


def check_answer(described: str, path: str, query: dict[str, str]) -> None:
    """The scene's answer is one that is described there."""
    status, value = answer("GET", path, query, None)
    assert status == 200, path
    jsonschema_rs.validator_for(schema_of("get", described), validate_formats=True).validate(value)


@pytest.mark.parametrize("path", SCENE)
def test_scene_answers_as_described(path: str) -> None:
    check_answer(path, path, {})


@pytest.mark.parametrize(("path", "query"), QUERIES, ids=str)
def test_scene_answers_questions_as_described(path: str, query: dict[str, str]) -> None:
    check_answer(path, path, query)


@pytest.mark.parametrize("place", BELOW)
def test_scene_answers_below_ids_as_described(place: str) -> None:
    known = TASKS if "tasks" in place else DEFINITIONS
    ids = [each["call"] for each in RECORDS] if "calls" in place else [each["id"] for each in known]
    parameter = "{id}"
    if "upstreams" in place:
        ids, parameter = [each["name"] for each in UPSTREAMS], "{name}"
    for each in ids:
        check_answer(IDS.get(place, place.replace("{}", parameter)), place.replace("{}", each), {})


@pytest.mark.parametrize(
    ("path", "body"), [("/api/check", {"caller": "ci", "tool": TOOLS[0]["id"]}), ("/api/me/token", {})]
)
def test_scene_answers_posts_as_described(path: str, body: dict[str, str]) -> None:
    status, value = answer("POST", path, {}, body)
    assert status == 200
    jsonschema_rs.validator_for(schema_of("post", path), validate_formats=True).validate(value)
