"""Static files of a web page, served from memory with entity tags and compression."""
import dataclasses
import functools
import gzip
import hashlib
import pathlib
from wsgiref.types import StartResponse, WSGIEnvironment

# {suffix: media type}; files with other suffixes are not served
TYPES = {'.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8',
         '.mjs': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml',
         '.json': 'application/json', '.txt': 'text/plain; charset=utf-8', '.wasm': 'application/wasm'}
COMPRESS = 6                    # gzip level: 9 takes three times as long and saves 1 %
FOREVER = 'public, max-age=31536000, immutable'
REVALIDATE = 'no-cache'          # clients may cache, but must revalidate by entity tag


@dataclasses.dataclass(frozen=True)
class File:
    """One static file."""

    kind: str
    body: bytes

    @functools.cached_property
    def tag(self) -> str:
        """Entity tag of the body. It is weak, because the compressed body has an equal tag."""
        return f'W/"{hashlib.sha256(self.body).hexdigest()[:32]}"'

    @functools.cached_property
    def compressed(self) -> bytes:
        return gzip.compress(self.body, COMPRESS, mtime=0)


class Files:
    """Files below a directory, read once.

    :param directory: directory of the page
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.files = {path.relative_to(directory).as_posix(): File(TYPES[path.suffix], path.read_bytes())
                      for path in sorted(directory.rglob('*')) if path.suffix in TYPES and path.is_file()}

    @functools.cached_property
    def digest(self) -> str:
        """Digest of names and contents of all files."""
        found = hashlib.sha256()
        for name, file in self.files.items():
            found.update(f'{name}\0{file.tag}\0'.encode())
        return found.hexdigest()[:16]

    def get(self, path: str) -> File | None:
        """Return the file with this path, or None. Only files read before are found: path traversal is impossible.
        """
        return self.files.get(path)


def answer(environ: WSGIEnvironment, start_response: StartResponse, file: File, cache: str,
           headers: list[tuple[str, str]]) -> list[bytes]:
    """Answer a GET or HEAD request for a file.

    :param cache: value of Cache-Control
    :param headers: headers of every response
    """
    headers = [*headers, ('Cache-Control', cache), ('ETag', file.tag), ('Vary', 'Accept-Encoding')]
    if matches(environ.get('HTTP_IF_NONE_MATCH', ''), file.tag):
        start_response('304 Not Modified', headers)
        return []
    body = file.body
    if takes_gzip(environ.get('HTTP_ACCEPT_ENCODING', '')):
        body = file.compressed
        headers.append(('Content-Encoding', 'gzip'))
    start_response('200 OK', [*headers, ('Content-Type', file.kind), ('Content-Length', str(len(body)))])
    return [] if environ['REQUEST_METHOD'] == 'HEAD' else [body]


def takes_gzip(accept: str) -> bool:
    """Return True if an Accept-Encoding header (RFC 9110, 12.5.3) allows gzip."""
    for item in accept[:1000].lower().split(','):
        name, _sep, quality = item.partition(';')
        if name.strip() == 'gzip':
            return quality.replace(' ', '') not in ('q=0', 'q=0.0', 'q=0.00', 'q=0.000')
    return False


def matches(header: str, tag: str) -> bool:
    """Return True if an If-None-Match header (RFC 9110, 13.1.2) has a weak entity tag."""
    wanted = [item.strip() for item in header[:4000].split(',')]
    return '*' in wanted or tag in wanted or tag.removeprefix('W/') in wanted
