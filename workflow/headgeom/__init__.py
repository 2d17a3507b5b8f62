"""Geometry of token selection in attention heads: measurement, bounds, taxonomy and removal."""
