"""A hall killed while clients register, activate and end tools: what it said is done is done, and nothing by half."""

import random
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from tests.faults.managing_clients import Client, read_states
from tests.harness.http_client import healthy
from tests.harness.patience import patience
from tests.harness.seeds import count, seeds
from tests.harness.server_process import ServerProcess, environment, toolhall
from tests.threats.served import serving

ROUNDS = count(4, 8)
CLIENTS = ("ada", "bob", "eve")
MOST_CHANGES = 20  # in a round; all events of a test must fit into one answer
CHANGING = 0.006  # seconds that a change takes, and a little more
STARTING = 1.0  # seconds that a start takes, and a little more
TOOLS = "from toolhall import tool\n\n\n@tool\ndef idle() -> None:\n    '''Does nothing.'''\n"


def changed_until_killed(server: ServerProcess, clients: list[Client], chance: random.Random) -> None:
    """All clients at once, until some changes were acknowledged and a moment has passed."""
    acknowledged = threading.Semaphore(0)
    threads = [threading.Thread(target=client.work, args=(server.port, acknowledged)) for client in clients]
    for thread in threads:
        thread.start()
    for _ in range(chance.randrange(MOST_CHANGES)):
        if not acknowledged.acquire(timeout=patience()):
            break  # a client failed, and says why
    threading.Event().wait(chance.uniform(0, CHANGING))
    assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    for thread in threads:
        thread.join(patience())


def killed_while_it_starts(folder: Path, target: Path, moment: float) -> None:
    """However far it came, the next one starts."""
    process = subprocess.Popen(
        toolhall("serve", str(target), "--port", "0", "--json"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=environment(folder, {}),
    )
    threading.Event().wait(moment)
    process.kill()
    assert process.wait(patience()) == -signal.SIGKILL


@pytest.mark.parametrize("seed", seeds(6))
def test_hall_killed_keeps_every_acknowledged_change_and_none_by_half(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")  # noqa: T201 - for whoever has to find out why
    chance, clients = random.Random(seed), [Client(name, seed) for name in CLIENTS]
    target = tmp_path / "tools.py"
    target.write_text(TOOLS)
    for _ in range(ROUNDS):
        with serving(tmp_path, target) as server:
            assert healthy(server.port)
            found = read_states(clients, server.port)
            for client in clients:
                client.settle(found[client.name])
            changed_until_killed(server, clients, chance)
        if chance.random() < 0.25:
            killed_while_it_starts(tmp_path, target, chance.uniform(0, STARTING))
    with serving(tmp_path, target) as server:
        found = read_states(clients, server.port)
        for client in clients:
            client.settle(found[client.name])
        assert server.stop() == 0
    assert sum(len(client.expected.events) for client in clients) > ROUNDS
