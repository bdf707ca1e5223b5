"""The thread model of the whole test session: NOVA_THREAD_MODEL, before anything else is imported."""
from nova import concurrency

concurrency.setup()
