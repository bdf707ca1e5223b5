"""ACLs of buckets and objects. They are fixed and grant full control only to the owning project."""
from nova.objectstore import documents
from nova.objectstore import errors
from nova.objectstore import responses
from nova.objectstore.request import Answer
from nova.objectstore.request import Request

OWN_ACLS = ('private', 'bucket-owner-full-control', 'bucket-owner-read')


def acl(req: Request) -> Answer:
    if req.key:
        req.store.find(req.project, req.bucket, req.key)
    else:
        req.store.bucket(req.project, req.bucket)
    grantee = [('ID', req.project), ('DisplayName', req.project)]
    body = documents.render('AccessControlPolicy', (responses.owner(req), ('AccessControlList', [
        ('Grant', [('Grantee', grantee), ('Permission', 'FULL_CONTROL')])])))
    kind = b'<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser">'
    return 200, [], body.replace(b'<Grantee>', kind)


def set_acl(req: Request) -> Answer:
    if req.header('x-amz-acl') is None:
        raise errors.unsupported('An ACL document')
    acl(req)
    return 200, [], b''
