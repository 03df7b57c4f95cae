"""The client that the official conformance suite drives: `python -m tests.conformance.client_under_test URL`.

The suite starts a mock server for each scenario, and says in the environment what is to be done there. This module only
decides what to ask; SuiteClient is the client, and the person who agrees to everything.
"""

import asyncio
import json
import os
import sys
import tempfile
import urllib.request
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tests.conformance.suite_client import NAME, SuiteClient, suite_client
from toolhall.model.json import JsonObject
from toolhall.model.tool import HeaderParameter
from toolhall.model.upstream import UpstreamAuth
from toolhall.oauth import client_identity
from toolhall.oauth.providers import ProviderSettings
from toolhall.schema.annotations import header_parameters
from toolhall.schema.cost import BadSchema

SUITE_DOCUMENT = "https://conformance-test.local/client-metadata.json"  # the client id that the suite wants
LISTS_ONLY = ("initialize", "json-schema-ref-no-deref")
SAMPLES: dict[str, Any] = {"string": "x", "integer": 1, "number": 1.5, "boolean": True, "object": {}, "array": []}


@dataclass
class Occasion:
    """What the environment says of a scenario."""

    name: str
    revision: str
    context: JsonObject

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "Occasion":
        """Read the variables that the suite sets."""
        return cls(
            environment["MCP_CONFORMANCE_SCENARIO"],
            environment.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25"),
            json.loads(environment.get("MCP_CONFORMANCE_CONTEXT", "{}")),
        )

    @property
    def auth(self) -> UpstreamAuth:
        """How the server wants to be called."""
        if "client-credentials" in self.name:
            return "client_credentials"
        return "oauth" if self.name.startswith("auth/") else "none"

    def providers(self, url: str, folder: Path) -> dict[str, ProviderSettings]:
        """What an operator would have configured: the client that the suite names, its key in the folder."""
        if "client_id" not in self.context:
            return {}
        key = folder / "client.pem"
        key.write_text(self.context.get("private_key_pem", ""))
        return {
            "suite": ProviderSettings(
                issuer=self.context.get("issuer") or _named_issuer(url),
                client_id=self.context["client_id"],
                client_secret=self.context.get("client_secret"),
                client_key_file=str(key) if "private_key_pem" in self.context else None,
                upstreams=(NAME,),
            )
        }


def _named_issuer(url: str) -> str:
    """The issuer in the metadata of the server: an operator reads it there."""
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    with urllib.request.urlopen(place, timeout=10) as reply:
        named: str = json.loads(reply.read())["authorization_servers"][0]
    return named


@asynccontextmanager
async def client_for(occasion: Occasion, url: str) -> AsyncGenerator[SuiteClient]:
    """Open the client that a scenario needs."""
    options: dict[str, Any] = {}
    document = client_identity.CLIENT_DOCUMENT_PATH
    if occasion.name == "auth/basic-cimd":
        parts = urlsplit(SUITE_DOCUMENT)
        options["address"] = f"{parts.scheme}://{parts.netloc}"
        client_identity.CLIENT_DOCUMENT_PATH = parts.path  # no other scenario has a document
    try:
        with tempfile.TemporaryDirectory() as folder:
            providers = await asyncio.to_thread(occasion.providers, url, Path(folder))
            async with suite_client(url, occasion.revision, occasion.auth, providers, **options) as client:
                yield client
    finally:
        if options:
            client_identity.CLIENT_DOCUMENT_PATH = document


async def play(occasion: Occasion, client: SuiteClient) -> None:
    """List everything, and call what the scenario wants called."""
    if occasion.name == "sse-retry":  # its server takes a listening stream that comes late for the one to resume
        client.profile = msgspec.structs.replace(client.profile, listens=False)
    tools = (await client.request("tools/list", {}))["tools"]
    if occasion.name in LISTS_ONLY:
        return
    if occasion.name == "http-standard-headers":
        await read_everything(client)
    headers = {tool["name"]: headers_of(tool) for tool in tools}
    wanted = occasion.context.get("toolCalls") or [
        {"name": tool["name"], "arguments": arguments_for(tool, tools)} for tool in tools
    ]
    for call in wanted:
        parameters = headers[call["name"]]
        if parameters is not None:
            await client.request("tools/call", {"name": call["name"], "arguments": call["arguments"]}, parameters)


async def read_everything(client: SuiteClient) -> None:
    """Read each resource, and get each prompt."""
    for resource in (await client.request("resources/list", {}))["resources"]:
        await client.request("resources/read", {"uri": resource["uri"]})
    for prompt in (await client.request("prompts/list", {}))["prompts"]:
        given = {each["name"]: "x" for each in prompt.get("arguments", [])}
        await client.request("prompts/get", {"name": prompt["name"], "arguments": given})


def headers_of(tool: JsonObject) -> tuple[HeaderParameter, ...] | None:
    """The arguments that a tool wants in headers; None for a tool that must not be used."""
    try:
        return header_parameters(tool["inputSchema"])
    except BadSchema:
        return None


def arguments_for(tool: JsonObject, tools: list[JsonObject]) -> JsonObject:
    """Arguments that a tool takes; `schema` is that of the first tool, byte for byte."""
    if tool["name"] == "add_numbers":
        return {"a": 5, "b": 3}
    schema = tool["inputSchema"]
    properties: JsonObject = schema.get("properties", {})
    given = {name: SAMPLES.get(properties[name].get("type"), "x") for name in schema.get("required", ())}
    return given | ({"schema": tools[0]["inputSchema"]} if "schema" in given else {})


async def run(url: str, environment: Mapping[str, str]) -> str | None:
    """Run the scenario; returns why it cannot be completed, None if it was."""
    occasion = Occasion.read(environment)
    try:
        async with client_for(occasion, url) as client:
            await play(occasion, client)
    except Exception as error:  # noqa: BLE001 - whatever ends the scenario, the suite reads only the status
        return f"{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    problem = asyncio.run(run(sys.argv[1], os.environ))
    sys.exit(problem)
