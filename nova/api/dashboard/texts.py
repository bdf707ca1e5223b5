"""The page's texts in the languages of nova/locale."""
import re
import typing

from nova import i18n
from nova.web import static

# t('text') of the page's modules, and the texts of its tables: label: 'text'
_MARKED = re.compile(rb"""\bt\(\s*'((?:[^'\\\n]|\\.)+)'|\b(?:label|title|help|empty|ask): '((?:[^'\\\n]|\\.)+)'""")


def marked(source: bytes) -> typing.Iterator[str]:
    """The texts of a module that are shown in the user's language."""
    for match in _MARKED.finditer(source):
        yield (match[1] or match[2]).decode().replace("\\'", "'")


def of_page(files: static.Files) -> list[str]:
    """All texts of the page."""
    return sorted({text for name, file in files.files.items() if name.endswith('.js') for text in marked(file.body)})


def catalog(language: str, files: static.Files) -> dict[str, typing.Any]:
    """{'language': its name, 'texts': {text: in this language}} of what is translated."""
    found = {text: i18n.translate(text, language) for text in of_page(files)}
    return {'language': language.replace('_', '-'),
            'texts': {text: translated for text, translated in found.items() if translated != text}}
