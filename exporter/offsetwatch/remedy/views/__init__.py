"""Plans and the journal as people are shown them. Pure."""
