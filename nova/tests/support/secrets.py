"""What tests share with nova/tests/functional/test_secrets.py."""
import base64
import logging
import uuid

import pytest


class Canaries(dict):
    """Secrets by name, made when first asked for."""

    def __missing__(self, name):
        self[name] = f'canary{name.replace("_", "")}{uuid.uuid4().hex[:12]}'
        return self[name]

    def found_in(self, text, but=()):
        """Names of those that are in a text, as they are or in base64."""
        if isinstance(text, bytes):
            text = text.decode('latin-1')
        return sorted(name for name, word in self.items() if name not in but and (
            word in text or base64.b64encode(word.encode()).decode().rstrip('=')[:-1] in text))


@pytest.fixture
def log_file(tmp_path):
    """Everything that any logger says, at DEBUG."""
    path = tmp_path / 'debug.log'
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter('%(asctime)s %(name)s %(levelname)s %(message)s'))
    root, level = logging.getLogger(), logging.getLogger().level
    levels = {'nova': logging.DEBUG, 'oslo_messaging': logging.DEBUG, 'oslo_policy': logging.DEBUG,
              'cheroot': logging.DEBUG, 'urllib3': logging.WARNING}          # the last one is the client's
    before = {name: logging.getLogger(name).level for name in levels}
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    for name, wanted in levels.items():
        logging.getLogger(name).setLevel(wanted)
    yield path
    root.removeHandler(handler)
    root.setLevel(level)
    for name, old in before.items():
        logging.getLogger(name).setLevel(old)
