"""What holds for a whole test session, before anything else is imported: the thread model, no cloud of the caller's."""
import os

from nova import concurrency

concurrency.setup()

# Whoever uses the quickstart's cloud has exported OS_CLOUD; clients that tests start must not go there.
for _name in [name for name in os.environ if name.startswith('OS_')]:
    del os.environ[_name]
