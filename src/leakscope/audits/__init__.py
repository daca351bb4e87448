"""Audits: many cells, asked for at once."""
