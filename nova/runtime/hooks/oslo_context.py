"""Context of the current thread, which oslo.log adds to each line. oslo.context has no function to clear it."""
from oslo_context import context


def current() -> context.RequestContext | None:
    """Return the context of this thread, or None."""
    return context.get_current()


def become(ctx: context.RequestContext | None) -> None:
    """Set the context of this thread; None: clear it."""
    if ctx is None:
        context._request_store.__dict__.pop('context', None)
    else:
        context._request_store.context = ctx
