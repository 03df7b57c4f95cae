"""Vectors of each dialect's messages, sent in order to a hall with the example tools."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.dialects import judge
from tests.harness import asgi_client
from tests.tables import each_row
from toolhall import Toolhall
from toolhall.examples.calculator import Calculator
from toolhall.examples.doorbell import Doorbell
from toolhall.examples.house import House
from toolhall.examples.system import System
from toolhall.examples.weather import get_weather

PATHS = {"machine": "/machine", "hub": "/hub", "oxp": "/oxp"}
DIALECTS = sorted(PATHS)


@pytest.fixture
def hall() -> Iterator[Toolhall]:
    """The example tools; the log keeps its level."""
    log = logging.getLogger("toolhall")
    level = log.level
    with Toolhall(Calculator, Doorbell, House, System, get_weather) as hall:
        hall.without_pages()
        yield hall
    log.setLevel(level)


async def sent(hall: Toolhall, method: str, path: str, message: Any) -> tuple[int, Any]:
    """The status and the value of the reply to one HTTP request."""
    body = b"" if message is None else json.dumps(message).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    reply = await asgi_client.send(hall, method, path, body, headers)
    return reply.status, reply.json if reply.body else None


def where(dialect: str, vector: dict[str, Any]) -> tuple[str, str]:
    """The HTTP method and the path of a request."""
    usual = "/tools/call" if dialect == "oxp" else ""
    return vector.get("method", "POST"), PATHS[dialect] + vector.get("path", usual)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_vectors_have_expected_responses(hall: Toolhall, dialect: str) -> None:
    wrong: list[Any] = []
    for vector in judge.vectors(dialect):
        status, reply = await sent(hall, *where(dialect, vector), vector["request"])
        if status != vector["status"] or not judge.like(vector["reply"], reply):
            wrong.append((vector["name"], status, reply))
    assert not wrong, json.dumps(wrong, indent=2)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_vectors_responses_match_dialect_schemas(hall: Toolhall, dialect: str) -> None:
    for vector in judge.vectors(dialect):
        method, path = where(dialect, vector)
        status, reply = await sent(hall, method, path, vector["request"])
        if reply is None or path == "/oxp/health":
            continue
        if dialect == "oxp":
            judge.check_oxp(status, reply)
        else:
            judge.check(dialect, reply)


@each_row("dialect", DIALECTS)
def test_vectors_have_unique_names_and_rules(dialect: str) -> None:
    names = [vector["name"] for vector in judge.vectors(dialect)]
    assert len(set(names)) == len(names)
    assert all(vector["rule"] for vector in judge.vectors(dialect))


@each_row(
    ("expected", "found"),
    [(1, True), ({"a": 1}, {}), ({}, {"a": 1}), ([1], [1, 2]), ({"a": "*"}, {"a": 1, "b": 2}), (None, 0), ("a", "b")],
)
def test_vectors_comparison_detects_differences(expected: Any, found: Any) -> None:
    assert not judge.like(expected, found)
