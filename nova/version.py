"""Version of the product, as packages, programs, the API and the dashboard report it."""
VERSION = '1.0.0'
