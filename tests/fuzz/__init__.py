"""Edited filter files, tables and summaries: what reads them must stand them."""
