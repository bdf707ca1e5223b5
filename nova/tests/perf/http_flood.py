"""Hostile and honest clients of an HTTP server, each a process of its own: of Python's library alone.

    python http_flood.py hostile '{"host": …, "port": …, "paths": […], "large": […], "count": 500, "seconds": 10}'
    python http_flood.py honest '{"host": …, "port": …, "asks": [[method, path, headers, body, status], …], …}'

Both print one line of JSON at their end; ``hostile`` prints 'ready' once all its connections stand. A hostile
connection that is closed is opened again.
"""
import contextlib
import http.client
import json
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time

KINDS = ('silent', 'half headers', 'slow body', 'half chunks', 'slow reader')
SOURCES = 5                     # addresses of 127.0.0.0/8 from which hostile connections come
PAUSE_S = 18                    # between two bytes
THINK_S = 0.1                   # between two requests of an honest client


def _first(kind, path, large):
    """What a connection says at once."""
    if kind == 'silent':
        return b''
    if kind == 'slow reader':
        return large
    head = f'POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n'.encode()
    return head + {'half headers': b'X: ', 'slow body': b'Content-Length: 1000\r\n\r\n{',
                   'half chunks': b'Transfer-Encoding: chunked\r\n\r\nff\r\n{"a'}[kind]


class _Hostile:
    def __init__(self, host, port, paths, large, count, seconds):
        self._address, self._paths, self._large, self._count = (host, port), paths, large, count
        self._until = time.monotonic() + seconds
        self._selector = selectors.DefaultSelector()     # of all but the slow readers
        self._readers = []
        self._opened = self._closed = self._failed = 0

    def run(self):
        for number in range(self._count):
            self._open(number)
        print('ready', flush=True)
        said = read = time.monotonic()
        while (now := time.monotonic()) < self._until:
            for key, _ in self._selector.select(0.2):
                self._hear(key.fileobj, key.data)
            if now > read + 1:
                read = now
                self._read_a_little()
            if now > said + PAUSE_S:
                said = now
                for key in list(self._selector.get_map().values()):
                    self._say_more(key.fileobj, key.data)
        print(json.dumps({'opened': self._opened, 'closed by the server': self._closed, 'failed': self._failed,
                          'open at the end': len(self._selector.get_map()) + len(self._readers)}), flush=True)

    def _open(self, number):
        kind = KINDS[number % len(KINDS)]
        turn = number // len(KINDS)
        sock = socket.socket()
        try:
            if kind == 'slow reader':
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.settimeout(2)
            sock.bind((f'127.0.0.{2 + turn % SOURCES}', 0))
            sock.connect(self._address)
            sock.sendall(_first(kind, self._paths[turn % len(self._paths)],
                                self._large[turn % len(self._large)].encode()))
        except OSError:
            self._failed += 1
            sock.close()
            return
        self._opened += 1
        sock.setblocking(False)
        if kind == 'slow reader':
            self._readers.append((sock, number))
        else:
            self._selector.register(sock, selectors.EVENT_READ, number)

    def _hear(self, sock, number):
        if not _received(sock, 65536):
            self._selector.unregister(sock)
            self._reopen(sock, number)

    def _read_a_little(self):
        readers, self._readers = self._readers, []
        for sock, number in readers:
            if _received(sock, 100):
                self._readers.append((sock, number))
            else:
                self._reopen(sock, number)

    def _reopen(self, sock, number):
        sock.close()
        self._closed += 1
        self._open(number)

    @staticmethod
    def _say_more(sock, number):
        if KINDS[number % len(KINDS)] != 'silent':
            with contextlib.suppress(OSError):
                sock.send(b'a')


def _received(sock, size):
    """Whether the connection still stands."""
    try:
        return bool(sock.recv(size))
    except BlockingIOError:
        return True
    except OSError:
        return False


class _Honest:
    def __init__(self, host, port, asks, clients, seconds):
        self._address, self._asks, self._clients, self._seconds = (host, port), asks, clients, seconds
        self._times, self._wrong = {}, []

    def run(self):
        threads = [threading.Thread(target=self._client, args=(number,)) for number in range(self._clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        answers = {name: {'count': len(times), 'median_ms': round(statistics.median(times) * 1000, 2),
                          'worst_ms': round(max(times) * 1000, 1)} for name, times in sorted(self._times.items())}
        print(json.dumps({'wrong': self._wrong[:10], 'answers': answers}), flush=True)

    def _client(self, number):
        until = time.monotonic() + self._seconds
        connection = http.client.HTTPConnection(*self._address, timeout=30)
        turn = number
        while time.monotonic() < until:
            method, path, headers, body, expected = self._asks[turn % len(self._asks)]
            turn += 1
            begun = time.monotonic()
            try:
                connection.request(method, path, body, headers)
                response = connection.getresponse()
                response.read()
                if response.status != expected:
                    self._wrong.append(f'{method} {path}: {response.status}')
            except (OSError, http.client.HTTPException) as error:
                self._wrong.append(f'{method} {path}: {error!r}')
                connection.close()
            self._times.setdefault(f'{method} {path}', []).append(time.monotonic() - begun)
            time.sleep(THINK_S)


def start(role, **settings):
    """A process of this file; the hostile one stands when this returns."""
    process = subprocess.Popen([sys.executable, __file__, role, json.dumps(settings)], stdout=subprocess.PIPE,
                               text=True)
    if role == 'hostile' and process.stdout.readline() != 'ready\n':
        raise RuntimeError('The hostile clients have not come.')
    return process


def result(process):
    return json.loads(process.communicate()[0])


def honest(**settings):
    return result(start('honest', **settings))


def compare(host, port, asks, paths, large, *, count=500, clients=20, usual_s=1, flood_s=4):
    """Measure honest clients alone, then beside a flood.

    :param asks: [(method, path, headers, body, status expected)] of the honest ones
    :param paths: to which bodies are sent slowly
    :param large: whole requests whose answers are not taken
    :returns: {'usual': …, 'flooded': …}, each {'wrong': …, 'answers': …}
    """
    settings = {'host': host, 'port': port, 'asks': asks, 'clients': clients}
    honest(seconds=1, **settings)                        # connections of pools, caches
    usual = honest(seconds=usual_s, **settings)
    hostile = start('hostile', host=host, port=port, paths=paths, large=large, count=count, seconds=flood_s + 30)
    try:
        flooded = honest(seconds=flood_s, **settings)
    finally:
        hostile.terminate()
        hostile.communicate()
    return {'usual': usual, 'flooded': flooded}


def late(found, times=2, floor_ms=1000):
    """What of a comparison is not as it should be: wrong answers, and medians that are more than so many times more.

    :param floor_ms: what two cores add that the flood keeps busy; a server that lets itself be held up adds ten seconds
    """
    slow = [f'{name}: {before["median_ms"]} ms, flooded {found["flooded"]["answers"][name]["median_ms"]} ms'
            for name, before in found['usual']['answers'].items()
            if found['flooded']['answers'][name]['median_ms'] > times * before['median_ms'] + floor_ms]
    return found['usual']['wrong'] + found['flooded']['wrong'] + slow


if __name__ == '__main__':
    {'hostile': _Hostile, 'honest': _Honest}[sys.argv[1]](**json.loads(sys.argv[2])).run()
