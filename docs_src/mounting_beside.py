from fastapi import FastAPI

from toolhall import Toolhall, tool


@tool(effect="reads")
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}"


hooks = FastAPI()


async def paid() -> dict[str, bool]:
    return {"seen": True}


hooks.add_api_route("/payments", paid, methods=["POST"])
hall = Toolhall(greet, routes={"/hooks": hooks})  # POST /hooks/payments
