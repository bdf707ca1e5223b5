"""The dashboard: a single-page application that uses the public APIs with the user's token (ADR 0028)."""
