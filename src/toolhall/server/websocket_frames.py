"""Frames of a WebSocket (RFC 6455): `TextFrameReader` reads whole text messages, `TextFrameWriter` joins what it sends.

Theory of operation. Nearly all data of a client is whole messages, each one final text frame. `TextFrameReader.read`
takes data that is nothing else; for any other data it returns None, and the general parser must be given all of it. So
that it knows where the next frame begins, the reader follows the frames in that data too, by their lengths. It reads
again once both are at the end of a frame, no message is in parts, and no close frame has come.

What a server sends in one iteration of the event loop is one write: most of what sending costs is to wake the reader.
"""

import asyncio
from collections.abc import Callable

try:
    from websockets.speedups import apply_mask
except ImportError:  # where websockets has no compiled part
    from websockets.utils import apply_mask

MAX_JOINED_BYTES = 64 * 1024  # are written at once, so that the transport notices a client that does not read
_FINAL_TEXT = 0x81
_FINAL, _CONTROL, _CLOSE = 0x80, 0x08, 0x08
_MASKED, _LENGTH_MASK = 0x80, 0x7F
_LENGTH_16, _LENGTH_64 = 126, 127
_MASK_BYTES = 4


class TextFrameReader:
    """Reads data that is nothing but whole text messages of at most `max_length` bytes, one frame each."""

    __slots__ = ("_head", "_in_message", "_is_closed", "_max_length", "_missing")

    def __init__(self, max_length: int) -> None:
        self._max_length = min(max_length, 0xFFFF)
        self._missing = 0  # bytes of a frame whose head the general parser has got
        self._head = b""  # the beginning of a frame's head, which the general parser has got
        self._in_message = False
        self._is_closed = False

    def read(self, data: bytes) -> list[bytes] | None:
        """The payloads of the frames; None if the general parser must take the data."""
        if not (self._missing or self._head or self._in_message or self._is_closed):
            messages = self._read_plain(data)
            if messages is not None:
                return messages
        self._follow(data)
        return None

    def _read_plain(self, data: bytes) -> list[bytes] | None:
        messages: list[bytes] = []
        at, size = 0, len(data)
        while at < size:
            if size - at < 2 + _MASK_BYTES or data[at] != _FINAL_TEXT or data[at + 1] < _MASKED:
                return None
            length, start = data[at + 1] - _MASKED, at + 2
            if length == _LENGTH_16:
                length, start = int.from_bytes(data[start : start + 2], "big"), start + 2
            at = start + _MASK_BYTES + length
            if length > self._max_length or at > size or data[start - 1] == _MASKED + _LENGTH_64:
                return None
            messages.append(apply_mask(data[start + _MASK_BYTES : at], data[start : start + _MASK_BYTES]))
        return messages

    def _follow(self, data: bytes) -> None:
        """Find the end of the last frame in data that the general parser takes."""
        data, self._head = self._head + data, b""
        at, size = self._missing, len(data)
        while at < size:
            length = _frame_length(data, at)
            if length is None:
                self._head, at = data[at:], size
                break
            opcode = data[at] & 0x0F
            if opcode == _CLOSE:
                self._is_closed = True
            elif opcode < _CONTROL:
                self._in_message = not data[at] & _FINAL
            at += length
        self._missing = at - size


def _frame_length(data: bytes, at: int) -> int | None:
    """The length of the frame that begins there; None if its head is incomplete."""
    if len(data) - at < 2:
        return None
    length, start = data[at + 1] & _LENGTH_MASK, at + 2
    if length >= _LENGTH_16:
        size = 2 if length == _LENGTH_16 else 8
        if len(data) - start < size:
            return None
        length, start = int.from_bytes(data[start : start + size], "big"), start + size
    return start - at + (_MASK_BYTES if data[at + 1] & _MASKED else 0) + length


class TextFrameWriter:
    """Joins the text messages of one iteration of the event loop into one write."""

    __slots__ = ("_frames", "_loop", "_size", "_write")

    def __init__(self, loop: asyncio.AbstractEventLoop, write: Callable[[bytes], None]) -> None:
        self._loop = loop
        self._write = write
        self._frames: list[bytes] = []
        self._size = 0

    def add(self, message: bytes) -> None:
        """Send a message as one frame, with others of this iteration, or at once if there is much to send."""
        frames = self._frames
        frames.append(_text_frame_head(len(message)))
        frames.append(message)
        self._size += len(message)
        if self._size > MAX_JOINED_BYTES:
            self.flush()
        elif len(frames) == 2:
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what was added; to be called before any other frame is written."""
        if self._frames:
            frames, self._frames, self._size = self._frames, [], 0
            self._write(b"".join(frames))


def _text_frame_head(length: int) -> bytes:
    """The head of a final, unmasked text frame."""
    if length < _LENGTH_16:
        return bytes((_FINAL_TEXT, length))
    if length <= 0xFFFF:
        return bytes((_FINAL_TEXT, _LENGTH_16)) + length.to_bytes(2, "big")
    return bytes((_FINAL_TEXT, _LENGTH_64)) + length.to_bytes(8, "big")
