from fastapi import FastAPI

from docs_src.mounting import greet
from toolhall import Toolhall

hooks = FastAPI()


async def paid() -> dict[str, bool]:
    return {"seen": True}


hooks.add_api_route("/payments", paid, methods=["POST"])
hall = Toolhall(greet, routes={"/hooks": hooks})  # POST /hooks/payments
