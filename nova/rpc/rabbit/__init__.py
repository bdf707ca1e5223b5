"""RabbitMQ driver of this project for oslo.messaging: ``transport_url = nova-rabbit://...``; see ADR 0009."""
