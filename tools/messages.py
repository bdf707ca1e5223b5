#!/usr/bin/env python3
"""The catalogs of nova/locale: what users may read, in other languages. Needs Babel.

    tools/messages.py extract            nova/locale/nova.pot from the code
    tools/messages.py update [LANGUAGE]  the catalog of a language, or all, from nova.pot; a new one is made
    tools/messages.py compile            the .mo files that a running service reads
    tools/messages.py check              0 when all of these are as the code wants them

Extracted are the templates of nova.exception, the sentences that errors are raised with where these are plain texts,
and what is marked with _(), and the texts of the dashboard's modules (nova.api.dashboard.texts).
"""
import ast
import datetime
import io
import pathlib
import sys

from babel.messages import catalog as catalogs
from babel.messages import mofile
from babel.messages import pofile

from nova.api.dashboard import app as dashboard
from nova.api.dashboard import texts

REST_PACKAGES = ('nova/identity/rest/', 'nova/identity/embedded/', 'nova/image/rest/', 'nova/network/rest/',
         'nova/volume/rest/')
TREE = pathlib.Path(__file__).resolve().parents[1]
LOCALES = TREE / 'nova' / 'locale'
TEMPLATE = LOCALES / 'nova.pot'
NEVER = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MARKS = ('_', '_LI', '_LW', '_LE', '_LC')
HEADER = '# Texts of nova for its users. See tools/messages.py.'


def messages(path):
    """(line, text) of each text of a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        if isinstance(node, ast.Call) and node.args:
            function = node.func
            raised = (isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
                      and function.value.id == 'exception' and function.attr[:1].isupper())
            marked = isinstance(function, ast.Name) and function.id in MARKS
            if (raised or marked) and _text(node.args[0]):
                yield node.lineno, node.args[0].value
        elif (isinstance(node, ast.Assign) and path.name == 'exception.py' and _text(node.value)
              and getattr(node.targets[0], 'id', None) == 'template'):
            yield node.lineno, node.value.value
        elif isinstance(node, ast.ClassDef) and path.name == 'exception.py':
            yield from ((node.lineno, each.value.value) for each in node.keywords if each.arg == 'template')


def _text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value


def extracted():
    found = catalogs.Catalog(domain='nova', project='nova', header_comment=HEADER, charset='utf-8')
    for path in sorted((TREE / 'nova').rglob('*.py')):
        where = path.relative_to(TREE).as_posix()
        if where.startswith(('nova/tests/', *REST_PACKAGES)):       # the embedded faces answer by themselves
            continue
        for _line, text in sorted(messages(path)):
            flags = ('python-format',) if '%(' in text else ()
            found.add(text, locations=[(where, None)], flags=flags)
    for path in sorted(dashboard.STATIC.rglob('*.js')):
        for text in sorted(set(texts.translatable(path.read_bytes()))):
            found.add(text, locations=[(path.relative_to(TREE).as_posix(), None)])
    return found


def written(catalog):
    output = io.BytesIO()
    pofile.write_po(output, catalog, width=120, sort_output=True, omit_header=False, include_lineno=False)
    lines = output.getvalue().decode().splitlines(keepends=True)
    return ''.join(line for line in lines if not line.startswith(('"POT-Creation-Date', '"PO-Revision-Date',
                                                                  '"Generated-By')))


def read(path, locale=None):
    with open(path, 'rb') as file:
        return pofile.read_po(file, locale=locale)


def files():
    """{language: its .po}"""
    return {path.parents[1].name: path for path in sorted(LOCALES.glob('*/LC_MESSAGES/nova.po'))}


def extract():
    LOCALES.mkdir(exist_ok=True)
    TEMPLATE.write_text(written(extracted()), encoding='utf-8')


def update(language=None):
    template = read(TEMPLATE)
    for name, path in ({language: LOCALES / language / 'LC_MESSAGES' / 'nova.po'} if language else files()).items():
        present = read(path, name) if path.exists() else catalogs.Catalog(locale=name, domain='nova', charset='utf-8')
        present.update(template, no_fuzzy_matching=True)
        present.obsolete.clear()
        present.header_comment = HEADER
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written(present), encoding='utf-8')
        done = sum(bool(message.string) for message in present if message.id)
        print(f'{name}: {done} of {len(present)} texts')


def compiled(path, language):
    output, found = io.BytesIO(), read(path, language)
    found.creation_date = found.revision_date = NEVER             # the same texts make the same file
    mofile.write_mo(output, found)
    return output.getvalue()


def stale(path, language):
    """Whether the .mo next to a .po has other texts. Its header differs from one version of Babel to the next."""
    file = path.with_suffix('.mo')
    return not file.exists() or _texts(file.read_bytes()) != _texts(compiled(path, language))


def _texts(compiled_file):
    return {message.id: message.string for message in mofile.read_mo(io.BytesIO(compiled_file)) if message.id}


def compile_all():
    for language, path in files().items():
        path.with_suffix('.mo').write_bytes(compiled(path, language))


def check():
    wrong = []
    if not TEMPLATE.exists() or TEMPLATE.read_text(encoding='utf-8') != written(extracted()):
        wrong.append(f'{TEMPLATE.relative_to(TREE)} is not what the code has: tools/messages.py extract')
    for language, path in files().items():
        if stale(path, language):
            wrong.append(f'{path.relative_to(TREE)} is not compiled: tools/messages.py compile')
        for message in read(path, language):
            for error in message.check():
                wrong.append(f'{path.relative_to(TREE)}: {error}: {message.id}')
    print('\n'.join(wrong), end='\n' if wrong else '')
    return 1 if wrong else 0


COMMANDS = {'extract': extract, 'update': update, 'compile': compile_all, 'check': check}

if __name__ == '__main__':
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    sys.exit(COMMANDS[sys.argv[1]](*sys.argv[2:]))
