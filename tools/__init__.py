"""Programs of others that our checks run. Nothing in here is shipped."""
