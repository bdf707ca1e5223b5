"""TCP ports for servers that tests start; with the standard library only, as tools/local_cloud.py has it too."""
import collections.abc
import random
import socket

SERVERS = range(28000, 32768)
EXPORTS = range(17000, 20000, 20)        # a volume host takes what is free in its twenty
CEPH = range(20000, 28000, 100)          # and a Ceph in its hundred
_marks: list[socket.socket] = []


def free(ports: collections.abc.Sequence[int] = SERVERS, needed: int = 1) -> int:
    """Of none that the kernel gives to connections: a server may take seconds until it listens, and stop for a while.

    No other process that asks here gets it until this one ends: a socket of UDP, which no server uses, stands for that.

    :param needed: how many from this one on nobody has
    """
    for port in random.SystemRandom().sample(ports, len(ports)):
        mark = socket.socket(type=socket.SOCK_DGRAM)
        try:
            mark.bind(('127.0.0.1', port))
            for each in range(port, port + needed):
                with socket.socket() as sock:
                    sock.bind(('127.0.0.1', each))
        except OSError:
            mark.close()
        else:
            _marks.append(mark)
            return port
    raise AssertionError('every port is taken')
