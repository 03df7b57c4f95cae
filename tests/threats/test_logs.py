# ruff: noqa: N802 - tests carry the names of their rows
"""One record of the log is one line that nobody can forge or fill (threat G9)."""

import io
import json
import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from toolhall.cli.logs import MAX_MESSAGE, MAX_TRACEBACK, start_logging


class Terminal(io.StringIO):
    """What looks like a terminal."""

    def isatty(self) -> bool:
        return True


@contextmanager
def logged(output: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> Generator[logging.Logger]:
    """The log of a command, on this output."""
    monkeypatch.setattr(sys, "stderr", output)
    loggers = [logging.getLogger(name) for name in ("toolhall",)]
    before = [(logger.level, logger.propagate, list(logger.handlers)) for logger in loggers]
    start_logging("debug")
    try:
        yield logging.getLogger("toolhall.test")
    finally:
        for logger, (level, propagate, handlers) in zip(loggers, before, strict=True):
            logger.setLevel(level)
            logger.propagate = propagate
            logger.handlers = handlers


FORGED = 'x\n{"level":"info","message":"all is well"}\r\n12:00:00 INFO toolhall: fine\x1b[2J\u2028\u0085\x00'


@pytest.mark.threat("G9")
@pytest.mark.parametrize("output", [io.StringIO, Terminal])
def test_G9_line_breaks_and_control_characters_in_a_log_message_make_one_line(
    monkeypatch: pytest.MonkeyPatch, output: type[io.StringIO]
) -> None:
    """Line breaks and control characters in what is logged make no second record, on a terminal or in a file."""
    lines = output()
    with logged(lines, monkeypatch) as log:
        log.error("called %s", FORGED)
    written = lines.getvalue()
    assert written.count("\n") == 1
    assert written.endswith("\n")
    assert len(written.splitlines()) == 1
    assert written[:-1].isprintable()


def test_json_log_line_keeps_the_message_text(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = io.StringIO()
    with logged(lines, monkeypatch) as log:
        log.error("called %s", FORGED)
        log.error("file %s", "\udce9")
    said = [json.loads(line) for line in lines.getvalue().split("\n")[:-1]]
    assert said[0]["message"] == f"called {FORGED}"
    assert said[1]["message"] == "file ?"


@pytest.mark.parametrize("output", [io.StringIO, Terminal])
def test_traceback_in_the_log_is_indented_under_its_record_and_bounded(
    monkeypatch: pytest.MonkeyPatch, output: type[io.StringIO]
) -> None:
    lines = output()
    with logged(lines, monkeypatch) as log:
        try:
            raise RuntimeError(FORGED + "z" * MAX_TRACEBACK)
        except RuntimeError:
            log.exception("failed")
    first, *rest = lines.getvalue().splitlines()
    assert "failed" in first
    assert all(line.startswith("    ") for line in rest)
    assert len(lines.getvalue()) < 2 * MAX_TRACEBACK
    assert "RuntimeError" in lines.getvalue()


def test_log_message_over_the_limit_is_shortened_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = io.StringIO()
    with logged(lines, monkeypatch) as log:
        log.error("start%send", "x" * 1_000_000)
    said = json.loads(lines.getvalue())["message"]
    assert len(said) < MAX_MESSAGE + 100
    assert said.startswith("start")
    assert said.endswith("end")
    assert "letters left out" in said


@pytest.mark.threat("G8")
@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("GET https://h.example/a/b?token=1&x=2 failed", "GET https://h.example/a/b failed"),
        ("at https://user:pass@h.example:8443/a", "at https://h.example:8443/a"),
        ("at https://user:p@ss@h.example/a", "at https://h.example/a"),
        ("'postgres://u:pw@db:5432/x?sslmode=no'", "'postgres://db:5432/x'"),
        ("http://[::1]:80/a#access_token=1", "http://[::1]:80/a"),
        ("see a://b and c?d=e@f", "see a://b and c?d=e@f"),
    ],
)
def test_G8_url_in_a_log_message_or_traceback_loses_its_user_query_and_fragment(
    monkeypatch: pytest.MonkeyPatch, said: str, told: str
) -> None:
    """A URL in the log has neither user, password, query nor fragment, in a message or in a traceback."""
    lines = io.StringIO()
    with logged(lines, monkeypatch) as log:
        try:
            raise RuntimeError(said)
        except RuntimeError:
            log.exception("%s", said)
    record = json.loads(lines.getvalue())
    assert record["message"] == told
    assert record["error"].endswith(f"RuntimeError: {told}")
