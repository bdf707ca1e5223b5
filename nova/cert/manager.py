"""RPC server of the certificate service."""
from nova import exception
from nova.cert import authorities
from nova.cert import interface
from nova.cert import signing
from nova.context import RequestContext
from nova.rpc.interface import Methods
from nova.rpc.interface import named
from nova.runtime import concurrency


class CertManager:
    """RPC methods."""

    methods: Methods

    def __init__(self, found: authorities.Authorities) -> None:
        self._authorities = found
        self.methods = Methods(interface.INTERFACE, named(
            self.fetch_ca, self.fetch_crl, self.generate_x509_cert, self.revoke_certs, self.decrypt_text,
            self.generate_vpn_cert, self.verify_signature))

    def start(self) -> None:
        """Check the directories at startup; authorities are created on demand.

        :raises Unavailable: a directory is unusable
        """
        self._authorities.check()

    # Key generation and locks block in C; blocking() lets other green threads run.

    def fetch_ca(self, ctx: RequestContext, project_id: str) -> str:
        return str(concurrency.blocking(self._authorities.trusted, project_id))

    def fetch_crl(self, ctx: RequestContext, project_id: str) -> str:
        return str(concurrency.blocking(self._authorities.lists, project_id))

    def generate_x509_cert(self, ctx: RequestContext, user_id: str, project_id: str) -> dict[str, str]:
        return _pair(concurrency.blocking(self._authorities.issue, user_id, project_id))

    def generate_vpn_cert(self, ctx: RequestContext, project_id: str) -> dict[str, str]:
        return _pair(concurrency.blocking(self._authorities.issue_vpn, project_id))

    def verify_signature(self, ctx: RequestContext, project_id: str, digest: str, signature: str) -> bool:
        return bool(concurrency.blocking(self._authorities.has_signed, project_id, digest, signature))

    def revoke_certs(self, ctx: RequestContext, user_id: str | None, project_id: str | None) -> int:
        """Revoke certificates.

        :raises InvalidInput: neither argument is given, which would revoke all
        """
        if user_id is None and project_id is None:
            raise exception.InvalidInput(reason='specify the user or the project of the certificates '
                                                'to revoke.')
        return int(concurrency.blocking(self._authorities.revoke, project_id, user_id))

    def decrypt_text(self, ctx: RequestContext, project_id: str, text: str) -> str:
        return str(concurrency.blocking(self._authorities.decrypt, project_id, text))


def _pair(made: signing.Signer) -> dict[str, str]:
    return {'private_key': signing.key_pem(made.key), 'certificate': signing.pem(made.certificate),
            'serial': signing.serial_text(made.certificate)}
