"""The dashboard: a page of the product that speaks to the public APIs with the user's token (ADR 0029)."""
