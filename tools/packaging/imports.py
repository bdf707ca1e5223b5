#!/usr/bin/python3 -ISB
"""Import every compiled module of a folder of Python packages, at the build of a Debian package.

usage: imports.py FOLDER

Ends with 1 if one cannot be imported, with the reason.
"""
import importlib
import pathlib
import sys


def main():
    folder = pathlib.Path(sys.argv[1]).absolute()
    sys.path.append(str(folder))
    failed = 0
    for path in sorted(folder.rglob('*.so')):
        if path.parent.name.endswith('.libs') or not path.with_name('__init__.py').exists() and path.parent != folder:
            continue
        name = '.'.join([*path.parent.relative_to(folder).parts, path.name.partition('.')[0]])
        try:
            importlib.import_module(name)
        except ImportError as error:
            failed += 1
            print(f'{name}: {error}', file=sys.stderr)
    return min(failed, 1)


if __name__ == '__main__':
    sys.exit(main())
