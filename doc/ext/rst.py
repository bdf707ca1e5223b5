"""reStructuredText of tables and texts, and the files that it stands in."""
import pathlib
import re


def write(app, name, pages):
    """Write {name of a page: lines} into a folder of the sources: only what has changed, which is read again; its path.
    """
    folder = pathlib.Path(app.srcdir, name)
    folder.mkdir(exist_ok=True)
    for page, lines in pages.items():
        path, text = folder / f'{page}.rst', '\n'.join(lines) + '\n'
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    return folder


def escaped(text):
    """A text without markup of its own."""
    return re.sub(r'([\\*`|])|_(?=\W|$)', lambda match: '\\' + match[0], text)


def literal(text):
    return f'``{text}``' if str(text) else ''


def heading(text, mark='='):
    return ['', text, mark * len(text), '']


def table(header, rows, widths=None):
    """A list-table; an empty list where there are no rows."""
    if not rows:
        return []
    lines = ['', '.. list-table::', '   :header-rows: 1']
    if widths:
        lines.append(f'   :widths: {widths}')
    lines.append('')
    for row in (header, *rows):
        for number, cell in enumerate(row):
            first, *more = (str(cell).split('\n') or [''])
            lines.append(('   * - ' if number == 0 else '     - ') + first)
            lines += ['       ' + line for line in more]
    return [*lines, '']


def since(first, last, newest):
    """The versions of a thing in words."""
    if first == 1 and last in (None, newest):
        return 'all'
    if last in (None, newest):
        return f'2.{first} on'
    if first == last:
        return f'2.{first}'
    return f'until 2.{last}' if first == 1 else f'2.{first} to 2.{last}'
