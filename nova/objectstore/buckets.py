"""Operations on the store and on buckets. The audit log uses the function names as action names."""

from nova.objectstore import documents
from nova.objectstore import errors
from nova.objectstore import responses
from nova.objectstore.request import Answer
from nova.objectstore.request import PAGE
from nova.objectstore.request import Request
from nova.runtime.http import priorities

DELETE_BATCH = 100                    # objects deleted in one transaction, so that other writers wait only briefly


def list_buckets(req: Request) -> Answer:
    rows = req.store.buckets(req.project)
    return responses.xml('ListAllMyBucketsResult', (responses.owner(req), ('Buckets', [
        ('Bucket', [('Name', row.name), ('CreationDate', responses.stamp(row.created_at))]) for row in rows])))


def make_bucket(req: Request) -> Answer:
    data = req.document(64 << 10)
    if data:
        root = documents.parse(data, 'CreateBucketConfiguration')
        documents.only(root, 'LocationConstraint')
        found = root.findtext('LocationConstraint')
        if found not in (None, '', req.region):
            raise errors.S3Error('InvalidLocationConstraint', f'The region of this store is {req.region}.')
    req.store.make_bucket(req.project, req.bucket)
    return 200, [('Location', '/' + req.bucket)], b''


def head_bucket(req: Request) -> Answer:
    req.store.bucket(req.project, req.bucket)
    return 200, [('x-amz-bucket-region', req.region)], b''


def remove_bucket(req: Request) -> Answer:
    req.store.remove_bucket(req.project, req.bucket)
    return 204, [], b''


def location(req: Request) -> Answer:
    req.store.bucket(req.project, req.bucket)
    text = f'{documents.HEAD}<LocationConstraint xmlns="{documents.NAMESPACE}">{req.region}</LocationConstraint>'
    return 200, [], text.encode()


def versioning(req: Request) -> Answer:
    req.store.bucket(req.project, req.bucket)
    return responses.xml('VersioningConfiguration', ())


def list_objects(req: Request) -> Answer:
    second = req.params.get('list-type') == '2'
    most, delimiter = req.number('max-keys', 0, PAGE, PAGE), req.params.get('delimiter', '')
    prefix, token = req.params.get('prefix', ''), req.params.get('continuation-token')
    after = req.params.get('start-after' if second else 'marker', '')
    if second and token is not None:
        try:
            after = bytes.fromhex(token).decode()
        except ValueError:
            raise errors.S3Error('InvalidArgument', 'The continuation token is invalid.') from None
    found = req.store.page(req.project, req.bucket, prefix, delimiter, after, most,
                           skip=not second or token is not None)
    shown = responses.shown(req.params.get('encoding-type'))
    cut = bool(found.next is not None and most)
    parts: list[tuple[str, documents.Value]] = [
        ('Name', req.bucket), ('Prefix', shown(prefix)), ('Delimiter', shown(delimiter) if delimiter else None),
        ('MaxKeys', most), ('EncodingType', req.params.get('encoding-type')), ('IsTruncated', cut)]
    if second:
        parts += [('KeyCount', len(found.rows) + len(found.prefixes)),
                  ('ContinuationToken', None if token is None else shown(token)),
                  ('StartAfter', shown(after) if token is None and after else None),
                  ('NextContinuationToken', (found.next or '').encode().hex() if cut else None)]
    else:
        parts += [('Marker', shown(after)), ('NextMarker', shown(found.next or '') if cut else None)]
    parts += [('Contents', [('Key', shown(row.key)), ('LastModified', responses.stamp(row.modified_at)),
                            ('ETag', f'"{row.etag}"'), ('Size', row.size), ('StorageClass', 'STANDARD'),
                            *([] if second and req.params.get('fetch-owner') != 'true' else [responses.owner(req)])])
              for row in found.rows]
    parts += [('CommonPrefixes', [('Prefix', shown(each))]) for each in found.prefixes]
    return responses.xml('ListBucketResult', parts)


def remove_objects(req: Request) -> Answer:
    root = documents.parse(req.document(documents.MAX_DOCUMENT), 'Delete')
    keys = [each.findtext('Key') for each in root.findall('Object')]
    if not 0 < len(keys) <= PAGE or None in keys:
        raise errors.S3Error('MalformedXML', f'A request must delete 1 to {PAGE} keys.')
    documents.only(root, 'Object', 'Quiet')
    for each in root.findall('Object'):
        documents.only(each, 'Key')
    names = [str(key) for key in keys]
    if req.record is not None:
        req.record.about(f'{len(names)}: ' + ', '.join(names))
    for start in range(0, len(names), DELETE_BATCH):
        req.store.remove(req.project, req.bucket, names[start:start + DELETE_BATCH])
        priorities.rest(req.environ)
    quiet = root.findtext('Quiet', '').lower() == 'true'
    return responses.xml('DeleteResult', [] if quiet else [('Deleted', [('Key', key)]) for key in names])
