"""What happens to a guest between its build and its end, a module for each feature of the driver."""
