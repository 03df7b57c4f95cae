"""One worker process as the hall sees it: started, spoken to, killed with everything it started, and buried."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys

import msgspec

from toolhall.model.errors import BadOutput
from toolhall.runners.address import Address
from toolhall.runners.wire import LENGTH_BYTES, Limits, Order, Report, Start, frame, length_of, read_report

_CHUNK = 256 * 1024
_LOOK_SECONDS = 0.005
_BURIAL_SECONDS = 5.0
_LOOKS = 200  # for a second
# The same places to import from as here; the module's own name is not `__main__`.
_PROGRAM = "import sys; sys.path[:] = {path!r}; from toolhall.runners.worker import main; main({descriptor})"


class Gone(Exception):
    """The process has ended, or it has hung up."""


class Lied(Gone):
    """It says what no worker of ours would say."""


class Child:
    """A Python process of its own session; the only line to it is a socket."""

    def __init__(self, address: Address, limits: Limits, environment: dict[str, str]) -> None:
        self._limits = limits
        self._received = bytearray()
        ours, theirs = socket.socketpair()
        self._end = ours
        ours.setblocking(False)
        path = [each for each in sys.path if each]
        program = _PROGRAM.format(path=path, descriptor=theirs.fileno())
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own program
                [sys.executable, "-I", "-c", program],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what a tool prints must not mix with what a hall says on its own output
                pass_fds=(theirs.fileno(),),
                env=environment,
                start_new_session=True,
            )
        self._start = Start(address, tuple(path), limits, os.getpid())

    @property
    def pid(self) -> int:
        """The id of the process, and of its group."""
        return self._process.pid

    async def hello(self) -> Report:
        """Tell it what it is for; what it says to that."""
        await self.say(self._start)
        return await self.hear()

    async def say(self, order: Order) -> None:
        """Send an order."""
        try:
            await asyncio.get_running_loop().sock_sendall(self._end, frame(order))
        except OSError as error:
            raise Gone from error

    async def hear(self) -> Report:
        """The next report; BadOutput before more is read than a report may hold."""
        size = length_of(await self._exactly(LENGTH_BYTES))
        if size > self._limits.result_bytes:
            raise BadOutput(f"the tool returned {size} bytes; that is more than is passed on")
        try:
            return read_report(await self._exactly(size))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Lied from error

    async def ending(self) -> int | None:
        """How it ended, as `subprocess` says it; None if it still lives."""
        for _ in range(_LOOKS):
            if (code := self._code()) is not None:
                return code
            await asyncio.sleep(_LOOK_SECONDS)
        return None

    def lives(self) -> bool:
        """Whether it can still be spoken to: a tool may have ended its process after its answer."""
        return self._code() is None

    def _code(self) -> int | None:
        """How it ended, if it did; it is not yet buried, so that nobody else can get its id."""
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def hang_up(self) -> None:
        """Let it leave its toolkits and end by itself; `buried` tells when it is gone, `kill` is for one that stays."""
        self._end.close()

    def kill(self) -> None:
        """End it and all that it started; `buried` tells when it is gone."""
        if self._process.returncode is not None:
            return  # its id may belong to somebody else by now
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self._process.kill()
        self._end.close()

    def buried(self, *, wait: bool = False) -> bool:
        """Whether a killed process has ended; at once, or after a wait."""
        if wait:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_BURIAL_SECONDS)
        return self._process.poll() is not None

    async def _exactly(self, count: int) -> bytes:
        loop = asyncio.get_running_loop()
        while len(self._received) < count:
            try:
                part = await loop.sock_recv(self._end, _CHUNK)
            except OSError as error:
                raise Gone from error
            if not part:
                raise Gone
            self._received += part
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken
