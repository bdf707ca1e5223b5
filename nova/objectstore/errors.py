"""Errors of the S3 API: code, message and HTTP status."""
PHRASES = {200: 'OK', 204: 'No Content', 206: 'Partial Content', 304: 'Not Modified', 400: 'Bad Request',
           403: 'Forbidden', 404: 'Not Found', 405: 'Method Not Allowed', 409: 'Conflict', 411: 'Length Required',
           412: 'Precondition Failed', 416: 'Range Not Satisfiable', 500: 'Internal Server Error',
           501: 'Not Implemented', 503: 'Service Unavailable', 507: 'Insufficient Storage'}


class S3Error(Exception):
    """An error response.

    :param code: error code from S3's documentation
    :param message: message for the user
    """

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


def no_bucket(name: str) -> S3Error:
    return S3Error('NoSuchBucket', f'The bucket {name!r} does not exist.', 404)


def no_key() -> S3Error:
    return S3Error('NoSuchKey', 'The key does not exist.', 404)


def no_upload() -> S3Error:
    return S3Error('NoSuchUpload', 'The upload does not exist: it was completed or aborted, or has expired.', 404)


def unsupported(what: str) -> S3Error:
    """Return the error for an unsupported S3 feature."""
    return S3Error('NotImplemented', f'{what} is not implemented by this store.', 501)
