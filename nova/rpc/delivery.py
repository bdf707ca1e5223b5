"""How every message is sent: it arrives in a queue, or its sender gets an error."""
import oslo_messaging

OPTIONS = {
    'retry': 3,                     # attempts to reach a broker before a sender gets an error
    # A broker that has no queue for a message says so at once, instead of dropping it in silence.
    'transport_options': oslo_messaging.TransportOptions(at_least_once=True),
}
