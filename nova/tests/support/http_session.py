"""A session for tests that send many small requests, without what ``requests`` prepares for each of them."""
import contextlib
import http.client
import json as json_module
import re
import weakref

import requests
import requests.utils
from urllib3.util import wait

# What needs no change of its spelling before it is sent: no dot segments, no characters to be quoted.
SIMPLE = re.compile(r'http://([\w.-]+(?::\d+)?)((?:/[\w~-][\w.~:+@!$,=-]*)*/?(?:\?[\w.~:+@!$,=&/-]*)?)\Z', re.ASCII)


class Session(requests.Session):
    """Sends requests without redirects, cookies, streams, hooks and authorities itself, others as ``requests`` does.

    Its responses and errors are those of ``requests``. Threads may share it.
    """

    def __init__(self):
        super().__init__()
        self.trust_env = False
        self._idle: dict[str, list[http.client.HTTPConnection]] = {}
        weakref.finalize(self, _close, self._idle)

    def request(self, method, url, data=None, json=None, headers=None, timeout=None, **more):
        simple = SIMPLE.match(url)
        headers = {'Accept': '*/*', 'User-Agent': 'nova-tests', **(headers or {})}
        if (not simple or any(more.values()) or self.cookies or self.hooks['response'] or
                'Accept-Encoding' in headers or not all(isinstance(value, str) for value in headers.values()) or
                not isinstance(data, (bytes, type(None)))):
            return super().request(method, url, data=data, json=json, headers=headers, timeout=timeout, **more)
        if data is None and json is not None:
            data = json_module.dumps(json, allow_nan=False).encode()
            headers.setdefault('Content-Type', 'application/json')
        authority, target = simple.groups()
        try:
            response = self._send(authority, (method, target or '/', data, headers), timeout)
        except TimeoutError as error:
            raise requests.Timeout(error) from error
        except (OSError, http.client.HTTPException) as error:
            raise requests.ConnectionError(error) from error
        response.url = url
        if response.is_redirect:
            return super().request(method, url, data=data, headers=headers, timeout=timeout, **more)
        return response

    def _send(self, authority, request, timeout):
        idle = self._idle.setdefault(authority, [])
        connection = _taken(idle) or http.client.HTTPConnection(authority)
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        try:
            connection.request(*request)
            answer = connection.getresponse()
            content = answer.read()
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            idle.append(connection)
        response = requests.Response()
        response.status_code, response.reason, response._content = answer.status, answer.reason, content
        for name, value in answer.headers.items():
            before = response.headers.get(name)
            response.headers[name] = value if before is None else f'{before}, {value}'
        response.encoding = requests.utils.get_encoding_from_headers(response.headers)
        return response

    def close(self):
        _close(self._idle)
        super().close()


def _taken(idle):
    """An idle connection that the other end has not closed, or None."""
    with contextlib.suppress(IndexError):
        while True:
            connection = idle.pop()
            if not wait.wait_for_read(connection.sock, timeout=0.0):
                return connection
            connection.close()
    return None


def _close(idle):
    for connections in idle.values():
        while connections:
            connections.pop().close()
