"""Static files of the dashboard below /dashboard/, and its configuration."""
import collections.abc
import functools
import http
import pathlib
import re
import types
import typing
import urllib.parse
from wsgiref.types import StartResponse, WSGIEnvironment

import orjson
from webob import acceptparse

from nova import exception
from nova import i18n
from nova import version
from nova.api.dashboard import texts
from nova.web import bodies
from nova.web import static

ROOT = '/dashboard'
STATIC = pathlib.Path(__file__).parent / 'static'
PAGE, CONFIG, TEXTS, VERSIONED = 'index.html', 'config.json', 'texts.json', 'v/'
WEBSSO = ROOT + '/websso'                     # path to which Keystone's page posts the token of a federated login
MAX_FORM = 16384                              # maximum bytes of the form with the token
MAX_LOGINS = 8                                # maximum number of buttons of federated logins
_TOKEN = re.compile(r'[\w.=-]{1,8192}', re.ASCII)
_LOGIN = re.compile(r'(?:(\w[\w.-]{0,63})/)?(\w[\w.-]{0,63})', re.ASCII)
_USUAL_PORTS = {'http': 80, 'https': 443}

Headers = list[tuple[str, str]]


def policy(connect: list[str]) -> str:
    """Return the Content-Security-Policy: scripts, styles, images and frames of this origin only, nothing inline.

    Frames show consoles of servers. Other pages may not embed the dashboard.

    :param connect: additional origins of APIs
    """
    return '; '.join([
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "manifest-src 'self'",
        ' '.join(["connect-src 'self'", *connect]), "frame-src 'self'", "form-action 'none'",
        "frame-ancestors 'none'", "base-uri 'none'",
        "require-trusted-types-for 'script'", "trusted-types 'none'"])


def origin(url: str) -> str:
    """Return scheme, host and port of a URL as browsers send them (RFC 6454): in lower case, without the usual port."""
    parts = urllib.parse.urlsplit(url)
    host = parts.netloc.rpartition('@')[2].lower()
    return f'{parts.scheme}://{host.removesuffix(f":{_USUAL_PORTS.get(parts.scheme)}")}'


def websso_path(name: str) -> str:
    """Return the path below /v3 at which Keystone begins a federated login.

    :param name: PROTOCOL, for which Keystone finds the identity provider, or IDENTITY_PROVIDER/PROTOCOL
    :raises InvalidInput: the name is malformed
    """
    found = _LOGIN.fullmatch(name)
    if found is None:
        raise exception.InvalidInput(f'{name!r} of [dashboard] websso is neither PROTOCOL nor '
                                     'IDENTITY_PROVIDER/PROTOCOL.')
    provider, protocol = found.groups()
    return ('/auth/OS-FEDERATION/' + (f'identity_providers/{provider}/protocols/{protocol}/websso' if provider
                                      else f'websso/{protocol}'))


def websso_logins(found: collections.abc.Mapping[str, str], identity: str | None) -> list[dict[str, str]]:
    """Return [{'label', 'path'}] with one entry for each button that [dashboard] websso configures.

    :raises InvalidInput: a name is malformed, there are too many, or the identity service is the embedded one
    """
    if found and identity is None:
        raise exception.InvalidInput('[dashboard] websso needs an external Keystone. The embedded identity service '
                                     'does not federate identities.')
    if len(found) > MAX_LOGINS:
        raise exception.InvalidInput(f'[dashboard] websso has {len(found)} logins; {MAX_LOGINS} are allowed.')
    return [{'label': label.strip() or name, 'path': websso_path(name)} for name, label in found.items()]


@functools.cache
def _shipped() -> tuple[static.Files, dict[str, static.File]]:
    """Return (files of the page, {language: file with the texts of the page}), read once for each process."""
    files = static.Files(STATIC)
    return files, {language: static.File(static.TYPES['.json'], orjson.dumps(texts.catalog(language, files)))
                   for language in sorted(set(i18n.languages().values()))}


def _prefers_page(environ: WSGIEnvironment) -> bool:
    """Return whether a client asks for HTML rather than for the version document."""
    if environ['REQUEST_METHOD'] not in ('GET', 'HEAD'):
        return False
    accept = acceptparse.create_accept_header(environ.get('HTTP_ACCEPT'))
    offers = accept.acceptable_offers(['application/json', 'text/html'])
    return bool(offers) and offers[0][0] == 'text/html'


class Dashboard:
    """WSGI filter that serves the dashboard.

    :param identity: URL of the Identity API with /v3; None: /identity/v3 at the page's address
    :param base: start of URLs in the catalog; the page replaces it by its address, where browsers reach the APIs.
     None: the page does not change the URLs of the catalog
    :param connect: origins of further APIs
    :param websso: {PROTOCOL or IDENTITY_PROVIDER/PROTOCOL: text of the button} of federated logins
    :raises InvalidInput: ``websso`` is malformed, or needs an external Keystone
    """

    def __init__(self, identity: str | None = None, base: str | None = None, connect: typing.Iterable[str] = (),
                 websso: collections.abc.Mapping[str, str] = types.MappingProxyType({})) -> None:
        self._files, self._texts = _shipped()
        logins = websso_logins(websso, identity)
        self._websso_origin = origin(identity) if identity and logins else None
        origins = sorted({origin(url) for url in [*connect, *([identity] if identity else ())]})
        self._headers: Headers = [
            ('Content-Security-Policy', policy(origins)), ('X-Content-Type-Options', 'nosniff'),
            ('X-Frame-Options', 'DENY'), ('Referrer-Policy', 'no-referrer'),
            ('Cross-Origin-Opener-Policy', 'same-origin'), ('Cross-Origin-Resource-Policy', 'same-origin'),
            ('Permissions-Policy', 'camera=(), microphone=(), geolocation=(), payment=(), usb=()')]
        page = self._files.files[PAGE]
        self._page = static.File(page.kind, page.body.replace(b'{digest}', self._files.digest.encode()))
        self._config = static.File(static.TYPES['.json'], orjson.dumps(
            {'identity': identity, 'base': base, 'version': self._files.digest, 'release': version.VERSION,
             'websso': logins}))

    def answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes] | None:
        """Answer requests below /dashboard, and redirect browsers from / to /dashboard/; a filter of web.pipeline."""
        path = environ.get('PATH_INFO') or ''
        if path in ('', '/') and _prefers_page(environ):
            where = urllib.parse.quote(environ.get('SCRIPT_NAME', '') + ROOT + '/')
            return self._say(start_response, 302, 'The dashboard is at this address.',
                             [('Location', where), ('Vary', 'Accept')])
        if path != ROOT and not path.startswith(ROOT + '/'):
            return None
        if path == WEBSSO and self._websso_origin:
            return self._take_token(environ, start_response)
        if environ['REQUEST_METHOD'] not in ('GET', 'HEAD'):
            return self._say(start_response, 405, 'Only GET and HEAD are allowed.', [('Allow', 'GET, HEAD')])
        if path == ROOT:
            where = urllib.parse.quote(environ.get('SCRIPT_NAME', '') + ROOT + '/')
            return self._say(start_response, 301, 'The dashboard is below this path.', [('Location', where)])
        file, cache = self._find(path[len(ROOT) + 1:], environ)
        if file is None:
            return self._say(start_response, 404, 'File not found.')
        return static.answer(environ, start_response, file, cache, self._headers)

    def _take_token(self, environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        """Handle the form that Keystone's page posts: return the dashboard's page with the token in a meta element.

        Other sites may not post here: they could log a browser in as another user. SameSite cannot prevent this,
        because the dashboard sets no cookie. The page refuses the token if the browser tab has not begun a login.
        """
        if environ['REQUEST_METHOD'] != 'POST':
            return self._say(start_response, 405, 'Only POST is allowed.', [('Allow', 'POST')])
        if environ.get('HTTP_ORIGIN') != self._websso_origin:
            return self._say(start_response, 403, f'Only pages of {self._websso_origin} may post a token here.')
        try:
            form = urllib.parse.parse_qs(bodies.read(environ, MAX_FORM).decode('ascii', 'replace'), max_num_fields=8)
        except exception.NovaException as error:
            return self._say(start_response, error.code, str(error))
        except ValueError:
            return self._say(start_response, 400, 'The form has too many fields.')
        token = form.get('token', [''])[0]
        if not _TOKEN.fullmatch(token):
            return self._say(start_response, 400, 'The form has no token, or a malformed one.')
        page = self._page.body.replace(b'</head>', f'<meta name="nova-token" content="{token}">\n</head>'.encode())
        return self._say(start_response, 200, page, kind=self._page.kind)

    def _find(self, name: str, environ: WSGIEnvironment) -> tuple[static.File | None, str]:
        if name in ('', PAGE):
            return self._page, static.REVALIDATE
        if name == CONFIG:
            return self._config, static.REVALIDATE
        if name == TEXTS:
            return self._texts[i18n.best_language(environ.get('HTTP_ACCEPT_LANGUAGE', ''))], 'no-store'
        prefix = f'{VERSIONED}{self._files.digest}/'
        return self._files.get(name.removeprefix(prefix)) if name.startswith(prefix) else None, static.FOREVER

    def _say(self, start_response: StartResponse, code: int, text: str | bytes,
             headers: typing.Iterable[tuple[str, str]] = (), kind: str = static.TYPES['.txt']) -> list[bytes]:
        body = f'{text}\n'.encode() if isinstance(text, str) else text
        start_response(f'{code} {http.HTTPStatus(code).phrase}', [
            *self._headers, *headers, ('Content-Type', kind), ('Cache-Control', 'no-store'),
            ('Content-Length', str(len(body)))])
        return [body]
