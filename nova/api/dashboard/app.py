"""Static files of the dashboard below /dashboard/, and its configuration."""
import functools
import http
import pathlib
import typing
import urllib.parse
from wsgiref.types import StartResponse, WSGIEnvironment

import orjson
from webob import acceptparse

from nova import i18n
from nova import version
from nova.api.dashboard import texts
from nova.web import static

ROOT = '/dashboard'
STATIC = pathlib.Path(__file__).parent / 'static'
PAGE, CONFIG, TEXTS, VERSIONED = 'index.html', 'config.json', 'texts.json', 'v/'

Headers = list[tuple[str, str]]


def policy(connect: list[str]) -> str:
    """Return the Content-Security-Policy: scripts, styles, images and frames of this origin only, nothing inline.

    A frame holds the console of a server. No other page may embed the dashboard.

    :param connect: additional origins of APIs
    """
    return '; '.join([
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "manifest-src 'self'",
        ' '.join(["connect-src 'self'", *connect]), "frame-src 'self'", "form-action 'none'",
        "frame-ancestors 'none'", "base-uri 'none'",
        "require-trusted-types-for 'script'", "trusted-types 'none'"])


def origin(url: str) -> str:
    """Return scheme, host and port of a URL."""
    parts = urllib.parse.urlsplit(url)
    return f'{parts.scheme}://{parts.netloc}'


@functools.cache
def _shipped() -> tuple[static.Files, dict[str, static.File]]:
    """Return the files of the page and its texts by language, read once for each process."""
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
    :param base: catalog URL that the page replaces by its own address, where browsers reach these APIs;
     None: the catalog's URLs belong to other hosts
    :param connect: origins of further APIs
    """

    def __init__(self, identity: str | None = None, base: str | None = None,
                 connect: typing.Iterable[str] = ()) -> None:
        self._files, self._texts = _shipped()
        origins = sorted({origin(url) for url in [*connect, *([identity] if identity else ())]})
        self._headers: Headers = [
            ('Content-Security-Policy', policy(origins)), ('X-Content-Type-Options', 'nosniff'),
            ('X-Frame-Options', 'DENY'), ('Referrer-Policy', 'no-referrer'),
            ('Cross-Origin-Opener-Policy', 'same-origin'), ('Cross-Origin-Resource-Policy', 'same-origin'),
            ('Permissions-Policy', 'camera=(), microphone=(), geolocation=(), payment=(), usb=()')]
        page = self._files.files[PAGE]
        self._page = static.File(page.kind, page.body.replace(b'{digest}', self._files.digest.encode()))
        self._config = static.File(static.TYPES['.json'], orjson.dumps(
            {'identity': identity, 'base': base, 'version': self._files.digest, 'release': version.VERSION}))

    def answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes] | None:
        """Answer requests below /dashboard, and send browsers there from the root; a filter of web.pipeline."""
        path = environ.get('PATH_INFO') or ''
        if path in ('', '/') and _prefers_page(environ):
            where = urllib.parse.quote(environ.get('SCRIPT_NAME', '') + ROOT + '/')
            return self._say(start_response, 302, 'The dashboard is at this address.',
                             [('Location', where), ('Vary', 'Accept')])
        if path != ROOT and not path.startswith(ROOT + '/'):
            return None
        if environ['REQUEST_METHOD'] not in ('GET', 'HEAD'):
            return self._say(start_response, 405, 'Only GET and HEAD are allowed.', [('Allow', 'GET, HEAD')])
        if path == ROOT:
            where = urllib.parse.quote(environ.get('SCRIPT_NAME', '') + ROOT + '/')
            return self._say(start_response, 301, 'The dashboard is below this path.', [('Location', where)])
        file, cache = self._find(path[len(ROOT) + 1:], environ)
        if file is None:
            return self._say(start_response, 404, 'File not found.')
        return static.answer(environ, start_response, file, cache, self._headers)

    def _find(self, name: str, environ: WSGIEnvironment) -> tuple[static.File | None, str]:
        if name in ('', PAGE):
            return self._page, static.REVALIDATE
        if name == CONFIG:
            return self._config, static.REVALIDATE
        if name == TEXTS:
            return self._texts[i18n.best_language(environ.get('HTTP_ACCEPT_LANGUAGE', ''))], 'no-store'
        prefix = f'{VERSIONED}{self._files.digest}/'
        return self._files.get(name.removeprefix(prefix)) if name.startswith(prefix) else None, static.FOREVER

    def _say(self, start_response: StartResponse, code: int, text: str, headers: typing.Iterable[tuple[str, str]] = (),
             ) -> list[bytes]:
        body = f'{text}\n'.encode()
        start_response(f'{code} {http.HTTPStatus(code).phrase}', [
            *self._headers, *headers, ('Content-Type', 'text/plain; charset=utf-8'), ('Cache-Control', 'no-store'),
            ('Content-Length', str(len(body)))])
        return [body]
