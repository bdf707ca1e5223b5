"""Values that are derived from the Idempotency-Key of a request."""
import base64
import datetime
import hmac
import uuid

from cryptography import fernet


class IdempotentRequest:
    """One request with an Idempotency-Key.

    again        True if an earlier attempt may have been interrupted
    created_at   start of the first attempt
    attempted_at     start of this attempt
    """

    def __init__(self, project_id: str, key: str, now: datetime.datetime) -> None:
        self._project_id, self._secret, self.again = project_id, key.encode(), False
        self.created_at = self.attempted_at = now
        self.key_hash = self.derived(b'name').hex()
        self._made = 0

    def derived(self, purpose: bytes) -> bytes:
        return hmac.digest(self._secret, purpose + b':' + self._project_id.encode(), 'sha256')

    def uuid(self) -> str:
        """Return a new UUID. All attempts get the same sequence of UUIDs until the row of the key is deleted."""
        self._made += 1
        name = f'uuid:{self._made}:{self.created_at.isoformat()}'
        return str(uuid.UUID(bytes=self.derived(name.encode())[:16], version=4))

    def seal(self, answer: bytes) -> str:
        return self._cipher().encrypt(answer).decode()

    def open(self, sealed: str) -> bytes:
        return self._cipher().decrypt(sealed.encode())

    def _cipher(self) -> fernet.Fernet:
        return fernet.Fernet(base64.urlsafe_b64encode(self.derived(b'answer')))
