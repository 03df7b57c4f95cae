"""The rules of Machine Context, the hub, OXP and REST, judged over sockets and pipes."""
