"""The version of the product. Packages, programs, the API and the dashboard read it here."""
VERSION = '1.0.0'
