"""Unmix, then invert: the features of every private image first, then each image by itself."""
