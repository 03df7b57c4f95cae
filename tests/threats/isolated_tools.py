"""Tools in worker processes: good ones, and some that block, crash, leak, lie and leave children behind."""

import asyncio
import ctypes
import mmap
import os
import platform
import resource
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolhall import Audio, Context, Image, Notes, Reply, Resource, ResourceLink, Text, ToolFailed, Toolkit, tool

GATE = threading.Event()  # what hangs in this process, hangs until a test opens it
_kept: list[mmap.mmap] = []
_ARM = platform.machine() == "aarch64"
_SCHED_SETATTR, _IOPRIO_SET = (274, 30) if _ARM else (314, 251)


@dataclass
class Point:
    x: int
    y: int


@dataclass
class Name:
    name: str


@tool(isolated=True)
def where() -> int:
    """The process that this runs in."""
    return os.getpid()


@tool(isolated=True)
async def where_async() -> int:
    """The process that this runs in."""
    await asyncio.sleep(0)
    return os.getpid()


@tool(isolated=True)
def move(point: Point, by: int = 1) -> Point:
    """Take and give a type of our own."""
    return Point(point.x + by, point.y + by)


@tool(isolated=True)
def everything(kind: str) -> Any:
    """A value of each kind that a tool may return."""
    notes = Notes(audience=("user",), priority=0.5)
    return {
        "nothing": None,
        "text": "a\nb",
        "list": [1, 2.5, None, {"a": []}],
        "block": Text("x", notes, {"m": 1}),
        "blocks": [Image(b"\x00\xff", notes=notes), Audio(b"\xfe"), ResourceLink(uri="a:b", name="n", size=3)],
        "resource": Resource(uri="a:b", content="text"),
        "bytes": Resource(uri="a:b", content=b"\xff\x00", mime_type="x/y"),
        "reply": Reply((Text("x"),), Point(1, 2), {"k": "v"}, is_error=False),
        "bare reply": Reply((Text("x"),), is_error=True),
        "set": object(),
        "wrong block": Text(5),  # type: ignore[arg-type]
    }[kind]


@tool(isolated=True)
async def tell(ctx: Context) -> list[str]:
    """Say something on the way."""
    ctx.progress(1, 2, "half")
    ctx.log({"a": 1}, "warning")
    return [ctx.caller.id, str(ctx.can("elicitation")), str(ctx.can("roots"))]


@tool(isolated=True, level=1, effect="reads")
def who(ctx: Context) -> dict[str, bool | str]:
    """Everything that the process is told of the caller."""
    return {"caller": ctx.caller.id, "told": ctx.caller.credential is not None, "seen": repr(ctx.caller)}


@tool(isolated=True, secrets=["KEY"], account="google:mail", user_id=True)
async def supplied(ctx: Context) -> list[str | None]:
    """What it was supplied with, spelled so that nobody hides it."""
    given = (ctx.secret("KEY"), ctx.account.token, ctx.user_id)
    return ["-".join(each or "") for each in given]


@tool(isolated=True)
async def greet(ctx: Context) -> str:
    """Ask the person."""
    given = await ctx.ask("Who?", Name)
    return f"hello {given.value.name}" if given.accepted else given.action


@tool(isolated=True)
def fail() -> None:
    """Fail as an author means to."""
    raise ToolFailed("not today", retry_after=3, prompt="ask for less")


@tool(isolated=True)
def raises() -> None:
    """Fail as an author does not mean to."""
    raise ValueError("CANARY-1b7c")


@tool(isolated=True, timeout=0.3)
def never() -> None:
    """Never return, and let no Python code run meanwhile."""
    ctypes.CDLL(None).sleep(600)


@tool(isolated=True, timeout=0.3)
def spin() -> None:
    """Never return, and use all there is of a core."""
    while True:
        pass


@tool(isolated=True)
def block() -> None:
    """Never return, and have all the time in the world."""
    threading.Event().wait()


@tool(isolated=True)
def crash(how: str = "SIGSEGV") -> None:
    """Take the process down."""
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), getattr(signal, how))


@tool(isolated=True)
def leak(megabytes: int = 300) -> int:
    """Keep what was used."""
    _kept.append(mmap.mmap(-1, megabytes << 20))
    return len(_kept)


@tool(isolated=True)
def hog(megabytes: int) -> int:
    """Use a lot at once."""
    return len(bytearray(megabytes << 20))


@tool(isolated=True)
def leak_files() -> int:
    """Open files until there are no more."""
    opened = []
    while True:
        opened.append(os.open("/dev/null", os.O_RDONLY))


@tool(isolated=True)
def write(path: str, megabytes: int) -> None:
    """Fill the disk."""
    with open(path, "wb") as file:  # noqa: PTH123
        file.writelines(bytes(1 << 20) for _ in range(megabytes))


@tool(isolated=True)
def big(megabytes: int) -> str:
    """Return too much."""
    return "x" * (megabytes << 20)


@tool(isolated=True)
def forge(hexadecimal: str) -> None:
    """Write to the hall in the worker's name, then hang."""
    for descriptor in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                socket.socket(fileno=os.dup(descriptor)).sendall(bytes.fromhex(hexadecimal))
        except OSError:
            continue
    threading.Event().wait()


@tool(isolated=True)
def environment() -> dict[str, str]:
    """Everything that the process was given to see."""
    return dict(os.environ)


@tool(isolated=True)
def limits() -> dict[str, int]:
    """What the process may use."""
    kinds = ("AS", "NOFILE", "FSIZE", "CORE", "CPU")
    return {kind: resource.getrlimit(getattr(resource, f"RLIMIT_{kind}"))[0] for kind in kinds}


@tool(isolated=True)
def orphan(fifo: str) -> None:
    """Start a child, tell both ids, then hang."""
    child = subprocess.Popen(["sleep", "600"])
    with open(fifo, "w") as told:  # noqa: PTH123
        told.write(f"{os.getpid()} {child.pid} {os.getsid(0)}")
    threading.Event().wait()


@tool(isolated=True)
def open_files(folder: str) -> list[str]:
    """Try everything that could be done to a file `state.key` in a folder; what went well."""
    key, away = Path(folder, "state.key"), Path(folder).parent
    tries: dict[str, Callable[[], object]] = {
        "read": key.read_bytes,
        "write": lambda: key.open("r+b").close(),
        "truncate": lambda: os.truncate(key, 0),
        "create": (key.parent / "new").touch,
        "copy by another program": lambda: subprocess.run(["cat", key], check=True, capture_output=True),
        "read by another root": Path(f"/proc/{os.getppid()}/root{key}").read_bytes,
        "replace": lambda: Path(tempfile.mkstemp()[1]).replace(key),
        "move": lambda: key.rename(away / "moved"),
        "move the folder": lambda: key.parent.rename(away / "moved"),
        "link": lambda: (away / "linked").hardlink_to(key),
        "remove": key.unlink,
    }
    return went_well(tries)


@tool(isolated=True)
def use_files(folder: str) -> list[str]:
    """Do what tools ordinarily do; what went well."""
    place = Path(folder)
    tries: dict[str, Callable[[], object]] = {
        "write": lambda: (place / "a").write_text("a"),
        "read": (place / "a").read_text,
        "folder": (place / "b").mkdir,
        "move": lambda: (place / "a").rename(place / "b" / "a"),
        "list": place.parent.iterdir().__next__,
        "temporary": lambda: tempfile.TemporaryFile().close(),
        "program": lambda: subprocess.run(["sh", "-c", "sleep 9 & kill $!"], check=True),
        "socket": lambda: socket.create_server(("127.0.0.1", 0)).close(),
        "thread": lambda: threading.Thread(target=int).start(),
        "limits": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
        "own limits by id": lambda: resource.prlimit(os.getpid(), resource.RLIMIT_CORE, (0, 0)),
        "lower priority": lambda: os.nice(1),
        "priority": lambda: os.setpriority(os.PRIO_PROCESS, os.getpid(), 19),
        "CPU mask": lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)),
        "program's priority": lambda: subprocess.run(["nice", "true"], check=True),
    }
    return went_well(tries)


@tool(isolated=True)
def reach(pid: int, tid: int) -> list[str]:
    """Try everything that reaches into another process and does it no harm; what went well."""
    libc = ctypes.CDLL(None, use_errno=True)

    def called(name: str, *arguments: Any) -> None:
        if getattr(libc, name)(*arguments) < 0:
            raise OSError(ctypes.get_errno(), name)

    buffer = (ctypes.c_size_t * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8)
    tries: dict[str, Callable[[], object]] = {
        "kill": lambda: os.kill(pid, 0),
        "kill a thread": lambda: called("tgkill", pid, tid, 0),
        "kill all": lambda: os.kill(-1, 0),
        "kill the supervisor": lambda: os.kill(os.getppid(), 0),
        "pidfd": lambda: signal.pidfd_send_signal(os.open(f"/proc/{pid}", os.O_RDONLY), 0),
        "kill by a program": lambda: subprocess.run(["kill", "-0", str(pid)], check=True, capture_output=True),
        "trace": lambda: called("ptrace", 0x4206, pid, 0, 0),
        "read memory": lambda: called("process_vm_readv", pid, buffer, 1, buffer, 1, 0),
        "open memory": lambda: open(f"/proc/{pid}/mem", "rb"),  # noqa: PTH123, SIM115
        "environment": Path(f"/proc/{pid}/environ").read_bytes,
        "descriptors": lambda: os.readlink(f"/proc/{pid}/fd/1"),  # noqa: PTH115
        "limits": lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE),
        "priority": lambda: os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid)),
        "priority of a thread": lambda: os.setpriority(os.PRIO_PROCESS, tid, os.getpriority(os.PRIO_PROCESS, tid)),
        "priority of a group": lambda: os.setpriority(os.PRIO_PGRP, pid, os.getpriority(os.PRIO_PROCESS, pid)),
        "priority of a user": lambda: os.setpriority(os.PRIO_USER, 0, 20),
        "scheduler": lambda: os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0)),
        "scheduler's parameter": lambda: os.sched_setparam(tid, os.sched_param(0)),
        "scheduler's attributes": lambda: called("syscall", _SCHED_SETATTR, pid, _attributes(), 0),
        "CPU mask": lambda: os.sched_setaffinity(pid, os.sched_getaffinity(pid)),
        "priority of its disk": lambda: called("syscall", _IOPRIO_SET, 1, pid, 2 << 13 | 4),
        "priority of all disks": lambda: called("syscall", _IOPRIO_SET, 3, os.getuid(), 2 << 13 | 4),
        "cgroup": lambda: open("/sys/fs/cgroup/cgroup.procs", "w"),  # noqa: PTH123, SIM115
    }
    return went_well(tries)


def _attributes() -> bytes:
    """For sched_setattr: the usual policy, nice value 0."""
    return struct.pack("=IIQiIQQQ", 48, 0, 0, 0, 0, 0, 0, 0)


def went_well(tries: dict[str, Callable[[], object]]) -> list[str]:
    done = []
    for name, attempt in tries.items():
        try:
            attempt()
            done.append(name)
        except (OSError, subprocess.CalledProcessError):
            continue
    return done


@tool(isolated=True)
def daemon(fifo: str, then: str) -> None:
    """Leave a process behind that is in no group and no session of ours, tell its id, then end as told."""
    heard, telling = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.write(telling, str(os.getpid()).encode())
            while True:
                signal.pause()
        os._exit(0)
    os.wait()
    with open(fifo, "w") as told:  # noqa: PTH123
        told.write(os.read(heard, 100).decode())
    if then == "hang":
        threading.Event().wait()
    if then == "exit":
        os._exit(3)


@tool(isolated=True, secrets=["KEY"])
def shout(ctx: Context, text: str, times: int = 1) -> int:
    """Print a text with the secret in it, by every way there is."""
    said = text.format(ctx.secret("KEY")) * times
    print(said)  # noqa: T201
    os.write(2, f"{said}\n".encode())
    subprocess.run(["cat"], input=f"{said}\n".encode(), check=True)
    return os.getpid()


@tool(timeout=0.05)
def stuck(hang: bool) -> int:
    """A sync tool that hangs in its thread, if told to."""
    if hang:
        GATE.wait(60)
    return os.getpid()


@tool
def quick() -> int:
    """A sync tool that does not."""
    return os.getpid()


class Counter(Toolkit, isolated=True):
    """A toolkit whose tools all run in a process of their own."""

    def __init__(self) -> None:
        self.count = 0

    @tool
    def count_up(self) -> list[int]:
        self.count += 1
        return [os.getpid(), self.count]

    @tool(isolated=False)
    def here(self) -> int:
        return os.getpid()


class Named(Toolkit):
    """A toolkit that is made with an argument."""

    def __init__(self, name: str) -> None:
        self.name = name

    @tool(isolated=True)
    def said(self) -> str:
        return f"{self.name} {os.getpid()}"


anna = Named("anna")
