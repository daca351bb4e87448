"""What leaves the client, and what the attacker gets to see of it."""
