"""Clients that log in under random names as fast as they are answered, in a process of their own.

    python -m nova.tests.login_flood PORT CLIENTS ADDRESS      # until its standard input ends; prints {code: answers}
"""
import collections
import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time

PATIENCE_S = 90              # far more than the answers take; on a full machine the logins that wait take long


def request(name, password):
    """The bytes of a login."""
    body = json.dumps({'auth': {'identity': {'methods': ['password'], 'password': {'user': {
        'name': name, 'password': password, 'domain': {'id': 'default'}}}}}}).encode()
    return (b'POST /identity/v3/auth/tokens HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n'
            b'Connection: close\r\nContent-Length: %d\r\n\r\n' % len(body)) + body


def ask(port, address, data):
    """(status, seconds) of one request over a connection from an address of this host."""
    start = time.monotonic()
    with socket.create_connection(('127.0.0.1', port), PATIENCE_S, (address, 0)) as sock:
        sock.settimeout(PATIENCE_S)
        sock.sendall(data)
        with sock.makefile('rb') as answer:
            line = answer.readline()
            answer.read()
    return int(line.split()[1]) if line else 0, time.monotonic() - start


@contextlib.contextmanager
def running(port, clients=64, address='127.0.0.3'):
    """A flood during the block; yields a dict that has {code: answers} behind it."""
    process = subprocess.Popen([sys.executable, '-m', __name__, str(port), str(clients), address],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    found = {}
    try:
        process.stdout.readline()                    # all of them have been answered once
        yield found
    finally:
        out, _ = process.communicate(timeout=2 * PATIENCE_S)
        found |= {int(code): number for code, number in json.loads(out).items()}


def main(port, clients, address):
    codes, lock = collections.Counter(), threading.Lock()
    begun = threading.Barrier(clients + 1)

    def go_on():
        first = True
        while True:
            try:
                code, _seconds = ask(port, address, request(secrets.token_hex(8), 'x'))
            except OSError:
                code = 0
            with lock:
                codes[code] += 1
            if first:
                begun.wait()
                first = False
    for _ in range(clients):
        threading.Thread(target=go_on, daemon=True).start()
    begun.wait()
    print('begun', flush=True)
    sys.stdin.read()
    with lock:                                       # those that wait are not waited for: a client may go at any time
        print(json.dumps(codes), flush=True)
        os._exit(0)


if __name__ == '__main__':
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
