from toolhall import Config, Toolhall, Toolkit, tool


class Warehouse(Toolkit, version="1.4.0"):
    """Tools for the people in the warehouse."""

    @tool(effect="reads")
    async def count_stock(self, article: str) -> int:
        """How many pieces of an article are on the shelves."""
        return 12 if article == "lamp" else 0

    @tool(effect="writes")
    async def order_parcels(self, count: int) -> str:
        """Have the courier collect parcels."""
        return f"{count} parcels will be collected"


config = Config(search=True, pinned=("Warehouse.count_stock@^1",))
hall = Toolhall(Warehouse, config=config)
