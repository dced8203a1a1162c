"""What a configuration may name as oauth_hook."""
