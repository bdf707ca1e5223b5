"""What the driver does with more rights than an ordinary user has, in a process of its own."""
