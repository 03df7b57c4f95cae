import zlib

from toolhall import Context, Toolkit, tool


@tool(isolated=True, timeout=20)
def unpack(ctx: Context, data: str) -> int:
    """Unpack data that nobody has checked; returns how many bytes came out."""
    ctx.progress(0, 1, "unpacking")
    return len(zlib.decompress(bytes.fromhex(data)))


class Pictures(Toolkit, isolated=True):
    """Every tool of this toolkit runs in a process of its own."""

    @tool
    def size(self, width: int, height: int) -> int:
        """How many bytes a picture takes."""
        return len(bytearray(width * height * 4))

    @tool(isolated=False)
    def formats(self) -> list[str]:
        """The formats that are known; this one needs no process."""
        return ["png", "webp"]
