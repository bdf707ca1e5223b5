"""What attacks are made of: sessions that send requests, answers, and what is wrong with an answer."""
import dataclasses
import json
import re
import socket
import ssl
import time
import urllib.parse
from collections.abc import Callable

import requests

TIMEOUT_S = 20
SLOW_S = 8                    # an answer to one hostile request that takes longer is a way to stop a service
MISSING = '00000000-0000-4000-8000-00000000dead'

# What an answer must not tell of the inside: code, statements, files.
_INSIDE = re.compile(r'Traceback \(most|File "/|\.py", line|sqlalchemy|SELECT .* FROM |INSERT INTO|/site-packages/|'
                     r'oslo_db|OperationalError|IntegrityError|root:x:0:0')


@dataclasses.dataclass(frozen=True)
class Attack:
    """One attack.

    family  its class in short words
    name    unique within the family
    strike  sends it: ``strike(stage)`` -> None when the cloud held, else a sentence that says how it broke
    """

    family: str
    name: str
    strike: Callable


@dataclasses.dataclass(frozen=True)
class Answer:
    """status 0: the connection was closed without one."""

    status: int
    headers: dict
    text: str
    seconds: float


class Session:
    """One client of a cloud: its faces by name, and a token or none.

    :param urls: {'compute': URL, …} of the public endpoints
    :param verify: file with the certificate authorities to trust, or True
    """

    def __init__(self, urls: dict, token: str | None = None, project_id: str | None = None, user_id: str | None = None,
                 verify=True):
        self.urls, self.token, self.project_id, self.user_id = urls, token, project_id, user_id
        self.verify = verify
        self._http = requests.Session()
        self._http.trust_env, self._http.verify = False, verify

    def send(self, method: str, face: str, path: str, body=None, *, headers=None, data=None, version='2.96') -> Answer:
        """One request; ``path`` goes out as it is, not made normal."""
        sent = {'X-Auth-Token': self.token} if self.token is not None else {}
        if face == 'compute' and version:
            sent['OpenStack-API-Version'] = f'compute {version}'
        request = requests.Request(method, 'http://x/', json=body, data=data, headers={**sent, **(headers or {})})
        ready = self._http.prepare_request(request)
        ready.url = self.urls[face] + path
        begun = time.monotonic()
        try:
            reply = self._http.send(ready, timeout=TIMEOUT_S, allow_redirects=False, verify=self.verify)
        except requests.ConnectionError:
            return Answer(0, {}, '', time.monotonic() - begun)
        return Answer(reply.status_code, dict(reply.headers), reply.text, time.monotonic() - begun)

    def make(self, face: str, path: str, body, *, method='POST', **more) -> dict:
        """The document of a request that has to succeed.

        :raises RuntimeError: it did not
        """
        answer = self.send(method, face, path, body, **more)
        if not 200 <= answer.status < 300:
            raise RuntimeError(f'{method} {face}{path}: {answer.status} {answer.text[:300]}')
        return document(answer)

    def talk(self, face: str, data: bytes, wait_s: float = 2.5) -> bytes:
        """All that a server says to these bytes; b'...' is added when it leaves the connection open."""
        url = urllib.parse.urlsplit(self.urls[face])
        secure = url.scheme == 'https'
        answer = b''
        with socket.create_connection((url.hostname, url.port or (443 if secure else 80)), timeout=TIMEOUT_S) as plain:
            sock = plain
            if secure:
                cafile = self.verify if isinstance(self.verify, str) else None
                sock = ssl.create_default_context(cafile=cafile).wrap_socket(plain, server_hostname=url.hostname)
            try:
                sock.sendall(data)
                sock.settimeout(wait_s)
                while got := sock.recv(65536):
                    answer += got
            except TimeoutError:
                answer += b'...'
            except OSError:
                pass
        return answer

    def root(self, face: str) -> str:
        """The path of a face's URL."""
        return urllib.parse.urlsplit(self.urls[face]).path


def document(answer: Answer) -> dict:
    """The JSON document of an answer; empty where it has none."""
    return json.loads(answer.text) if answer.text else {}


def flaw(answer: Answer) -> str | None:
    """What is wrong with an answer whatever was asked; None when nothing is."""
    if answer.status >= 500 and answer.status not in (501, 503, 507):
        return f'it answered {answer.status}: {answer.text[:200]}'
    if found := _INSIDE.search(answer.text):
        return f'its answer ({answer.status}) tells of the inside: {found[0]!r}'
    if answer.seconds > SLOW_S:
        return f'its answer took {answer.seconds:.1f} s'
    return None


def refused(answer: Answer, allowed: tuple = (400, 401, 403, 404, 405, 406, 409, 411, 413, 414, 415, 422, 429, 431,
                                              501, 0)) -> str | None:
    """What is wrong with an answer to something that must not be done; None when it was refused well."""
    if wrong := flaw(answer):
        return wrong
    return None if answer.status in allowed else f'it answered {answer.status}: {answer.text[:200]}'


def is_alike(answer: Answer, missing: Answer, thing: str) -> str | None:
    """None when what belongs to another project is answered as what is not there.

    :param thing: the id, which each answer may repeat
    """
    if wrong := flaw(answer):
        return wrong
    if answer.status != missing.status:
        return f'it answered {answer.status}, and {missing.status} for what is not there: {answer.text[:200]}'
    if answer.text.replace(thing, '') != missing.text.replace(MISSING, ''):
        return f'its answer ({answer.status}) differs from the one for what is not there: {answer.text[:200]}'
    return None
