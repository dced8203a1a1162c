"""The nouns of remediation: plans, incidents, facts, policies, journal records. Pure."""
