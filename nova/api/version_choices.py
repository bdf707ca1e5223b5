"""Requests without a version in their path: list the versions, or read the version from a header."""
import re
import urllib.parse
from wsgiref.types import WSGIEnvironment

from nova.api import request as api_request
from nova.web.request import Response

# ID, status, path, name in the media type
VERSIONS = (
    ('v2.0', 'SUPPORTED', 'v2', '2'),
    ('v2.1', 'CURRENT', 'v2.1', '2.1'),
)
_PATHS = {media: path for _id, _status, path, media in VERSIONS} | {'2.0': 'v2'}
_MEDIA_TYPE = re.compile(r'application/vnd\.openstack\.compute(?:\.v(2|2\.0|2\.1))?\+json'
                         r'(?:\s*;\s*version="?(2|2\.0|2\.1)"?)?(?=\s*(?:[,;]|\Z))', re.ASCII)


def version_of(environ: WSGIEnvironment) -> str | None:
    """Return the first path segment of the version that Accept or Content-Type selects, or None."""
    for header in ('HTTP_ACCEPT', 'CONTENT_TYPE'):
        for match in _MEDIA_TYPE.finditer(environ.get(header, '')[:1024]):
            name = match[1] or match[2]
            if name:
                return _PATHS[name]
    return None


def answer(req: api_request.Request, segments: list[str]) -> Response:
    """Return 300 Multiple Choices: the same resource below every version."""
    below = [urllib.parse.quote(segment, safe='@') for segment in segments]
    choices = [{
        'id': name, 'status': status,
        'links': [{'rel': 'self', 'href': '/'.join((req.host_url, path, *below))}],
        'media-types': [{'base': 'application/json',
                         'type': f'application/vnd.openstack.compute+json;version={media}'}],
    } for name, status, path, media in VERSIONS]
    return Response({'choices': choices}, 300)
