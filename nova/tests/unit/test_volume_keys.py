"""Keys of encrypted volumes in a Key Manager service: the deletion of unused secrets."""
import contextlib
import http.server
import threading
import uuid

from nova import conf as nova_conf
from nova.db import engine
from nova.db.volumes import keys as db
from nova.tests import schemas
from nova.volume.store import keys


class Service(http.server.BaseHTTPRequestHandler):
    """Deletes one secret; then it is unavailable."""

    codes: list[int] = []

    def do_DELETE(self):
        self.send_response(self.codes.pop(0))
        self.end_headers()

    def log_message(self, *words):
        pass


@contextlib.contextmanager
def serving():
    """Yield the URL of a Key Manager service."""
    with http.server.HTTPServer(('127.0.0.1', 0), Service) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f'http://127.0.0.1:{server.server_port}'
        server.shutdown()


def test_warning_counts_the_secrets_that_are_left(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(Service, 'codes', [204, 503])
    database = engine.Database(f'sqlite:///{tmp_path}/api.sqlite')
    schemas.migrate(database, 'api')
    idents = [str(uuid.uuid4()) for _number in range(4)]
    with database.writer() as conn:
        for ident in idents:
            db.insert(conn, ident, 'type', db.BARBICAN, f'secret-of-{ident}')
    with serving() as url:
        made = keys.Keys(nova_conf.new(files=[], state_path=str(tmp_path), barbican__auth_type='none',
                                       barbican__endpoint_override=url), database)
        made._reserved.add(idents[3])
        made.delete_unused_secrets()
    assert 'Cannot delete up to 2 secrets of deleted volumes' in caplog.text
    with database.reader() as conn:
        left = db.unused_outside(conn)
    assert len(left) == 3 and idents[3] in left
    database.dispose()
