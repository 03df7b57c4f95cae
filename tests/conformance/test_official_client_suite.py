"""The official MCP conformance suite for clients, at every revision, against the gateway's client and broker."""

import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.conformance.client_under_test import run
from tests.conformance.serving import HERE
from tests.conformance.test_official_suite import SUITE, Scenario
from tests.harness.patience import patience

KNOCK = HERE / "knock.py"
# How many scenarios must run for a revision, and how many checks may be a WARNING or SKIPPED.
RUN = {"2025-03-26": 2, "2025-11-25": 19, "2026-07-28": 33}
WARNINGS = dict.fromkeys(RUN, 0)
SKIPPED = dict.fromkeys(RUN, 0) | {"2026-07-28": 3}  # `initialize` in a revision without it, and roots
EXTENSIONS = ["auth/client-credentials-basic", "auth/client-credentials-jwt"]
# Scenarios of extensions that are not built, and why.
LEFT_OUT = {
    "auth/dpop": "bearer tokens only: a proof for each request needs a key that upstreams rarely ask for",
    "auth/dpop-nonce": "as auth/dpop",
    "auth/enterprise-managed-authorization": "the hall has no identity provider whose assertions it could exchange",
    "auth/wif-jwt-bearer": "workload identities are the platform's; the hall's own account has a client secret",
    "sep-2640-client-no-prefetch": "skills of upstreams are not offered by the hall",
    "sep-2640-client-verify-digest": "as sep-2640-client-no-prefetch",
    "sep-2640-client-verify-frontmatter": "as sep-2640-client-no-prefetch",
    "sep-2640-client-verify-size": "as sep-2640-client-no-prefetch",
}


@asynccontextmanager
async def listening(place: Path) -> AsyncGenerator[list[str]]:
    """Be the client for everybody who knocks; yields why scenarios could not be completed."""
    problems: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = json.loads(await reader.readline())
        problem = await run(asked["url"], asked["environment"])
        if problem is not None:
            problems.append(f"{asked['environment']['MCP_CONFORMANCE_SCENARIO']}: {problem}")
        writer.write((problem or "").encode())
        writer.close()

    async with await asyncio.start_unix_server(answer, place):
        yield problems


async def judge(folder: Path, *chosen: str) -> tuple[list[Scenario], str]:
    """Run the suite in the folder; the scenarios, and what was said if one failed."""
    assert all(path.exists() for path in SUITE), "the suite is not installed: run `make setup`"
    place, longest = folder / "line", patience()
    async with listening(place) as problems:
        command = f"{sys.executable} -SE {KNOCK} {place}"
        waits = "--timeout", str(int(longest * 1_000)), "-o", str(folder / "out")
        node = await asyncio.create_subprocess_exec(
            *map(str, SUITE), "client", "--command", command, *chosen, *waits,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=folder,
        )  # fmt: skip
        async with asyncio.timeout(3 * longest):
            said, _ = await node.communicate()
    return read_results(folder / "out"), "\n".join([*problems, said.decode(errors="replace")[-2_000:]])


def read_results(folder: Path) -> list[Scenario]:
    """What the suite wrote, one scenario after the other."""
    return [Scenario(_name(folder, path), json.loads(path.read_text())) for path in sorted(folder.rglob("checks.json"))]


def _name(folder: Path, path: Path) -> str:
    """The scenario's name, out of `out/auth/<name>-<time>/checks.json`."""
    return re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", str(path.parent.relative_to(folder)))


@pytest.mark.parametrize("revision", RUN)
async def test_official_client_suite_passes(revision: str, tmp_path: Path) -> None:
    scenarios, said = await judge(tmp_path, "--suite", "all", "--spec-version", revision)
    failures = [line for scenario in scenarios for line in scenario.failures()]
    assert not failures, "\n".join([*failures, said])
    assert len(scenarios) == RUN[revision], f"{len(scenarios)} scenarios ran: {said}"
    counted = Counter(check["status"] for scenario in scenarios for check in scenario.checks)
    assert counted["WARNING"] <= WARNINGS[revision], said
    assert counted["SKIPPED"] <= SKIPPED[revision], said


@pytest.mark.parametrize("scenario", EXTENSIONS)
async def test_official_client_suite_passes_the_extension(scenario: str, tmp_path: Path) -> None:
    scenarios, said = await judge(tmp_path, "--scenario", scenario)
    assert [line for each in scenarios for line in each.failures()] == [], said
    assert len(scenarios) == 1
