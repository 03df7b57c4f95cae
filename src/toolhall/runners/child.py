"""One worker process as the hall sees it: started, spoken to, ended with everything it started, and waited for."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time

import msgspec

from toolhall.model.errors import BadOutput
from toolhall.runners.address import Address
from toolhall.runners.output import WorkerOutput
from toolhall.runners.wire import END_SIGNAL, LENGTH_BYTES, Limits, Order, Report, Start, frame, length_of, read_report

_CHUNK = 256 * 1024
_LOOK_SECONDS = 0.005
_BURIAL_SECONDS = 5.0
_LOOKS = 200  # for a second
# The same code for the same file as here: without asserts where the hall runs without them.
_OPTIMIZED = ("-O",) * sys.flags.optimize
# The same places to import from as here; the module's own name is not `__main__`.
_PROGRAM = "import sys; sys.path[:] = {path!r}; from toolhall.runners.worker import main; main({descriptor})"


class Gone(Exception):
    """The process has ended, or it has hung up."""


class Lied(Gone):
    """It says what no worker of ours would say."""


class Child:
    """A Python process under a supervisor; the only line to it is a socket, and `output` is what it prints."""

    def __init__(self, address: Address, limits: Limits, environment: dict[str, str], hidden: tuple[str, ...]) -> None:
        self.output = WorkerOutput(address.module)
        self._limits = limits
        self._received = bytearray()
        self._killed_at: float | None = None
        ours, theirs = socket.socketpair()
        self._end = ours
        ours.setblocking(False)
        path = [each for each in sys.path if each]
        program = _PROGRAM.format(path=path, descriptor=theirs.fileno())
        self.printed, printing = os.pipe()
        try:
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own program
                    [sys.executable, "-I", *_OPTIMIZED, "-c", program],
                    stdin=subprocess.DEVNULL,
                    stdout=printing,
                    stderr=printing,
                    pass_fds=(theirs.fileno(),),
                    env=environment,
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            os.close(self.printed)
            raise
        finally:
            os.close(printing)
        self._start = Start(address, tuple(path), limits, os.getpid(), hidden)

    @property
    def pid(self) -> int:
        """The id of the supervisor, which ends as the worker does."""
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
        try:
            if not self._end.recv(1, socket.MSG_PEEK):
                return False
        except BlockingIOError:
            return self._code() is None
        except OSError:
            return False
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
        """End it and all that it started; `buried` tells when they are gone."""
        if self._killed_at is None:
            self._killed_at = time.monotonic()
            self._process.send_signal(END_SIGNAL)  # which first looks whether it has ended: its id may be another's
        self._end.close()

    def buried(self, *, wait: bool = False) -> bool:
        """Whether a killed process has ended; at once, or after a wait. A supervisor that hangs is killed itself."""
        if wait:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_BURIAL_SECONDS)
        late = self._killed_at is not None and time.monotonic() - self._killed_at > _BURIAL_SECONDS
        if late and self._process.poll() is None:
            self._process.kill()
            if wait:
                self._process.wait()
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
