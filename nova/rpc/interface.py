"""What a service offers to the others: rows, one a method, and a version.

A caller's client and the manager's dispatch are both made from these rows; a contract test compares them with the
manager's methods. Additions raise the minor version, anything else the major one.
"""
import dataclasses

CALL_TIMEOUT = 60       # seconds that a caller waits for an answer, unless the row says otherwise


@dataclasses.dataclass(frozen=True)
class Method:
    """One method.

    arguments  names, after the context; passed by keyword
    call       True: the caller waits for the result; False: a cast, which may be lost or come twice
    since      version of the interface that brought it
    timeout    seconds that a caller waits
    """

    name: str
    arguments: tuple = ()
    call: bool = False
    since: str = '1.0'
    timeout: int = CALL_TIMEOUT


class Interface:
    """Rows of one service's methods.

    :param topic: the queue's name; a message for one server goes to ``topic.server``
    """

    def __init__(self, topic, version, *methods):
        self.topic, self.version = topic, version
        self.methods = {method.name: method for method in methods}
