"""Diffusion priors: what images of a kind look like, learnt from images that no client holds."""
