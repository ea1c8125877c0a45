"""Figures: what is drawn, and how."""
