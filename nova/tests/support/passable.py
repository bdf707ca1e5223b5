"""A directory to which every user may pass; pytest closes its own again at the start of each of its processes."""
import contextlib
import os
import pathlib
import tempfile


@contextlib.contextmanager
def directory():
    with tempfile.TemporaryDirectory(dir='/var/tmp') as made:
        os.chmod(made, 0o711)
        yield pathlib.Path(made)
