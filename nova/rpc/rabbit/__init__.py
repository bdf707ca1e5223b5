"""RabbitMQ by a driver of our own for oslo.messaging: ``transport_url = nova-rabbit://...``; ADR 0049 says why."""
