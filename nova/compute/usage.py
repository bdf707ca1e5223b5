"""The periodic audit of this host's usage."""
from nova import context


class UsageAudit:
    """The part of the compute's manager that asks for the audit; mixed into it."""

    def audit_instance_usage(self):
        """Have the last period recorded; whether it was not yet."""
        return self.conductor.audit_instance_usage(context.admin_context(), host=self.host)
