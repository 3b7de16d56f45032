"""Certificates: verdicts that are re-computed from their own matrices before they are returned."""
