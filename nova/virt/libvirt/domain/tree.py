"""Create XML elements. All text is escaped, so that text from users cannot add elements or attributes."""
import re
from xml.etree import ElementTree as etree

_NOT_XML = re.compile('[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]')


def add(parent: etree.Element, tag: str, text: str | int | None = None,
        **attributes: str | int | float | None) -> etree.Element:
    """Append an element.

    :param text: content of the element; None: empty
    :param attributes: attributes of the element; None values are omitted
    """
    element = etree.SubElement(parent, tag, {name: clean(value) for name, value in attributes.items()
                                             if value is not None})
    if text is not None:
        element.text = clean(text)
    return element


def child(parent: etree.Element, tag: str) -> etree.Element:
    """Return the child element with this tag. Add the element if it is missing."""
    found = parent.find(tag)
    return add(parent, tag) if found is None else found


def clean(value: str | int | float) -> str:
    """Return text without the characters that XML cannot represent."""
    return _NOT_XML.sub('', str(value))
