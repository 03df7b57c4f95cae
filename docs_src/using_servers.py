from dataclasses import dataclass

from toolhall import Answered, Client, Filled, Form, Question, SyncClient, Toolkit, tool


@dataclass
class Forecast:
    city: str
    celsius: float


class Weather(Toolkit, version="1.0.0"):
    """What the sky does."""

    @tool(effect="reads")
    def forecast(self, city: str) -> Forecast:
        """Forecast the weather for a city."""
        return Forecast(city, 21.5)


async def look(url: str, key: str | None = None) -> None:
    async with Client(url, key=key) as client:
        for tool_definition in await client.list_tools():
            print(tool_definition.name, "-", tool_definition.description)
        result = await client.call("Weather_forecast", {"city": "Oslo"})
        print(result.text, result.value)
        forecast = await client.call("Weather_forecast", {"city": "Oslo"}, returns=Forecast)
        print(forecast.celsius)


async def open_files(folder: str) -> str:
    command = Client.command("npx", "-y", "@modelcontextprotocol/server-filesystem@2026.1.14", folder)
    async with command as client:
        return (await client.call("list_directory", {"path": folder})).text


async def in_memory() -> Forecast:
    async with Client(Weather) as client:
        return await client.call("Weather_forecast", {"city": "Bergen"}, returns=Forecast)


def blocking(url: str) -> None:
    with SyncClient(url) as client:
        print(client.call("Weather_forecast", {"city": "Oslo"}).text)


def answer(question: Question) -> Answered:
    match question:
        case Form(message, schema):
            print(message)
            return Filled("accept", {name: input(f"{name}: ") for name in schema["properties"]})
        case _:
            return Filled("decline")


async def talk(url: str) -> None:
    async with Client(url, on_question=answer, on_progress=print, on_log=print, timeout=120) as client:
        await client.call("invite")


async def export(url: str) -> str:
    async with Client(url) as client:
        task = await client.start_task("export", {"year": 2026})
        print(task.id)  # client.task(id) finds it again, also later and from elsewhere
        return await task.result(returns=str, timeout=3600)
