"""Context of the current thread: oslo.log reads it for each line; oslo.context can set it but not clear it."""
from oslo_context import context


def current() -> context.RequestContext | None:
    """Return the context of this thread; None: it has none."""
    return context.get_current()


def become(ctx: context.RequestContext | None) -> None:
    """Set the context of this thread; None: it gets none."""
    if ctx is None:
        context._request_store.__dict__.pop('context', None)
    else:
        context._request_store.context = ctx
