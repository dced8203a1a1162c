"""STATE -> FINDINGS: numbered rules, each a small pure function. No I/O, no clock."""
