"""File systems of containers: id maps, and archives that are unpacked without privileges."""
