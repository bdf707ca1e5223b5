"""Exceptions of this project, with message templates and HTTP codes.

``nova.web.faults`` maps them to HTTP responses. A response contains the message of a ``NovaException`` with a code
below 500. The messages of other exceptions are only logged.

    NovaException 500
    ├── BadRequest 400          InvalidInput, ImageUnacceptable, ...
    ├── Unauthorized 401
    ├── Forbidden 403           PolicyDenied, QuotaExceeded
    ├── NotFound 404            one class for each resource
    ├── NotAcceptable 406
    ├── Conflict 409            InstanceInvalidState, InstanceIsLocked, ...
    ├── Gone 410
    ├── TooLarge 413
    ├── UnsupportedMediaType 415
    ├── TooManyRequests 429
    ├── Unsupported 501         not supported by this host or deployment
    ├── Unavailable 503         another service does not respond
    └── InsufficientStorage 507 no space for images and snapshots
"""
from collections.abc import Callable, Sequence
import datetime
from typing import Any, TypedDict

MAX_FACT = 500        # maximum characters of a value in a message: clients can send long values


def _short(value: object) -> object:
    return value[:MAX_FACT] + '…' if isinstance(value, str) and len(value) > MAX_FACT else value


class NovaException(Exception):
    """Base class of the exceptions of this project.

    :param message: message for the user; the default is ``template``, formatted with ``kwargs``
    :param kwargs: values for the template; they are sent with the error over RPC
    """

    code = 500
    template = 'The service could not complete the request.'

    def __init_subclass__(cls, code: int | None = None, template: str | None = None) -> None:
        """Set the code and the template from the keywords of the class statement."""
        super().__init_subclass__()
        cls.code = cls.code if code is None else code
        cls.template = cls.template if template is None else template

    def __init__(self, message: str | None = None, **kwargs: Any) -> None:
        self.kwargs = kwargs
        super().__init__(message or self.template % {name: _short(value) for name, value in kwargs.items()})

    @property
    def message(self) -> str:
        text: str = self.args[0]
        return text

    def message_in(self, translate: Callable[[str], str]) -> str:
        """Translate the template and fill in its values, or translate the message that replaces the template."""
        facts = {name: _short(value) for name, value in self.kwargs.items()}
        try:
            from_template = self.template % facts == self.message
        except (KeyError, TypeError, ValueError):            # another message replaces the template
            from_template = False
        return translate(self.template) % facts if from_template else translate(self.message)


class AsBadRequest:
    """Context manager that converts errors about a resource in the body to BadRequest; 404 would refer to the path."""

    def __init__(self, *kinds: type[NovaException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, NovaException) and isinstance(error, self._kinds):
            raise BadRequest(error.message) from None


# ---- one class for each HTTP code -------------------------------------------

class BadRequest(NovaException, code=400, template='The request is not valid.'): ...
class Unauthorized(NovaException, code=401, template='The request you have made requires authentication.'): ...
class AccessRuleViolation(
        Unauthorized, template='The access rules of the application credential do not allow this request.'): ...
class PasswordExpired(
        Unauthorized, template='The password is expired and needs to be changed for user: %(user_id)s.'): ...


class LoginUser(TypedDict):
    """User in the response to an incomplete login."""

    id: str
    name: str
    domain_id: str
    domain_name: str


class FactorsMissing(Unauthorized):
    """A login used fewer methods than the rules of the user require.

    :param sealed: receipt for the methods used so far, as text
    :param methods: the methods used so far
    :param issued_at, expires_at: times of the receipt
    :param rules: lists of methods; each list is sufficient
    """

    def __init__(self, *, sealed: str, methods: Sequence[str], issued_at: datetime.datetime,
                 expires_at: datetime.datetime, user: LoginUser, rules: list[list[str]]) -> None:
        super().__init__()
        self.sealed, self.methods, self.user, self.rules = sealed, methods, user, rules
        self.issued_at, self.expires_at = issued_at, expires_at


class Forbidden(NovaException, code=403, template='You are not allowed to do this.'): ...
class NotFound(NovaException, code=404, template='The resource could not be found.'): ...
class MethodNotAllowed(NovaException, code=405, template='The method is not allowed for this resource.'): ...
class NotAcceptable(NovaException, code=406, template='The request cannot be answered in an acceptable form.'): ...
class Conflict(NovaException, code=409, template='The request conflicts with the present state of the resource.'): ...
class DisksLost(Conflict, template='Server %(instance_id)s cannot be started after the restore: %(reason)s'): ...
class Gone(NovaException, code=410, template='The resource is no longer there.'): ...
class TooLarge(NovaException, code=413, template='The request is larger than %(limit)s bytes.'): ...
class UnsupportedMediaType(
        NovaException, code=415, template='The content type is not supported; send application/json.'): ...
class UnsupportedContentEncoding(UnsupportedMediaType, template=(
        'The content encoding %(encoding)s is not supported; send the body without Content-Encoding.')): ...
class TooManyRequests(NovaException, code=429, template='Too many requests; try again in %(retry_after)s seconds.'): ...


class TooManyKeys(TooManyRequests, template=(
        'Your project has %(limit)s idempotency keys, the maximum; send the request without a key, or wait.')):
    """The limit of stored idempotency keys of a project is reached."""


class RateLimited(TooManyRequests, template=(
        'Only %(value)s %(verb)s request(s) can be made to %(uri)s every %(unit)s; try again in %(retry_after)s '
        'seconds.')):
    """The rate limit of a project is exceeded."""


class OverLimit(RateLimited, code=413):
    """RateLimited with the HTTP code that the first API versions used."""


class Unsupported(NovaException, code=501, template='This is not supported here.'): ...
class Unavailable(NovaException, code=503, template='The service is not available at the moment.'): ...
class InsufficientStorage(
        NovaException, code=507, template='There is not enough free disk space for this image or snapshot.'): ...


class ServiceBusy(Unavailable, template='The service is busy; try again in %(retry_after)s seconds.'):
    """The limit of concurrent requests or jobs is reached."""


# ---- 400 --------------------------------------------------------------------

class InvalidInput(BadRequest, template='Invalid input received: %(reason)s'): ...
class PasswordRefused(BadRequest, template='The password does not meet the requirements: %(reason)s'): ...
class InvalidMarker(BadRequest, template='marker [%(marker)s] not found'): ...
class AggregateNotEmpty(BadRequest, template='Cannot delete aggregate %(aggregate_id)s: it has hosts.'): ...
class ImageUnacceptable(BadRequest, template='Image %(image_id)s is unacceptable: %(reason)s'): ...
class ImageInactive(BadRequest, template='Image %(image_id)s is not active.'): ...
class FlavorTooSmall(BadRequest, template=(
        "Flavor's %(resource)s is too small for the requested image: %(have)s is less than %(need)s.")): ...
class NetworkRequestInvalid(BadRequest, template='The requested networks are not usable: %(reason)s'): ...
class InvalidVolume(BadRequest, template='Invalid volume: %(reason)s'): ...
class InvalidBlockDevice(BadRequest, template='Block Device Mapping is Invalid: %(reason)s'): ...
class NotRescuable(BadRequest, template='Instance %(instance_id)s cannot be rescued: %(reason)s'): ...
class ConsoleTypeInvalid(BadRequest, template='Invalid console type %(console_type)s'): ...
class ConsoleTypeUnavailable(BadRequest, template='Unavailable console type %(console_type)s.'): ...
class NotResized(BadRequest, template='Instance %(instance_id)s has not been resized.'): ...
class CannotResizeDisk(BadRequest, template='Server disk was unable to be resized because: %(reason)s'): ...
class KeypairInvalid(BadRequest, template='Keypair data is invalid: %(reason)s'): ...
class MigrationPreCheckError(BadRequest, template='Migration pre-check error: %(reason)s'): ...
class InvalidMigrationState(BadRequest, template=(
        'Migration %(migration_id)s state of instance %(instance_id)s is %(state)s. Cannot %(method)s while the '
        'migration is in this state.')): ...
class ComputeServiceInUse(BadRequest, template='Compute service of %(host)s is still in use.'): ...
class ComputeServiceUnavailable(BadRequest, template='Compute service of %(host)s is unavailable at this time.'): ...


# ---- 403 --------------------------------------------------------------------

class PolicyDenied(Forbidden, template="Policy doesn't allow %(rule)s to be performed."): ...


class ProjectNeeded(
        Forbidden, template='This needs a token that is scoped to a project. Yours is scoped to %(scope)s.'):
    """The request needs a token that is scoped to a project."""


class ExternalNetworkAttachForbidden(Forbidden, template=(
        'Ports of servers are not allowed on the external network %(network_id)s of another project. Connect a network '
        'of your project to it with a router, and use a floating IP.')): ...


class HostForbidden(Forbidden, template='Host %(host)s is not allowed to call %(method)s of %(topic)s: %(reason)s.'):
    """A compute host sent a request for resources of other hosts."""


class HostKeyRefused(Forbidden, template='The key of host %(host)s is not accepted: %(reason)s.'):
    """The host key is rejected."""


class MessageRefused(Forbidden, template='The message is refused: %(reason)s.'):
    """The sender of a message cannot be authenticated."""


class MessageRepeated(MessageRefused, template='The message was received before.'):
    """The message was received before: a broker may deliver a message twice."""


class FatalHookException(Forbidden, template='An extension of this deployment refused the request.'):
    """A hook (nova.hooks) aborts the wrapped call."""


class QuotaExceeded(Forbidden, template=(
        'Quota exceeded for %(resource)s: Requested %(requested)s, but already used %(used)s of %(limit)s '
        '%(resource)s')): ...
class PortLimitExceeded(
        QuotaExceeded, template='The quota of the Networking service does not allow this: %(reason)s'): ...
class VolumeLimitExceeded(
        QuotaExceeded, template="Maximum number of volumes allowed (%(limit)d) exceeded for quota 'volumes'."): ...
class SnapshotLimitExceeded(QuotaExceeded, template='Maximum number of snapshots allowed (%(limit)d) exceeded'): ...
class VolumeSizeExceedsLimit(
        QuotaExceeded, template='Requested volume size %(size)dG is larger than maximum allowed limit %(limit)dG.'): ...
class VolumeSizeExceedsAvailableQuota(QuotaExceeded, template=(
        'Requested volume or snapshot exceeds allowed %(resource)s quota. Requested %(requested)sG, quota is '
        '%(limit)sG and %(used)sG has been consumed.')): ...


class LimitExceeded(Forbidden, template='Quota exceeded, too many %(resource)s: at most %(limit)s are allowed.'):
    """A single request asks for more than a quota allows."""


class TooManyDiskDevices(Forbidden, template=(
        'The maximum allowed number of disk devices (%(maximum)d) to attach to a single instance has been '
        'exceeded.')): ...


# ---- 404 --------------------------------------------------------------------

class InstanceNotFound(NotFound, template='Instance %(instance_id)s could not be found.'): ...
class FlavorNotFound(NotFound, template='Flavor %(flavor_id)s could not be found.'): ...
class FlavorExtraSpecsNotFound(NotFound, template='Flavor %(flavor_id)s has no extra specs with key %(key)s.'): ...
class FlavorAccessNotFound(
        NotFound, template='Flavor access not found for %(flavor_id)s / %(project_id)s combination.'): ...
class KeypairNotFound(NotFound, template='Keypair %(name)s not found for user %(user_id)s'): ...
class ImageNotFound(NotFound, template='Image %(image_id)s could not be found.'): ...
class NetworkNotFound(NotFound, template='Network %(network_id)s could not be found.'): ...
class SubnetNotFound(NotFound, template='Subnet %(subnet_id)s could not be found.'): ...
class PortNotFound(NotFound, template='Port %(port_id)s could not be found.'): ...
class SecurityGroupNotFound(NotFound, template='Security group %(security_group_id)s could not be found.'): ...
class SecurityGroupRuleNotFound(NotFound, template='Security group rule %(rule_id)s could not be found.'): ...
class VolumeNotFound(NotFound, template='Volume %(volume_id)s could not be found.'): ...
class VolumeSnapshotNotFound(NotFound, template='Snapshot %(snapshot_id)s could not be found.'): ...
class VolumeBackupNotFound(NotFound, template='Backup %(backup_id)s could not be found.'): ...
class VolumeTransferNotFound(NotFound, template='Transfer %(transfer_id)s could not be found.'): ...
class VolumeAttachmentNotFound(NotFound, template='Volume attachment %(attachment_id)s could not be found.'): ...
class ShareNotFound(NotFound, template='Share %(share_id)s could not be found.'): ...
class VolumeTypeNotFound(NotFound, template='Volume type %(name)s could not be found.'): ...
class ServiceNotFound(NotFound, template='Service %(service_id)s could not be found.'): ...
class AggregateNotFound(NotFound, template='Aggregate %(aggregate_id)s could not be found.'): ...
class CategoryNotFound(NotFound, template='Instance category %(category)s could not be found.'): ...
class AggregateHostNotFound(NotFound, template='Aggregate %(aggregate_id)s has no host %(host)s.'): ...
class HostNotInMaintenance(Conflict, template='Host %(host)s is not in maintenance in aggregate %(aggregate_id)s.'): ...
class HostInMaintenance(Conflict, template='Host %(host)s is in maintenance in aggregate %(aggregate_id)s.'): ...
class MaintenanceNotFound(
        NotFound, template='Host %(host)s has had no maintenance in aggregate %(aggregate_id)s.'): ...
class ServerGroupNotFound(NotFound, template='Instance group %(group_id)s could not be found.'): ...
class ComputeHostNotFound(NotFound, template='Compute host %(host)s could not be found.'): ...
class MigrationNotFound(NotFound, template='Migration %(migration_id)s could not be found.'): ...
class InstanceActionNotFound(
        NotFound, template='Action for request_id %(request_id)s on instance %(instance_id)s not found'): ...
class ConsoleTokenNotFound(NotFound, template='Token not found'): ...
class MetadataItemNotFound(NotFound, template='Metadata item %(key)s was not found'): ...
class ExtensionNotFound(NotFound, template='Extension %(alias)s could not be found.'): ...


class IdentityNotFound(NotFound, template='Could not find %(noun)s: %(id)s.'):
    """A resource of the embedded identity service was not found: project, user, role, …."""


# ---- 409 --------------------------------------------------------------------

class InstanceInvalidState(
        Conflict, template="Cannot '%(method)s' instance %(instance_id)s while it is in %(attr)s %(state)s"): ...
class InstanceIsLocked(Conflict, template='Instance %(instance_id)s is locked'): ...
class VolumeTypeExists(Conflict, template='A volume type with the name %(name)s exists already.'): ...
class InstanceNotReady(Conflict, template='Instance %(instance_id)s is not ready'): ...


class InstanceChanged(Conflict, template='Instance %(instance_id)s changed while the request was being served.'):
    """A conditional write failed, because the row has changed."""


class ServiceStopping(InstanceChanged, template=(
        'The service is stopping; its next start continues the task of server %(instance_id)s.')):
    """A task ends early, because its service stops. The server has not changed."""


class ServerRowIsOld(InstanceChanged, template=(
        'The host does not change server %(instance_id)s, because the database is older than its guest: '
        '%(reason)s. `nova-manage state differences` lists and settles such differences.')):
    """The database row is older than the host's record: the database was restored from a backup."""


class NotOnHost(InstanceChanged, template=(
        'Server %(instance_id)s is not on host %(host)s, so %(topic)s refuses %(method)s.')):
    """A compute host acts on a server that is on another host. The host must abort its task for this server."""


class IdempotencyKeyInUse(Conflict, template='The Idempotency-Key is in use.'): ...
class FlavorExists(Conflict, template='Flavor with %(attr)s %(value)s already exists.'): ...
class FlavorAccessExists(Conflict, template=(
        'Flavor access already exists for flavor %(flavor_id)s and project %(project_id)s combination.')): ...
class KeypairExists(Conflict, template="Key pair '%(name)s' already exists."): ...
class CategoryExists(Conflict, template='Instance category %(category)s already exists.'): ...
class CategoryInUse(
        Conflict, template='Instance category %(category)s has servers: it cannot be deleted or get another name.'): ...
class CategoryIsPredefined(
        Conflict, template='Instance category %(category)s is predefined: it cannot be changed.'): ...
class AggregateNameExists(Conflict, template='Aggregate %(aggregate_name)s already exists.'): ...
class AggregateHostExists(Conflict, template='Aggregate %(aggregate_id)s already has host %(host)s.'): ...


class ZoneConflict(Conflict, template='Host %(host)s is already in availability zone %(zone)s.'):
    """The request would put a host into two availability zones."""


class ServerGroupExists(Conflict, template='Server group %(group_id)s already exists.'): ...
class ServerGroupNotEmpty(Conflict, template=(
        'Server group %(group_id)s has members: %(what)s can be changed only while it has none.')): ...


class HostHasServers(
        Conflict, template='Host %(host)s has servers: it cannot be moved to another availability zone.'):
    """The availability zone of a host with servers cannot change."""


class ServiceRunning(Conflict, template=(
        'Cannot delete service %(binary)s of host %(host)s: %(reason)s, and repeat the request.')):
    """A service that may be running cannot be deleted, because its next report would insert it again."""


class ServiceExists(Conflict, template=(
        '%(binary)s of host %(host)s belongs to another machine or state directory. Two hosts must not share a '
        'name: set host in [DEFAULT] to another one.')):
    """Another machine or state directory already uses the host name for this service."""


class WorkerEnded(NovaException, template=(
        'Worker %(number)s failed to start, with exit code %(code)s. The reason is in the lines before this one.')): ...
class HostInAnotherCell(ServiceExists, template=(
        'A host %(host)s exists in cell %(cell)s; host names must be unique across all cells. Give the new host '
        'another name, or delete the other host first.')): ...
class NetworkInUse(Conflict, template='Network %(network_id)s is still in use.'): ...
class NoMoreFixedIps(Conflict, template='No fixed IP addresses available for network %(network_id)s'): ...
class NoAddressLeft(NoMoreFixedIps, template='No fixed IP addresses available: %(reason)s'): ...
class NetworkAmbiguous(
        Conflict, template='Multiple possible networks found, use a Network ID to be more specific.'): ...
class FixedIpInUse(Conflict, template='Fixed IP address %(address)s is already in use.'): ...
class AddressTaken(FixedIpInUse, template='The fixed IP address is already in use: %(reason)s'): ...
class NetworkConflict(Conflict, template='The Networking service refused the request: %(reason)s'): ...
class PortBindingExists(NetworkConflict): ...
class PortInUse(Conflict, template='Port %(port_id)s is still in use.'): ...
class DevicePathInUse(Conflict, template='The supplied device path (%(path)s) is in use.'): ...
class IdentityExists(Conflict, template=(
        'Conflict occurred attempting to store %(noun)s - Duplicate entry found with name %(name)s.')): ...
class SecurityGroupAmbiguous(
        Conflict, template="Multiple security groups found matching '%(name)s'. Use an ID to be more specific."): ...
class SecurityGroupInUse(Conflict, template='Security group %(security_group_id)s is in use.'): ...


# ---- raised and handled within the system -----------------------------------

class NoValidHost(NovaException, template='No valid host was found. %(reason)s'):
    """No host is suitable; ``removals`` lists the number of hosts that each filter removed."""

    removals: Sequence[Any] = ()             # one scheduler.explain.Removal for each filter


class ClaimFailed(NovaException, template='Host %(host)s has no room left for instance %(instance_id)s.'):
    """A claim failed: the host has no capacity. The caller tries the next alternate host."""


class BuildFailed(NovaException, template='Build of instance %(instance_id)s failed: %(reason)s'):
    """A build failed on this host; another host may succeed."""


class DiskKeyUnavailable(NovaException, template=(
        'The key of the encrypted disks of server %(instance_id)s is not available: %(reason)s')): ...


class VirtError(NovaException, template='The hypervisor could not %(operation)s: %(reason)s'):
    """The hypervisor rejected or failed an operation."""


class RecordUnreadable(NovaException, template='The %(name)s %(source)s cannot be read: %(reason)s.'):
    """A record on the disk of a service is damaged, or its format is from an incompatible release."""


class VolumeConnected(NovaException, template='The host has connected volume %(volume_id)s: the guest may use it.'): ...


class HypervisorUnreachable(VirtError):
    """The hypervisor does not respond. If this is the first error of an operation, the operation has changed
    nothing.
    """


class GuestAgentUnavailable(VirtError, code=409):
    """The operation requires the guest agent, but it does not respond. The message is for the server's owner."""


class NotFenced(NovaException, code=409, template=(
        'Not evacuated: the former host may still write to %(part)s%(more)s: %(reason)s. Switch that host off, then '
        'evacuate with accepted_risk two-writers.')):
    """A former host of a server may still write to its disks or volumes, so the server is not started elsewhere.

    ``details`` lists each disk or volume with the reason, for administrators.
    """


class MigrationAborted(NovaException, template='The migration of instance %(instance_id)s was aborted.'): ...


class GuestNotFound(VirtError, template='The hypervisor has no guest for instance %(instance_id)s.'):
    """The hypervisor has no guest of this instance."""


class GuestRemains(NovaException, code=409, template=(
        'The operation failed, and the hypervisor did not remove its guest. The guest may still run, so it keeps its '
        'volumes and ports. Delete the server when the hypervisor answers again.')):
    """The rollback of a task could not remove the guest, so the server stays on this host.

    ``details`` has the error of the removal, for administrators.
    """


class NetworkPlumbingError(NovaException, template='The host network could not be set up: %(reason)s'):
    """This host failed to set up a bridge, DHCP server or filter."""


class PortBindingFailed(NovaException, template='A port could not be bound: %(reason)s'):
    """No agent of the Networking service can plug a port on this host. An agent on another host may succeed."""


class VifPluggingFailed(
        NovaException, template='The network of instance %(instance_id)s was not set up: %(reason)s'):
    """The Networking service reported a failure, or timed out, for ports that a host had plugged."""


class HostUnavailable(Unavailable, template='The compute host %(host)s does not answer.'): ...
class ServiceUnavailable(Unavailable, template='The %(service)s service does not answer.'): ...
class ConsoleUnreachable(
        Unavailable, template='The console of this server does not answer. The server may be starting or stopped.'): ...
class TooManyHostKeys(Unavailable, template=(
        'Too many keys of hosts wait for approval, or host %(host)s has renewed its key too often; see "nova-manage '
        'host keys", or try again in a day.')): ...
class TooManyBuilds(Unavailable, template=(
        'Too many servers are waiting to be built; try again in %(retry_after)s seconds.')): ...


class RemoteError(NovaException, template='The %(service)s service failed.'):
    """Another service failed with an unexpected error; its log has the details."""


class InvalidOption(NovaException, ValueError):
    """An option, or a file that an option names, is invalid. Reported at start-up."""


class DatabaseTooNew(NovaException, template=(
        'A newer release has contracted the %(branch)s database (%(found)s). This release knows %(known)s, and tables '
        'or columns that it needs may have been removed.')): ...
class DatabaseNotReady(NovaException, template=(
        'The %(branch)s database is at schema version %(found)s, expected %(expected)s; run: %(command)s')): ...
class DatabaseUnknown(DatabaseNotReady, template=(
        'The %(branch)s database is at schema version %(found)s, which this release does not know. This release needs '
        '%(expected)s or newer, or converts %(predecessor)s. Use the release that wrote the database to upgrade it to '
        '%(predecessor)s, or restore a backup.')): ...
