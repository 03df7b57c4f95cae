"""Takes one agent framework through the tools of shapes.py, and prints what each call came to as one JSON object.

frameworks.py NAME URL CALLS, where CALLS is a JSON object from tool to arguments; run it with the Python of
`.venv-frameworks1` or `.venv-frameworks2`, whichever has the framework. No model is asked.
"""

import asyncio
import json
import logging
import sys
from typing import Any

Calls = dict[str, dict[str, Any]]
Results = dict[str, str]


async def autogen(url: str, calls: Calls) -> Results:
    """AutoGen makes a class from each schema; it is called by its workbench, since those classes know no tuples."""
    from autogen_ext.tools.mcp import (
        McpWorkbench,
        StreamableHttpServerParams,
        mcp_server_tools,
    )

    server = StreamableHttpServerParams(url=url)
    listed = {tool.name for tool in await mcp_server_tools(server)}
    async with McpWorkbench(server) as bench:
        return {name: (await bench.call_tool(name, given)).to_text() for name, given in calls.items() if name in listed}


async def langchain(url: str, calls: Calls) -> Results:
    """LangChain's adapters."""
    from langchain_mcp_adapters.client import MultiServerMCPClient

    client = MultiServerMCPClient({"hall": {"transport": "streamable_http", "url": url}})
    tools = {tool.name: tool for tool in await client.get_tools()}
    return {name: str(await tools[name].ainvoke(given)) for name, given in calls.items()}


async def llama_index(url: str, calls: Calls) -> Results:
    """LlamaIndex makes a pydantic model from each schema."""
    from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

    tools = {tool.metadata.name: tool for tool in await McpToolSpec(BasicMCPClient(url)).to_tool_list_async()}
    for tool in tools.values():
        tool.metadata.get_parameters_dict()
    return {name: str(await tools[name].acall(**given)) for name, given in calls.items()}


async def pydantic_ai(url: str, calls: Calls) -> Results:
    """Pydantic AI, asked by a model that is a function."""
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    results: Results = {}

    def model(messages: Any, info: Any) -> Any:
        if len(messages) == 1:
            listed = {tool.name for tool in info.function_tools}
            return ModelResponse(parts=[ToolCallPart(name, given) for name, given in calls.items() if name in listed])
        results.update({part.tool_name: str(part.content) for part in messages[-1].parts})
        return ModelResponse(parts=[TextPart("done")])

    agent = Agent(FunctionModel(model), toolsets=[MCPToolset(url)])
    async with agent:
        await agent.run("go")
    return results


def smolagents(url: str, calls: Calls) -> Results:
    """smolagents, with the schemas of results."""
    from smolagents import MCPClient

    with MCPClient({"url": url, "transport": "streamable-http"}, structured_output=True) as listed:
        tools = {tool.name: tool for tool in listed}
        return {name: str(tools[name](**given)) for name, given in calls.items()}


ASYNCHRONOUS = {
    "autogen": autogen,
    "langchain": langchain,
    "llama-index": llama_index,
    "pydantic-ai": pydantic_ai,
}


def main(name: str, url: str, calls: str) -> None:
    """Run the framework that the command line names."""
    logging.disable(logging.WARNING)
    given: Calls = json.loads(calls)
    # smolagents has an event loop of its own, in a thread.
    results = smolagents(url, given) if name == "smolagents" else asyncio.run(ASYNCHRONOUS[name](url, given))
    sys.stdout.write(json.dumps(results) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
