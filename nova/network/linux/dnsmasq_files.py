"""Files of dnsmasq processes."""
import pathlib


def lines(path: pathlib.Path) -> list[str]:
    """Return the lines of a file, [] if it does not exist."""
    try:
        return path.read_text().splitlines()
    except FileNotFoundError:
        return []


def make_directory(path: pathlib.Path) -> None:
    """Create a directory and its parents, readable for dnsmasq's user regardless of the umask."""
    for directory in [*reversed(path.parents), path]:
        if not directory.exists():
            directory.mkdir()
            directory.chmod(0o755)


def write(path: pathlib.Path, text: str) -> bool:
    """Replace a file atomically. Return False if the file already has this content."""
    if path.exists() and path.read_text() == text:
        return False
    fresh = path.with_suffix('.new')
    fresh.write_text(text)
    fresh.chmod(0o644)
    fresh.replace(path)
    return True
