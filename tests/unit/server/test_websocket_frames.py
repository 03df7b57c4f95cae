"""TextFrameReader reads the messages that the parser of websockets reads; TextFrameWriter writes what it can read."""

import asyncio

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side, State
from websockets.uri import parse_uri

from tests.harness.seeds import examples
from toolhall.server.websocket_frames import MAX_JOINED_BYTES, TextFrameReader, TextFrameWriter

MAX_LENGTH = 1_000


def frame(payload: bytes = b"{}", opcode: Opcode = Opcode.TEXT, *, fin: bool = True, mask: bool = True) -> bytes:
    return Frame(opcode, payload, fin).serialize(mask=mask)


class Received:
    """Messages of a connection, by the reader where it reads and by the parser else, or by the parser alone."""

    def __init__(self, *, reads: bool) -> None:
        self._reader = TextFrameReader(MAX_LENGTH) if reads else None
        self._parser = Protocol(Side.SERVER, state=State.OPEN, max_size=MAX_LENGTH)
        self.messages: list[tuple[Opcode, bytes, bool]] = []
        self.read = 0  # messages, by the reader

    def receive(self, data: bytes) -> None:
        messages = None if self._reader is None else self._reader.read(data)
        if messages is not None:
            self.read += len(messages)
            self.messages += [(Opcode.TEXT, message, True) for message in messages]
            return
        self._parser.receive_data(data)
        received = [event for event in self._parser.events_received() if isinstance(event, Frame)]
        self.messages += [(each.opcode, bytes(each.data), each.fin) for each in received]

    @property
    def is_failed(self) -> bool:
        """The parser has met something that it does not allow, or a close frame: nothing counts from here on."""
        return self._parser.state is not State.OPEN


def messages_agree(pieces: list[bytes]) -> int:
    """Compare both, up to the end of the connection; returns how many messages the reader has read."""
    reading, parsing = Received(reads=True), Received(reads=False)
    for piece in pieces:
        reading.receive(piece)
        parsing.receive(piece)
        assert reading.is_failed == parsing.is_failed
        assert reading.messages == parsing.messages
        if parsing.is_failed:
            break
    return reading.read


FRAMES = {
    "text": frame(),
    "empty": frame(b""),
    "short": frame(b"x" * 125),
    "two_bytes_of_length": frame(b"x" * 126),
    "largest": frame(b"x" * MAX_LENGTH),
    "too_large": frame(b"x" * (MAX_LENGTH + 1)),
    "eight_bytes_of_length": frame(b"x" * 0x10000),
    "length_not_minimal": b"\x81\xfe\x00\x02" + b"\x00" * 4 + b"{}",
    "eight_bytes_not_minimal": b"\x81\xff" + b"\x00" * 7 + b"\x02" + b"\x00" * 4 + b"{}",
    "unmasked": frame(mask=False),
    "binary": frame(b"\x00", Opcode.BINARY),
    "reserved_bit": b"\xc1" + frame()[1:],
    "reserved_opcode": b"\x83" + frame()[1:],
    "first_part": frame(fin=False),
    "next_part": frame(b"[", Opcode.CONT, fin=False),
    "last_part": frame(b"]", Opcode.CONT),
    "ping": frame(b"p", Opcode.PING),
    "long_ping": b"\x89" + frame(b"p" * 126)[1:],
    "pong": frame(b"p", Opcode.PONG),
    "close": frame(b"\x03\xe8", Opcode.CLOSE),
}


@pytest.mark.parametrize("name", FRAMES)
def test_websocket_frame_before_any_other_is_read_as_by_the_parser(name: str) -> None:
    first, text = FRAMES[name], FRAMES["text"]
    for second in FRAMES.values():
        messages_agree([first, second, text])
        messages_agree([first + second, text])
        messages_agree([text + first, second + text])


@pytest.mark.parametrize("name", FRAMES)
def test_websocket_frame_split_at_every_byte_is_read_as_by_the_parser(name: str) -> None:
    data = FRAMES["text"] + FRAMES[name][:200] + FRAMES["text"]
    for at in range(len(data)):
        messages_agree([FRAMES["text"], data[:at], data[at:], FRAMES["text"]])


def test_websocket_text_frames_are_read_again_after_other_frames() -> None:
    """The reader knows where frames begin, also behind those that it leaves to the parser."""
    text, ping = FRAMES["text"], FRAMES["ping"]
    assert messages_agree([text, ping, text, text[:3], text[3:], text, text + text]) == 5
    assert messages_agree([FRAMES["first_part"], FRAMES["last_part"], text]) == 1
    assert messages_agree([text + text[:1], text[1:] + ping[:3], ping[3:], text]) == 1


@settings(max_examples=examples(300))
@given(st.lists(st.sampled_from(list(FRAMES)), min_size=1, max_size=6), st.data())
def test_websocket_frames_in_any_pieces_are_read_as_by_the_parser(names: list[str], data: st.DataObject) -> None:
    stream = b"".join(FRAMES[name] for name in names)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    read = messages_agree([stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)])
    event("some were read" if read else "all were parsed")


@settings(max_examples=examples(300))
@given(st.lists(st.binary(max_size=30), max_size=4))
def test_websocket_nonsense_is_read_as_by_the_parser(pieces: list[bytes]) -> None:
    messages_agree([FRAMES["text"], *pieces])


async def test_websocket_frames_of_one_iteration_are_one_write() -> None:
    writes: list[bytes] = []
    writer = TextFrameWriter(asyncio.get_running_loop(), writes.append)
    sent = [b"", b"x" * 125, b"x" * 126, b"x" * 0xFFFF]
    for message in sent[:3]:
        writer.add(message)
    assert writes == []
    await asyncio.sleep(0)
    assert len(writes) == 1
    writer.add(sent[3])
    writer.flush()
    writer.flush()
    await asyncio.sleep(0)
    assert len(writes) == 2
    client = ClientProtocol(parse_uri("ws://localhost"), state=State.OPEN)
    client.receive_data(b"".join(writes))
    received = [each for each in client.events_received() if isinstance(each, Frame)]
    assert [(each.opcode, each.fin, bytes(each.data)) for each in received] == [
        (Opcode.TEXT, True, message) for message in sent
    ]


async def test_websocket_frames_that_are_large_are_written_at_once() -> None:
    """So that the transport can tell that the client does not read."""
    writes: list[bytes] = []
    writer = TextFrameWriter(asyncio.get_running_loop(), writes.append)
    writer.add(b"{}")
    writer.add(b"x" * MAX_JOINED_BYTES)
    assert [len(write) for write in writes] == [2 + 2 + 10 + MAX_JOINED_BYTES]
