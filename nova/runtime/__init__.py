"""What every process does whatever it serves: for now HTTP; threads, lifecycle and health are to move here."""
