"""Delivery options of every message: it arrives in a queue, or its sender gets an error."""
import oslo_messaging

OPTIONS = {
    'retry': 3,                     # attempts to reach a broker before a sender gets an error
    # A broker without a queue for a message returns it instead of dropping it.
    'transport_options': oslo_messaging.TransportOptions(at_least_once=True),
}
