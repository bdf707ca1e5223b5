"""What tests share with nova/tests/functional/test_objectstore_chunks.py."""
import hashlib
import hmac

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import requests

from nova.tests.support import objectstore as test_objectstore

cloud, pair, s3, bucket = (getattr(test_objectstore, name) for name in ('cloud', 'pair', 's3', 'bucket'))
PLAIN, TRAILED = 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD', 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER'


def signed_put(url, pair, path, pieces, trailer=(), change=lambda body: body, chunk_secret=None,
               **headers):
    """Put pieces as signed chunks; ``change`` gets the bytes of the body before they are sent, ``chunk_secret`` signs
    them and not the request.
    """
    kind = TRAILED if trailer else PLAIN
    request = botocore.awsrequest.AWSRequest('PUT', url + path, headers={
        'x-amz-decoded-content-length': str(sum(map(len, pieces))), 'x-amz-content-sha256': kind,
        'content-encoding': 'aws-chunked', **({'x-amz-trailer': trailer[0]} if trailer else {}), **headers})
    signer = botocore.auth.S3SigV4Auth(botocore.credentials.Credentials(pair['access'], pair['secret']), 's3',
                                       'RegionOne')
    signer.payload = lambda request: kind
    signer.add_auth(request)
    request.headers.replace_header('X-Amz-Content-SHA256', kind)
    sent = {name: value for name, value in request.prepare().headers.items() if name != 'Content-Length'}
    return requests.put(request.url, change(framed(chunk_secret or pair['secret'], sent, pieces, trailer)),
                        headers=sent, timeout=30)


def framed(secret, headers, pieces, trailer):
    scope = headers['Authorization'].partition('Credential=')[2].split(',')[0].partition('/')[2]
    last, key, body = headers['Authorization'].rpartition('=')[2], ('AWS4' + secret).encode(), b''
    for part in scope.split('/'):
        key = hmac.digest(key, part.encode(), 'sha256')

    def signature(kind, *lines):
        nonlocal last
        text = '\n'.join(('AWS4-HMAC-SHA256-' + kind, headers['X-Amz-Date'], scope, last, *lines))
        last = hmac.digest(key, text.encode(), 'sha256').hex()
        return last.encode()
    for piece in (*pieces, b''):
        made = signature('PAYLOAD', hashlib.sha256().hexdigest(), hashlib.sha256(piece).hexdigest())
        body += b'%x;chunk-signature=%s\r\n%s' % (len(piece), made, piece and piece + b'\r\n')
    if trailer:
        line = ':'.join(trailer).encode()
        made = signature('TRAILER', hashlib.sha256(line + b'\n').hexdigest())
        body += line + b'\r\nx-amz-trailer-signature:' + made + b'\r\n'
    return body + b'\r\n'
