from fastapi import FastAPI

from toolhall import Toolhall, tool


@tool(effect="reads")
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}"


hall = Toolhall(greet)
app = FastAPI(lifespan=hall.lifespan)
app.mount("/hall", hall)
app.mount("/.well-known/oauth-protected-resource/hall", hall)
