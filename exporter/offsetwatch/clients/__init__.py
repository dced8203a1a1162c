"""THE ONLY SOCKETS OUT. Every library error is translated at this line into offsetwatch.errors."""
