"""Items of metadata come and go one by one, and stay within their number."""
import pytest

from nova import exception
from nova.volume.rest import items
from nova.volume.rest import schemas


def test_items_are_merged_within_their_number():
    row = {'metadata': {f'k{number}': 'old' for number in range(schemas.MAX_METADATA_ITEMS - 1)}}
    change = items.added('metadata', {'k0': 'new', 'more': 'new'}, 'too many')
    assert change(row) == {'metadata': {**row['metadata'], 'k0': 'new', 'more': 'new'}}
    with pytest.raises(exception.BadRequest, match='too many'):
        change({'metadata': {**row['metadata'], 'other': 'old'}})


def test_an_item_that_is_not_there_is_not_removed():
    assert items.removed('image_metadata', 'a')({'image_metadata': {'a': '1', 'b': '2'}}) == {
        'image_metadata': {'b': '2'}}
    with pytest.raises(exception.MetadataItemNotFound):
        items.removed('image_metadata', 'x' * 300)({'image_metadata': {}})
